// bin_splats on the GPU: sort visible splats by depth, write their tile instances in that order, then sort the
// instances by tile only. Splats are few and instances many, so the many are sorted by a short key.
#include "../abi.h"
#include "../math/splat.h"
#include "error.h"
#include "project_gaussians.h"
#include "workspace.h"

#include <cub/block/block_scan.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

namespace luxel {
namespace {

constexpr int kThreads = 256;
constexpr int kCooperative = 32;  // splats with more instances than this are written by their whole warp

__global__ void depth_keys_kernel(const float* splats, const int32_t* visible, const int64_t* totals, int64_t capacity,
                                  uint32_t* keys, int32_t* indices) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= capacity) return;
  const bool valid = i < totals[0];
  const int32_t index = valid ? visible[i] : -1;
  keys[i] = valid ? __float_as_uint(splats[LUXEL_SPLAT * static_cast<int64_t>(index) + 3]) : ~0u;  // depths are positive
  indices[i] = index;
}

// Number of instances of the i-th splat in depth order.
struct SortedCount {
  const int32_t* sorted;
  const int32_t* tile_counts;
  __host__ __device__ int64_t operator()(int64_t i) const { return sorted[i] < 0 ? 0 : tile_counts[sorted[i]]; }
};

template <typename Key>
__global__ void __launch_bounds__(kThreads)
    write_instances_kernel(luxel_bin_splats_args args, const int32_t* sorted, const int64_t* ends, Key* keys, int32_t* values) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int tiles_x = tiles_along(args.width), tiles_y = tiles_along(args.height);
  const int tiles = tiles_x * tiles_y;
  const float* splats = in<float>(args.splats);
  const int32_t index = i < args.visible_capacity ? sorted[i] : -1;
  const int64_t end = index < 0 ? 0 : ends[i];
  const int64_t start = index < 0 ? 0 : end - args.tile_counts[index];
  const int64_t room = smaller(end, args.capacity);
  if (end > args.capacity) args.overflow[0] = 1;
  const bool large = end - start > kCooperative;
  if (index >= 0 && !large) {
    int64_t next = start;
    const int base = index / args.count * tiles;
    for_tile_rows(splats + LUXEL_SPLAT * static_cast<int64_t>(index), tiles_x, tiles_y, 0, tiles_y, [&](int row, int column, int last) {
      for (; column < last && next < room; ++column, ++next) {
        keys[next] = static_cast<Key>(base + row * tiles_x + column);
        values[next] = index;
      }
    });
    // Rounding may differ from the count made when projecting: leave no slot unwritten.
    for (; next < room; ++next) keys[next] = static_cast<Key>(~Key(0)), values[next] = index;
  }
  const int lane = threadIdx.x & 31;
  unsigned pending = __ballot_sync(~0u, large);
  while (pending != 0) {
    const int owner = __ffs(pending) - 1;
    pending &= pending - 1;
    const int32_t id = __shfl_sync(~0u, index, owner);
    int64_t next = __shfl_sync(~0u, start, owner);
    const int64_t stop = __shfl_sync(~0u, room, owner);
    const int base = id / args.count * tiles;
    const float* splat = splats + LUXEL_SPLAT * static_cast<int64_t>(id);
    for (int first = 0; first < tiles_y; first += 32) {  // each lane measures one row, then all fill row after row
      int column0 = 0, column1 = 0;
      for_tile_rows(splat, tiles_x, tiles_y, first + lane, min(first + lane + 1, tiles_y),
                    [&](int, int column, int last) { column0 = column, column1 = last; });
      unsigned rows = __ballot_sync(~0u, column0 < column1);
      while (rows != 0) {
        const int row = __ffs(rows) - 1;
        rows &= rows - 1;
        const int from = __shfl_sync(~0u, column0, row), to = __shfl_sync(~0u, column1, row);
        for (int column = from + lane; column < to; column += 32) {
          const int64_t slot = next + column - from;
          if (slot < stop) {
            keys[slot] = static_cast<Key>(base + (first + row) * tiles_x + column);
            values[slot] = id;
          }
        }
        next += to - from;
      }
    }
    for (int64_t slot = next + lane; slot < stop; slot += 32) keys[slot] = static_cast<Key>(~Key(0)), values[slot] = id;
  }
}

template <typename Key>
__global__ void ranges_kernel(const Key* keys, const int64_t* totals, int64_t capacity, int64_t tiles, int32_t* ranges) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t count = smaller(totals[1], capacity);
  if (i >= count) return;
  const int64_t tile = keys[i];
  if (tile < tiles) {
    if (i == 0 || keys[i - 1] != keys[i]) ranges[2 * tile] = static_cast<int32_t>(i);
    if (i == count - 1 || keys[i + 1] != keys[i]) ranges[2 * tile + 1] = static_cast<int32_t>(i + 1);
  }
}

// Writes the plan of abi.h in one block: tiles are few. A heavy tile that starts last would keep the whole GPU waiting,
// so tiles go by length; which of two alike is first does not matter.
constexpr int kPlanThreads = 1024, kLengthClasses = 64;

__device__ __forceinline__ int length_class(int length) {  // four classes per doubling, longest first
  if (length <= 0) return kLengthClasses - 1;
  const int high = 31 - __clz(length), next_bits = high >= 2 ? length >> (high - 2) & 3 : 0;
  return kLengthClasses - 2 - smaller(4 * high + next_bits, kLengthClasses - 2);
}

struct AddPairs {
  __device__ int2 operator()(int2 a, int2 b) const { return make_int2(a.x + b.x, a.y + b.y); }
};

__global__ void __launch_bounds__(kPlanThreads) plan_kernel(const int32_t* ranges, int tiles, int32_t* plan) {
  using Scan = cub::BlockScan<int2, kPlanThreads>;
  __shared__ typename Scan::TempStorage storage;
  __shared__ int starts[kLengthClasses];
  int32_t *order = plan, *interior = plan + tiles;
  int2* pieces = reinterpret_cast<int2*>(plan + 2 * static_cast<int64_t>(tiles));
  if (threadIdx.x < kLengthClasses) starts[threadIdx.x] = 0;
  __syncthreads();
  const AddPairs add;
  int2 before = {0, 0};  // pieces, interior ends
  for (int first = 0; first < tiles; first += kPlanThreads) {
    const int tile = first + threadIdx.x;
    const int length = tile < tiles ? ranges[2 * tile + 1] - ranges[2 * tile] : 0;
    const int count = (length + LUXEL_PIECE - 1) / LUXEL_PIECE;
    int2 mine = {count, count > 0 ? count - 1 : 0}, offset, total;
    Scan(storage).ExclusiveScan(mine, offset, make_int2(0, 0), add, total);
    if (tile < tiles) {
      atomicAdd(&starts[length_class(length)], 1);
      interior[tile] = before.y + offset.y;
      for (int k = 0; k < count; ++k) pieces[before.x + offset.x + k] = make_int2(tile, k);
    }
    before = add(before, total);
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    int sum = 0;
    for (int& start : starts) {
      const int count = start;
      start = sum;
      sum += count;
    }
  }
  __syncthreads();
  for (int tile = threadIdx.x; tile < tiles; tile += kPlanThreads)
    order[atomicAdd(&starts[length_class(ranges[2 * tile + 1] - ranges[2 * tile])], 1)] = tile;
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
  const auto blocks = [](int64_t n) { return static_cast<unsigned>((n + kThreads - 1) / kThreads); };
  LUXEL_CUDA(cudaMemsetAsync(args.overflow, 0, sizeof(int32_t), stream));
  LUXEL_CUDA(cudaMemsetAsync(args.ranges, 0, sizeof(int32_t) * 2 * tiles, stream));
  LUXEL_CUDA(cudaMemsetAsync(tile_keys, 0xff, sizeof(Key) * capacity, stream));
  depth_keys_kernel<<<blocks(seen), kThreads, 0, stream>>>(in<float>(args.splats), args.visible, args.totals, seen, keys, indices);
  LUXEL_LAUNCHED("depth_keys");
  LUXEL_CUDA(cub::DeviceRadixSort::SortPairs(cub_storage, cub_bytes, keys, keys_sorted, indices, sorted, seen, 0, 32, stream));
  LUXEL_CUDA(cub::DeviceScan::InclusiveSum(cub_storage, cub_bytes, counts, ends, seen, stream));
  write_instances_kernel<Key><<<blocks(seen), kThreads, 0, stream>>>(args, sorted, ends, tile_keys, unsorted);
  LUXEL_LAUNCHED("write_instances");
  LUXEL_CUDA(cub::DeviceRadixSort::SortPairs(cub_storage, cub_bytes, tile_keys, tile_keys_sorted, unsorted, args.instances, capacity,
                                             0, key_bits, stream));
  ranges_kernel<Key><<<blocks(capacity), kThreads, 0, stream>>>(tile_keys_sorted, args.totals, capacity, tiles, args.ranges);
  LUXEL_LAUNCHED("ranges");
  if (args.plan != nullptr) {
    LUXEL_CUDA(cudaMemsetAsync(args.plan + 2 * tiles, 0xff, sizeof(int2) * (tiles + capacity / LUXEL_PIECE), stream));
    plan_kernel<<<1, kPlanThreads, 0, stream>>>(args.ranges, static_cast<int>(tiles), args.plan);
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
