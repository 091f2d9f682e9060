// The first half of bin_splats on the GPU: collects the visible splats with depth keys and, after their sort, computes the end of
// each splat's instances.
#pragma once

#include "abi/raster.h"
#include "device/look_back.cuh"
#include "kernels/raster/bin/bin_counters.cuh"

namespace luxel {
namespace {

// Positive floats are ordered as their bits; 30 bits distinguish all depths from 2^-64 to 2^64.
__device__ __forceinline__ uint32_t depth_key(float depth) {
  constexpr int kMin = (127 - 64) << 23, kKeys = 1 << 30;
  return static_cast<uint32_t>(clamp(__float_as_int(depth) - kMin, 0, kKeys - 1));
}

// Memory that the first kernel zeroes for later ones.
struct Ready {
  uint32_t* depth_words;  // of the first pass
  int depth_tile;         // splats per tile of that pass
  uint64_t* scan_words;
  int64_t scan_tiles;
};

// Writes keys and indices of the visible splats, rows of row_width numbers, in index order, which the sort retains at equal depth.
template <int kRows>
__global__ void __launch_bounds__(kThreads, kGatherBound)
    gather_seen_kernel(const luxel_bin_splats_args args, Counters* counters, uint64_t* words, const Ready ready, int row_width,
                       uint32_t* keys, int32_t* indices) {
  constexpr int kTile = kThreads * kRows, kDigits = 1 << kDepthDigit;
  __shared__ uint32_t histogram[kDepthPasses][kDigits];
  __shared__ int64_t before[kWarps];  // visible splats before each warp's rows
  const int64_t rows = static_cast<int64_t>(args.count) * args.cameras;
  const int tiles = static_cast<int>((rows + kTile - 1) / kTile), warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int64_t kept_splats = smaller(args.totals[0], args.visible_capacity);
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    args.overflow[0] = args.totals[1] > args.capacity;
    counters->seen = kept_splats;
    counters->instances = smaller(args.totals[1], args.capacity);
  }
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads, start = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  for (int64_t k = start; k < ready.scan_tiles; k += stride) ready.scan_words[k] = 0;
  const int64_t depth_tiles = (kept_splats + ready.depth_tile - 1) / ready.depth_tile;
  for (int64_t k = start; k < depth_tiles * (kDigits / 4); k += stride)
    reinterpret_cast<uint4*>(ready.depth_words)[k] = make_uint4(0, 0, 0, 0);
  for (int k = threadIdx.x; k < kDepthPasses * kDigits; k += kThreads) histogram[0][k] = 0;
  for (int tile = next_tile(&counters->gather_tickets); tile < tiles; tile = next_tile(&counters->gather_tickets)) {
    const int64_t first = static_cast<int64_t>(tile) * kTile + warp * 32 * kRows + lane;
    unsigned masks[kRows];
    int seen = 0;
#pragma unroll
    for (int i = 0; i < kRows; ++i) masks[i] = first + 32 * i < rows ? args.tile_counts[first + 32 * i] : 0;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      masks[i] = __ballot_sync(~0u, masks[i] != 0);
      seen += __popc(masks[i]);
    }
    if (lane == 0) before[warp] = seen;
    sums_before(before, words, tile);
    int64_t offset = before[warp];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const bool here = masks[i] >> lane & 1;
      const int64_t place = offset + __popc(masks[i] & ((1u << lane) - 1));
      offset += __popc(masks[i]);
      const bool kept = here && place < args.visible_capacity;
      uint32_t key = 0;
      if (kept) {
        const int64_t index = first + 32 * i;
        key = depth_key(in<float>(args.splats)[row_width * index + 3]);
        keys[place] = key;
        indices[place] = static_cast<int32_t>(index);
      }
      if (masks[i] != 0) {  // adjacent depths often share the highest digit, seldom the low ones
#pragma unroll
        for (int pass = 0; pass < kDepthPasses - 1; ++pass)
          if (kept) atomicAdd(&histogram[pass][key >> (pass * kDepthDigit) & (kDigits - 1)], 1u);
        count_digit(histogram[kDepthPasses - 1], kept ? static_cast<int>(key >> ((kDepthPasses - 1) * kDepthDigit)) : -1);
      }
    }
  }
#pragma unroll
  for (int pass = 0; pass < kDepthPasses; ++pass)
    for (int k = threadIdx.x; k < kDigits; k += kThreads)
      if (const uint32_t count = histogram[pass][k]; count > 0)
        atomicAdd(&counters->depth_histogram[pass][blockIdx.x % kCopies][k], count);
}

// One past the last instance of each splat, in depth order.
__global__ void __launch_bounds__(kThreads)
    instance_ends_kernel(const int32_t* tile_counts, const int32_t* sorted, Counters* counters, uint64_t* words, int64_t* ends) {
  constexpr int kTile = kThreads * kScanItems;
  __shared__ int64_t before[kWarps];
  const int64_t seen = counters->seen;
  if (static_cast<int64_t>(blockIdx.x) * kTile >= seen) return;
  const int tile = next_tile(&counters->scan_tickets), warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int64_t first = static_cast<int64_t>(tile) * kTile + warp * 32 * kScanItems + lane;
  int counts[kScanItems];
#pragma unroll
  for (int i = 0; i < kScanItems; ++i) counts[i] = first + 32 * i < seen ? tile_counts[sorted[first + 32 * i]] : 0;
  int64_t upto[kScanItems], total = 0;
#pragma unroll
  for (int i = 0; i < kScanItems; ++i) {
    int64_t inclusive = counts[i];
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const int64_t other = __shfl_up_sync(~0u, inclusive, step);
      if (lane >= step) inclusive += other;
    }
    upto[i] = total + inclusive;
    total += __shfl_sync(~0u, inclusive, 31);
  }
  if (lane == 0) before[warp] = total;
  sums_before(before, words, tile);
#pragma unroll
  for (int i = 0; i < kScanItems; ++i)
    if (first + 32 * i < seen) ends[first + 32 * i] = before[warp] + upto[i];
}

}  // namespace
}  // namespace luxel
