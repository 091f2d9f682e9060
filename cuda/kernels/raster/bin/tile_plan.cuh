// From sorted tile keys to the ranges of lists and the plan of abi/raster.h, the order in which blocks process tiles and pieces of
// lists. A long list that starts last would delay the entire pass, so tiles are ordered by length of list. The order of tiles
// within a length class and the order of pieces come from atomic counters and vary from run to run.
#pragma once

#include "abi/raster.h"
#include "math/hd.h"
#include "device/launch.cuh"

#include <cub/block/block_scan.cuh>

namespace luxel {
namespace {

constexpr int kRangeTiles = 255;   // tiles per block; thread 255 finds the end of the last one
constexpr int kPlanThreads = 256;
constexpr int kLengthClasses = 64;
// The forward pass treats a list as long if it exceeds both kLong and 1 / kLongShare of all instances, roughly one multiprocessor's
// share of the full image.
constexpr int kLong = 1024;
constexpr int kLongShare = 400;

struct PlanCounters {
  int tiles[kLengthClasses];   // number in each length class
  int placed[kLengthClasses];  // of them already placed
  int pieces, pieces_placed, interior_placed;
};

__device__ __forceinline__ int length_class(int length) {  // four classes per factor of two, longest first
  if (length <= 0) return kLengthClasses - 1;
  const int high = 31 - __clz(length), next_bits = high >= 2 ? length >> (high - 2) & 3 : 0;
  return kLengthClasses - 2 - smaller(4 * high + next_bits, kLengthClasses - 2);
}

__device__ __forceinline__ int pieces_of(int length, int piece) { return (length + piece - 1) / piece; }

template <typename Key>
__global__ void __launch_bounds__(kRangeTiles + 1)
    ranges_kernel(const Key* keys, const int64_t* instances, int tiles, int piece, int32_t* ranges, PlanCounters* counters) {
  __shared__ int starts[kRangeTiles + 1], classes[kLengthClasses], pieces;
  const int tile = static_cast<int>(blockIdx.x) * kRangeTiles + threadIdx.x;
  if (threadIdx.x < kLengthClasses) classes[threadIdx.x] = 0;
  if (threadIdx.x == 0) pieces = 0;
  int low = 0, high = static_cast<int>(*instances);
  while (low < high) {  // first instance whose tile is not less than this one
    const int middle = low + (high - low) / 2;
    if (static_cast<int64_t>(keys[middle]) < tile)
      low = middle + 1;
    else
      high = middle;
  }
  starts[threadIdx.x] = low;
  __syncthreads();
  if (threadIdx.x < kRangeTiles && tile < tiles) {
    const int end = starts[threadIdx.x + 1];
    reinterpret_cast<int2*>(ranges)[tile] = make_int2(low, end);
    atomicAdd(&classes[length_class(end - low)], 1);
    if (end > low) atomicAdd(&pieces, pieces_of(end - low, piece));
  }
  __syncthreads();
  if (threadIdx.x < kLengthClasses && classes[threadIdx.x] > 0) atomicAdd(&counters->tiles[threadIdx.x], classes[threadIdx.x]);
  if (threadIdx.x == 0 && pieces > 0) atomicAdd(&counters->pieces, pieces);
}

struct AddPairs {
  __device__ int2 operator()(int2 a, int2 b) const { return make_int2(a.x + b.x, a.y + b.y); }
};

__global__ void __launch_bounds__(kPlanThreads)
    plan_kernel(const int32_t* ranges, int tiles, int64_t capacity, int piece, PlanCounters* counters, int32_t* plan) {
  using Scan = cub::BlockScan<int2, kPlanThreads>;
  __shared__ typename Scan::TempStorage storage;
  __shared__ int classes[kLengthClasses], places[kLengthClasses];
  __shared__ int2 base;  // first index of this block's pieces, and of its states
  int32_t *order = plan, *interior = plan + tiles;
  int2* pieces = reinterpret_cast<int2*>(plan + 2 * static_cast<int64_t>(tiles));
  const int tile = static_cast<int>(blockIdx.x) * kPlanThreads + threadIdx.x;
  const int2 range = tile < tiles ? reinterpret_cast<const int2*>(ranges)[tile] : make_int2(0, 0);
  const int length = range.y - range.x, count = pieces_of(length, piece), length_index = length_class(length);
  if (threadIdx.x < kLengthClasses) classes[threadIdx.x] = 0;
  __syncthreads();
  const int rank = tile < tiles ? atomicAdd(&classes[length_index], 1) : 0;
  int2 offset, total;
  Scan(storage).ExclusiveScan(make_int2(count, larger(count - 1, 0)), offset, make_int2(0, 0), AddPairs(), total);
  if (threadIdx.x == 0)
    base = make_int2(atomicAdd(&counters->pieces_placed, total.x), atomicAdd(&counters->interior_placed, total.y));
  if (threadIdx.x < kLengthClasses) {
    int place = 0;
    for (int k = 0; k < static_cast<int>(threadIdx.x); ++k) place += counters->tiles[k];
    if (classes[threadIdx.x] > 0) place += atomicAdd(&counters->placed[threadIdx.x], classes[threadIdx.x]);
    places[threadIdx.x] = place;
  }
  __syncthreads();
  if (tile < tiles) {
    order[places[length_index] + rank] = tile;
    interior[tile] = base.y + offset.y;
    for (int k = 0; k < count; ++k) pieces[base.x + offset.x + k] = make_int2(tile, k);
  }
  if (tile == 0) {
    const int least = larger(kLong, ranges[2 * static_cast<int64_t>(tiles) - 1] / kLongShare);
    int long_tiles = 0;  // approximate, by length class
    for (int k = 0; k <= length_class(least); ++k) long_tiles += counters->tiles[k];
    plan[4 * static_cast<int64_t>(tiles) + 2 * (capacity / piece)] = long_tiles;
  }
  // Marks unused rows.
  for (int64_t k = counters->pieces + static_cast<int64_t>(tile); k < tiles + capacity / piece;
       k += static_cast<int64_t>(gridDim.x) * kPlanThreads)
    pieces[k] = make_int2(-1, -1);
}

}  // namespace
}  // namespace luxel
