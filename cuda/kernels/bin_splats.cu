// bin_splats on the GPU: sort visible splats by depth, write their tile instances in that order, then sort the
// instances by tile only. Splats are few and instances many, so the many are sorted by a short key.
#include "../abi.h"
#include "../math/splat.h"
#include "error.h"
#include "project_gaussians.h"
#include "tile_plan.cuh"
#include "workspace.h"

#include <cub/block/block_scan.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

namespace luxel {
namespace {

// Tunables.
constexpr int kThreads = 256;
constexpr int kWindow = 2048;  // instances that a block writes

// Also what later kernels count up from, so that no launch is spent on zeros.
__global__ void depth_keys_kernel(const luxel_bin_splats_args args, uint32_t* keys, int32_t* indices, PlanCounters* counters) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (blockIdx.x == 0) {
    if (threadIdx.x == 0) args.overflow[0] = args.totals[1] > args.capacity;
    for (int k = threadIdx.x; k < static_cast<int>(sizeof(PlanCounters) / sizeof(int)); k += kThreads)
      reinterpret_cast<int*>(counters)[k] = 0;
  }
  if (i >= args.visible_capacity) return;
  const bool valid = i < args.totals[0];
  const int32_t index = valid ? args.visible[i] : -1;
  keys[i] = valid ? __float_as_uint(in<float>(args.splats)[LUXEL_SPLAT * static_cast<int64_t>(index) + 3]) : ~0u;  // depths are positive
  indices[i] = index;
}

// Number of instances of the i-th splat in depth order.
struct SortedCount {
  const int32_t* sorted;
  const int32_t* tile_counts;
  __host__ __device__ int64_t operator()(int64_t i) const { return sorted[i] < 0 ? 0 : tile_counts[sorted[i]]; }
};

// How many of `count` ascending numbers are <= x, found by a warp: 32 probes at a time.
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

// A block owns a window of instances, whoever they belong to, so that a splat on thousands of tiles keeps no thread busy
// for long. It takes the splats of its window 256 at a time, then their rows of tiles 256 at a time, a thread each.
template <typename Key>
__global__ void __launch_bounds__(kThreads)
    write_instances_kernel(const luxel_bin_splats_args args, const int32_t* sorted, const int64_t* ends, Key* keys, int32_t* values) {
  using Scan = cub::BlockScan<int, kThreads>;
  __shared__ typename Scan::TempStorage storage;
  __shared__ __align__(16) Key window_keys[kWindow];
  __shared__ __align__(16) int32_t window_values[kWindow];
  __shared__ SplatEllipse<float> ellipses[kThreads];
  __shared__ int32_t ids[kThreads], slots[kThreads], slot_ends[kThreads];     // slots: of the window, may lie before it
  __shared__ int row_ends[kThreads], first_rows[kThreads], before[kThreads];  // before: instances of earlier splats
  const int64_t window = static_cast<int64_t>(blockIdx.x) * kWindow, window_end = smaller(window + kWindow, args.capacity);
  const int tiles_x = tiles_along(args.width), tiles_y = tiles_along(args.height);
  // Rounding may differ from the count made when projecting: what is not written below is no tile's.
  for (int k = threadIdx.x; k < kWindow; k += kThreads) window_keys[k] = static_cast<Key>(~Key(0)), window_values[k] = 0;
  const int64_t seen = window < args.totals[1] ? smaller(args.totals[0], args.visible_capacity) : 0;
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
        const SplatEllipse<float> e = SplatEllipse<float>::of(in<float>(args.splats) + LUXEL_SPLAT * static_cast<int64_t>(id));
        tile_rows(e, tiles_y, first_row, end_row);
        rows = larger(end_row - first_row, 0);
        ellipses[threadIdx.x] = e;
        ids[threadIdx.x] = id;
        slots[threadIdx.x] = static_cast<int32_t>(start - window);
        slot_ends[threadIdx.x] = static_cast<int32_t>(smaller(end, window_end) - window);
      }
    }
    int row_end, all_rows, carry = 0;
    Scan(storage).InclusiveSum(rows, row_end, all_rows);
    row_ends[threadIdx.x] = row_end;
    first_rows[threadIdx.x] = first_row - (row_end - rows);  // of all rows: row 0 would be here
    const bool more = __syncthreads_and(mine);
    for (int first = 0; first < all_rows; first += kThreads) {
      const int row = first + threadIdx.x;
      int owner = 0, column = 0, column_end = 0, tile_row = 0, offset, total;
      if (row < all_rows) {
#pragma unroll
        for (int step = kThreads / 2; step >= 1; step /= 2)
          if (row_ends[owner + step - 1] <= row) owner += step;
        tile_row = first_rows[owner] + row;
        tile_columns(ellipses[owner], tile_row, tiles_x, column, column_end);
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
  for (int k = threadIdx.x; k < static_cast<int>(window_end - window); k += kThreads) {
    keys[window + k] = window_keys[k];
    values[window + k] = window_values[k];
  }
}

template <typename Key> int run(const luxel_bin_splats_args& args, int64_t* bytes_needed) {
  const int64_t seen = args.visible_capacity, capacity = args.capacity;
  const int64_t tiles = static_cast<int64_t>(tiles_along(args.width)) * tiles_along(args.height) * args.cameras;
  int key_bits = 1;
  while ((int64_t(1) << key_bits) <= tiles) ++key_bits;  // room for the all-ones key of empty slots
  const cudaStream_t stream = static_cast<cudaStream_t>(args.stream);

  size_t depth_bytes = 0, scan_bytes = 0, tile_bytes = 0;
  Layout layout;
  uint32_t* keys = layout.take<uint32_t>(args.workspace, seen);
  uint32_t* keys_sorted = layout.take<uint32_t>(args.workspace, seen);
  int32_t* indices = layout.take<int32_t>(args.workspace, seen);
  int32_t* sorted = layout.take<int32_t>(args.workspace, seen);
  int64_t* ends = layout.take<int64_t>(args.workspace, seen);
  Key* tile_keys = layout.take<Key>(args.workspace, capacity);
  Key* tile_keys_sorted = layout.take<Key>(args.workspace, capacity);
  int32_t* unsorted = layout.take<int32_t>(args.workspace, capacity);
  PlanCounters* counters = layout.take<PlanCounters>(args.workspace, 1);
  const auto counts = thrust::make_transform_iterator(thrust::counting_iterator<int64_t>(0),
                                                      SortedCount{sorted, args.tile_counts});
  LUXEL_CUDA(cub::DeviceRadixSort::SortPairs(nullptr, depth_bytes, keys, keys_sorted, indices, sorted, seen, 0, 32, stream));
  LUXEL_CUDA(cub::DeviceScan::InclusiveSum(nullptr, scan_bytes, counts, ends, seen, stream));
  LUXEL_CUDA(cub::DeviceRadixSort::SortPairs(nullptr, tile_bytes, tile_keys, tile_keys_sorted, unsorted, args.instances, capacity,
                                             0, key_bits, stream));
  size_t cub_bytes = larger(larger(depth_bytes, scan_bytes), tile_bytes);
  void* cub_storage = layout.take<char>(args.workspace, static_cast<int64_t>(cub_bytes));
  if (bytes_needed != nullptr) {
    *bytes_needed = layout.used;
    return 0;
  }
  if (args.workspace_bytes < layout.used) return fail("workspace of %lld bytes, %lld needed",
                                                      static_cast<long long>(args.workspace_bytes), static_cast<long long>(layout.used));
  const auto blocks = [](int64_t n, int per_block) { return static_cast<unsigned>((n + per_block - 1) / per_block); };
  depth_keys_kernel<<<blocks(seen, kThreads), kThreads, 0, stream>>>(args, keys, indices, counters);
  LUXEL_LAUNCHED("depth_keys");
  LUXEL_CUDA(cub::DeviceRadixSort::SortPairs(cub_storage, cub_bytes, keys, keys_sorted, indices, sorted, seen, 0, 32, stream));
  LUXEL_CUDA(cub::DeviceScan::InclusiveSum(cub_storage, cub_bytes, counts, ends, seen, stream));
  write_instances_kernel<Key><<<blocks(capacity, kWindow), kThreads, 0, stream>>>(args, sorted, ends, tile_keys, unsorted);
  LUXEL_LAUNCHED("write_instances");
  LUXEL_CUDA(cub::DeviceRadixSort::SortPairs(cub_storage, cub_bytes, tile_keys, tile_keys_sorted, unsorted, args.instances, capacity,
                                             0, key_bits, stream));
  ranges_kernel<Key><<<blocks(tiles, kRangeTiles), kRangeTiles + 1, 0, stream>>>(tile_keys_sorted, args.totals, capacity,
                                                                                static_cast<int>(tiles), args.ranges, counters);
  LUXEL_LAUNCHED("ranges");
  if (args.plan != nullptr) {
    plan_kernel<<<blocks(tiles, kPlanThreads), kPlanThreads, 0, stream>>>(args.ranges, static_cast<int>(tiles), capacity, counters,
                                                                          args.plan);
    LUXEL_LAUNCHED("plan");
  }
  return 0;
}

int dispatch(const luxel_bin_splats_args& args, int64_t* bytes_needed) {
  if (args.capacity > INT32_MAX) return fail("%lld tile instances, more than 2^31", static_cast<long long>(args.capacity));
  const int64_t tiles = static_cast<int64_t>(tiles_along(args.width)) * tiles_along(args.height) * args.cameras;
  return tiles < 0xffff ? run<uint16_t>(args, bytes_needed) : run<uint32_t>(args, bytes_needed);
}

}  // namespace
}  // namespace luxel

extern "C" {

int64_t luxel_bin_splats_workspace(const luxel_bin_splats_args* args) {
  int64_t bytes = 0;
  const int status = luxel::dispatch(*args, &bytes);
  return status < 0 ? status : bytes;
}

int luxel_bin_splats(const luxel_bin_splats_args* args) {
  if (args->dtype != 0) return luxel::fail("the GPU kernels take float32");
  LUXEL_CUDA(cudaSetDevice(args->device));
  return luxel::dispatch(*args, nullptr);
}
}
