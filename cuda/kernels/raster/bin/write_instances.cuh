// The second half of bin_splats on the GPU: writes the tile instances of the splats in depth order.
#pragma once

#include "math/raster/policy.h"
#include "device/launch.cuh"
#include "kernels/raster/bin/bin_counters.cuh"

#include <cub/block/block_scan.cuh>

namespace luxel {
namespace {

constexpr int kWindow = 2048;  // instances per block

// The number of `count` ascending numbers that are <= x; a warp probes 32 at a time.
__device__ __forceinline__ int64_t count_up_to(const int64_t* numbers, int64_t count, int64_t x) {
  const int lane = threadIdx.x & 31;
  int64_t low = 0;
  while (count > 0) {
    const int64_t step = (count + 32) / 32, probe = (lane + 1) * step - 1;
    const int below = __popc(__ballot_sync(~0u, probe < count && numbers[low + probe] <= x));
    low += below * step;
    count = smaller(step - 1, count - below * step);
  }
  return low;
}

// Output arrays of the instances, and parameters of their sort.
template <typename Key> struct Written {
  Key* keys;
  int32_t* instances;
  uint32_t* sort_words;  // of the first pass over them, zeroed here
  int sort_tile;         // instances per tile of that sort; at least kWindow
  int passes, digit_bits;
};

// Bounds of a block's current splats: in shared memory if they are small, else recomputed for each row of tiles.
template <typename Policy> struct KeptBounds {
  using Bounds = typename Policy::Bounds;
  static constexpr bool kKept = sizeof(Bounds) <= 48;
  Bounds bounds[kKept ? kThreads : 1];

  __device__ __forceinline__ void keep(int k, const Bounds& e) {
    if (kKept) bounds[k] = e;
  }
  __device__ __forceinline__ void columns(int k, const float* splat, int row, int tiles_x, int& first, int& end) const {
    if constexpr (kKept) tile_columns(bounds[k], row, tiles_x, first, end);
    else tile_columns(Bounds::of(splat), row, tiles_x, first, end);
  }
};

// A block writes a window of consecutive instances, whatever their splats, so that a splat on thousands of tiles is shared by many
// blocks. It processes the splats of its window 256 at a time, then their rows of tiles 256 at a time, one per thread.
template <typename Policy, typename Key>
__global__ void __launch_bounds__(kThreads)
    write_instances_kernel(const luxel_bin_splats_args args, const int32_t* sorted, const int64_t* ends, Counters* counters,
                           const Written<Key> written) {
  using Scan = cub::BlockScan<int, kThreads>;
  __shared__ typename Scan::TempStorage storage;
  __shared__ __align__(16) Key window_keys[kWindow];
  __shared__ __align__(16) int32_t window_values[kWindow];
  __shared__ KeptBounds<Policy> kept;
  __shared__ int32_t ids[kThreads], slots[kThreads], slot_ends[kThreads];     // slots: relative to the window, may be negative
  __shared__ int row_ends[kThreads], first_rows[kThreads], before[kThreads];  // before: instances of earlier splats
  __shared__ uint32_t histogram[sizeof(Key)][1 << kTileDigit];
  const int64_t all = counters->instances, window = static_cast<int64_t>(blockIdx.x) * kWindow;
  const int64_t window_end = smaller(window + kWindow, all);
  if (window >= all) return;
  const int tiles_x = tiles_along(args.width), tiles_y = tiles_along(args.height);
  // Rounding may differ from the count of the projection: slots not written below belong to no tile.
  for (int k = threadIdx.x; k < kWindow; k += kThreads) window_keys[k] = static_cast<Key>(~Key(0)), window_values[k] = 0;
  for (int k = threadIdx.x; k < written.passes << kTileDigit; k += kThreads) histogram[0][k] = 0;
  if (static_cast<int64_t>(blockIdx.x) * written.sort_tile < all) {
    uint32_t* words = written.sort_words + (static_cast<int64_t>(blockIdx.x) << kTileDigit);
    for (int k = threadIdx.x; k < 1 << kTileDigit; k += kThreads) words[k] = 0;
  }
  const int64_t seen = counters->seen;
  for (int64_t base = count_up_to(ends, seen, window); base < seen; base += kThreads) {
    const int64_t i = base + threadIdx.x;
    int rows = 0, first_row = 0;
    bool mine = false;
    if (i < seen) {
      const int32_t id = sorted[i];
      const int64_t end = ends[i], start = i > 0 ? ends[i - 1] : 0;
      mine = start < window_end;
      if (mine) {
        int end_row;
        const typename Policy::Bounds e = Policy::Bounds::of(in<float>(args.splats) + Policy::kRow * static_cast<int64_t>(id));
        tile_rows(e, tiles_y, first_row, end_row);
        rows = larger(end_row - first_row, 0);
        kept.keep(threadIdx.x, e);
        ids[threadIdx.x] = id;
        slots[threadIdx.x] = static_cast<int32_t>(start - window);
        slot_ends[threadIdx.x] = static_cast<int32_t>(smaller(end, window_end) - window);
      }
    }
    int row_end, all_rows, carry = 0;
    Scan(storage).InclusiveSum(rows, row_end, all_rows);
    row_ends[threadIdx.x] = row_end;
    first_rows[threadIdx.x] = first_row - (row_end - rows);  // so that row r of all rows is tile row first_rows + r
    const bool more = __syncthreads_and(mine);
    for (int first = 0; first < all_rows; first += kThreads) {
      const int row = first + threadIdx.x;
      int owner = 0, column = 0, column_end = 0, tile_row = 0, offset, total;
      if (row < all_rows) {
#pragma unroll
        for (int step = kThreads / 2; step >= 1; step /= 2)
          if (row_ends[owner + step - 1] <= row) owner += step;
        tile_row = first_rows[owner] + row;
        const float* splat = in<float>(args.splats) + Policy::kRow * static_cast<int64_t>(ids[owner]);
        kept.columns(owner, splat, tile_row, tiles_x, column, column_end);
        column_end = larger(column, column_end);
      }
      Scan(storage).ExclusiveSum(column_end - column, offset, total);
      offset += carry;
      carry += total;
      if (row < all_rows && row == (owner == 0 ? 0 : row_ends[owner - 1])) before[owner] = offset;
      __syncthreads();
      if (row < all_rows) {
        int slot = slots[owner] + offset - before[owner];
        const int stop = slot_ends[owner], id = ids[owner];
        int key = (id / args.count * tiles_y + tile_row) * tiles_x + column;
        const int skip = larger(-slot, 0);  // before the window
        slot += skip, key += skip;
        const int count = smaller(column_end - column - skip, stop - slot);
        for (int k = 0; k < count; ++k) window_keys[slot + k] = static_cast<Key>(key + k), window_values[slot + k] = id;
      }
    }
    __syncthreads();
    if (!more) break;
  }
  __syncthreads();
  const int filled = static_cast<int>(window_end - window), mask = (1 << written.digit_bits) - 1;
  for (int base = 0; base < filled; base += kThreads) {
    const int k = base + threadIdx.x;
    const Key key = window_keys[k];
    if (k < filled) {
      written.keys[window + k] = key;
      written.instances[window + k] = window_values[k];
    }
    if (k < filled) atomicAdd(&histogram[0][key & mask], 1u);  // adjacent keys differ: atomics rarely collide
    for (int pass = 1; pass < written.passes; ++pass)
      count_digit(histogram[pass], k < filled ? static_cast<int>(key >> (pass * written.digit_bits)) & mask : -1);
  }
  __syncthreads();
  for (int pass = 0; pass < written.passes; ++pass)
    for (int k = threadIdx.x; k < 1 << kTileDigit; k += kThreads)
      if (const uint32_t count = histogram[pass][k]; count > 0)
        atomicAdd(&counters->tile_histogram[pass][blockIdx.x % kCopies][k], count);
}

template <typename Policy, typename Key> int write_instances(const luxel_bin_splats_args& args, const SortedSplats& splats) {
  const Written<Key> written = {static_cast<Key*>(splats.keys), splats.instances, splats.sort_words,
                                splats.sort_tile,               splats.passes,    splats.digit_bits};
  return launch("write_instances", write_instances_kernel<Policy, Key>, blocks_for(args.capacity, kWindow), kThreads, 0, args.stream,
                args, splats.sorted, splats.ends, static_cast<Counters*>(splats.counters), written);
}

template <typename Policy> int write_instances(const luxel_bin_splats_args& args, const SortedSplats* splats) {
  return splats->key_bytes == 2 ? write_instances<Policy, uint16_t>(args, *splats) : write_instances<Policy, uint32_t>(args, *splats);
}

}  // namespace
}  // namespace luxel
