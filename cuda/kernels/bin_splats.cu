// bin_splats on the GPU: gather what is seen, sort it by depth, write its tile instances in that order, then sort the
// instances by tile only. Splats are few and instances many, so the many are sorted by a short key.
#include "../abi.h"
#include "../math/splat.h"
#include "error.h"
#include "launch.cuh"
#include "look_back.cuh"
#include "project_gaussians.h"
#include "radix_sort.cuh"
#include "tile_plan.cuh"
#include "workspace.h"

#include <cub/block/block_scan.cuh>

namespace luxel {
namespace {

// Tunables.
constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kWindow = 2048;    // instances that a block writes
constexpr int kGatherBlocks = 8;  // of a multiprocessor
constexpr int kFewRows = 4, kManyRows = 8;  // of a thread that gathers
constexpr int64_t kFewGaussians = 1 << 20;
constexpr int kScanItems = 8;
constexpr int kDepthDigit = 10, kDepthPasses = 3;
constexpr int kTileDigit = 8, kTilePasses = 4;  // at most
constexpr int64_t kFewSplats = 1 << 18, kFewInstances = 1 << 20;  // up to here small tiles of a sort keep more of the GPU busy
constexpr int kFewItems = 8, kManyItems = 16;  // pairs of a thread

constexpr int64_t kMost = 1 << 30;  // what words of a sort can count

// What kernels count in; zeros before the first of them.
struct Counters {
  uint32_t depth_histogram[kDepthPasses][kCopies][1 << kDepthDigit];
  uint32_t tile_histogram[kTilePasses][kCopies][1 << kTileDigit];
  PlanCounters plan;
  int gather_tickets, scan_tickets, depth_tickets[kDepthPasses], tile_tickets[kTilePasses];
  int64_t seen, instances;  // of which there is room
};

// Positive depths order as the bits of floats do: 30 bits tell all from 2^-64 to 2^64 apart.
__device__ __forceinline__ uint32_t depth_key(float depth) {
  constexpr int kLeast = (127 - 64) << 23, kKeys = 1 << 30;
  return static_cast<uint32_t>(clamp(__float_as_int(depth) - kLeast, 0, kKeys - 1));
}

// What the first kernel also makes ready for others.
struct Ready {
  uint32_t* depth_words;  // of the first pass
  int depth_tile;         // splats of a tile of it
  uint64_t* scan_words;
  int64_t scan_tiles;
};

// Keys and indices of the splats that are seen, in the order of their indices: those of equal depth keep it.
template <int kRows>
__global__ void __launch_bounds__(kThreads, kGatherBlocks)
    gather_seen_kernel(const luxel_bin_splats_args args, Counters* counters, uint64_t* words, const Ready ready, uint32_t* keys,
                       int32_t* indices) {
  constexpr int kTile = kThreads * kRows, kDigits = 1 << kDepthDigit;
  __shared__ uint32_t histogram[kDepthPasses][kDigits];
  __shared__ int64_t before[kWarps];  // seen before each warp's rows
  const int64_t rows = static_cast<int64_t>(args.count) * args.cameras;
  const int tiles = static_cast<int>((rows + kTile - 1) / kTile), warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    args.overflow[0] = args.totals[1] > args.capacity;
    counters->seen = smaller(args.totals[0], args.visible_capacity);
    counters->instances = smaller(args.totals[1], args.capacity);
  }
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads, start = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  for (int64_t k = start; k < ready.scan_tiles; k += stride) ready.scan_words[k] = 0;
  const int64_t depth_tiles = (smaller(args.totals[0], args.visible_capacity) + ready.depth_tile - 1) / ready.depth_tile;
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
        key = depth_key(in<float>(args.splats)[LUXEL_SPLAT * index + 3]);
        keys[place] = key;
        indices[place] = static_cast<int32_t>(index);
      }
      if (masks[i] != 0) {  // depths differ in their low digits and are alike in the highest
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

// One past the last instance of each splat, in the order of depth.
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
template <typename Key> struct Written {
  Key* keys;
  int32_t* instances;
  uint32_t* sort_words;  // of the first pass over them, zeroed here
  int sort_tile;         // instances of a tile of it; not fewer than a window
  int passes, digit_bits;
};

template <typename Key>
__global__ void __launch_bounds__(kThreads)
    write_instances_kernel(const luxel_bin_splats_args args, const int32_t* sorted, const int64_t* ends, Counters* counters,
                           const Written<Key> written) {
  using Scan = cub::BlockScan<int, kThreads>;
  __shared__ typename Scan::TempStorage storage;
  __shared__ __align__(16) Key window_keys[kWindow];
  __shared__ __align__(16) int32_t window_values[kWindow];
  __shared__ SplatEllipse<float> ellipses[kThreads];
  __shared__ int32_t ids[kThreads], slots[kThreads], slot_ends[kThreads];     // slots: of the window, may lie before it
  __shared__ int row_ends[kThreads], first_rows[kThreads], before[kThreads];  // before: instances of earlier splats
  __shared__ uint32_t histogram[sizeof(Key)][1 << kTileDigit];
  const int64_t all = counters->instances, window = static_cast<int64_t>(blockIdx.x) * kWindow;
  const int64_t window_end = smaller(window + kWindow, all);
  if (window >= all) return;
  const int tiles_x = tiles_along(args.width), tiles_y = tiles_along(args.height);
  // Rounding may differ from the count made when projecting: what is not written below is no tile's.
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
  const int filled = static_cast<int>(window_end - window), mask = (1 << written.digit_bits) - 1;
  for (int base = 0; base < filled; base += kThreads) {
    const int k = base + threadIdx.x;
    const Key key = window_keys[k];
    if (k < filled) {
      written.keys[window + k] = key;
      written.instances[window + k] = window_values[k];
    }
    if (k < filled) atomicAdd(&histogram[0][key & mask], 1u);  // neighbours differ
    for (int pass = 1; pass < written.passes; ++pass)
      count_digit(histogram[pass], k < filled ? static_cast<int>(key >> (pass * written.digit_bits)) & mask : -1);
  }
  __syncthreads();
  for (int pass = 0; pass < written.passes; ++pass)
    for (int k = threadIdx.x; k < 1 << kTileDigit; k += kThreads)
      if (const uint32_t count = histogram[pass][k]; count > 0)
        atomicAdd(&counters->tile_histogram[pass][blockIdx.x % kCopies][k], count);
}

template <typename Key> int run(const luxel_bin_splats_args& args, int64_t* bytes_needed) {
  const int64_t rows = static_cast<int64_t>(args.count) * args.cameras;
  const int64_t seen = smaller(args.visible_capacity, rows), capacity = args.capacity;
  const int64_t tiles = static_cast<int64_t>(tiles_along(args.width)) * tiles_along(args.height) * args.cameras;
  int key_bits = 1;
  while ((int64_t(1) << key_bits) <= tiles) ++key_bits;  // room for the all-ones key of empty slots
  const int passes = (key_bits + kTileDigit - 1) / kTileDigit, digit_bits = (key_bits + passes - 1) / passes;
  const int depth_tile = kThreads * (seen <= kFewSplats ? kFewItems : kManyItems);
  const int instance_tile = kThreads * (capacity <= kFewInstances ? kFewItems : kManyItems);
  const bool few_rows = rows <= kFewGaussians;
  const unsigned gather_tiles = blocks_for(rows, kThreads * (few_rows ? kFewRows : kManyRows));
  const unsigned scan_tiles = blocks_for(seen, kThreads * kScanItems);
  const unsigned depth_tiles = blocks_for(seen, depth_tile), instance_tiles = blocks_for(capacity, instance_tile);

  Layout layout;
  // Zeros at the start:
  Counters* counters = layout.take<Counters>(args.workspace, 1);
  uint64_t* gather_words = layout.take<uint64_t>(args.workspace, gather_tiles);
  const int64_t zeros = layout.used;
  uint64_t* scan_words = layout.take<uint64_t>(args.workspace, scan_tiles);
  int64_t* ends = layout.take<int64_t>(args.workspace, seen);  // where the depth keys were
  uint32_t* depth_keys[2] = {reinterpret_cast<uint32_t*>(ends), reinterpret_cast<uint32_t*>(ends) + seen};
  int32_t* indices[2] = {layout.take<int32_t>(args.workspace, seen), layout.take<int32_t>(args.workspace, seen)};
  Key* tile_keys[2] = {layout.take<Key>(args.workspace, capacity), layout.take<Key>(args.workspace, capacity)};
  int32_t* other_instances = layout.take<int32_t>(args.workspace, capacity);
  uint32_t *depth_words[2], *tile_words[2];  // of passes that follow each other
  for (uint32_t*& words : depth_words) words = layout.take<uint32_t>(args.workspace, int64_t(depth_tiles) << kDepthDigit);
  for (uint32_t*& words : tile_words) words = layout.take<uint32_t>(args.workspace, int64_t(instance_tiles) << kTileDigit);
  if (bytes_needed != nullptr) {
    *bytes_needed = layout.used;
    return 0;
  }
  if (args.workspace_bytes < layout.used) return fail("workspace of %lld bytes, %lld needed",
                                                      static_cast<long long>(args.workspace_bytes), static_cast<long long>(layout.used));
  LUXEL_CUDA(cudaMemsetAsync(args.workspace, 0, static_cast<size_t>(zeros), static_cast<cudaStream_t>(args.stream)));
  const int gather_blocks = kGatherBlocks * device_attribute(cudaDevAttrMultiProcessorCount);
  const Ready ready = {depth_words[0], depth_tile, scan_words, scan_tiles};
  const auto gather = few_rows ? gather_seen_kernel<kFewRows> : gather_seen_kernel<kManyRows>;
  if (launch("gather_seen", gather, smaller<unsigned>(gather_tiles, gather_blocks), kThreads, 0, args.stream, args,
             counters, gather_words, ready, depth_keys[0], indices[0]) < 0)
    return -1;
  for (int k = 0; k < kDepthPasses; ++k) {
    const RadixPass<uint32_t> pass = {depth_keys[k & 1], indices[k & 1], k + 1 < kDepthPasses ? depth_keys[~k & 1] : nullptr,
                                      indices[~k & 1], &counters->seen, seen, k * kDepthDigit, kDepthDigit,
                                      counters->depth_histogram[k][0], depth_words[k & 1],
                                      k + 1 < kDepthPasses ? depth_words[~k & 1] : nullptr, &counters->depth_tickets[k]};
    const auto kernel = seen <= kFewSplats ? radix_pass_kernel<uint32_t, kDepthDigit, kFewItems>
                                           : radix_pass_kernel<uint32_t, kDepthDigit, kManyItems>;
    if (launch("sort by depth", kernel, depth_tiles, kSortThreads, 0, args.stream, pass) < 0) return -1;
  }
  const int32_t* sorted = indices[kDepthPasses & 1];
  if (launch("instance_ends", instance_ends_kernel, scan_tiles, kThreads, 0, args.stream, args.tile_counts, sorted, counters,
             scan_words, ends) < 0)
    return -1;
  // The last pass ends in args.instances.
  int32_t* instances[2] = {passes & 1 ? other_instances : args.instances, passes & 1 ? args.instances : other_instances};
  const Written<Key> written = {tile_keys[0], instances[0], tile_words[0], instance_tile, passes, digit_bits};
  if (launch("write_instances", write_instances_kernel<Key>, blocks_for(capacity, kWindow), kThreads, 0, args.stream, args, sorted,
             ends, counters, written) < 0)
    return -1;
  for (int k = 0; k < passes; ++k) {
    const RadixPass<Key> pass = {tile_keys[k & 1], instances[k & 1], tile_keys[~k & 1], instances[~k & 1], &counters->instances,
                                 capacity, k * digit_bits, digit_bits, counters->tile_histogram[k][0], tile_words[k & 1],
                                 k + 1 < passes ? tile_words[~k & 1] : nullptr, &counters->tile_tickets[k]};
    const auto kernel = capacity <= kFewInstances ? radix_pass_kernel<Key, kTileDigit, kFewItems>
                                                  : radix_pass_kernel<Key, kTileDigit, kManyItems>;
    if (launch("sort by tile", kernel, instance_tiles, kSortThreads, 0, args.stream, pass) < 0) return -1;
  }
  if (launch("ranges", ranges_kernel<Key>, blocks_for(tiles, kRangeTiles), kRangeTiles + 1, 0, args.stream, tile_keys[passes & 1],
             args.totals, capacity, static_cast<int>(tiles), args.ranges, &counters->plan) < 0)
    return -1;
  if (args.plan == nullptr) return 0;
  return launch("plan", plan_kernel, blocks_for(tiles, kPlanThreads), kPlanThreads, 0, args.stream, args.ranges,
                static_cast<int>(tiles), capacity, &counters->plan, args.plan);
}

int dispatch(const luxel_bin_splats_args& args, int64_t* bytes_needed) {
  if (larger(args.capacity, static_cast<int64_t>(args.count) * args.cameras) >= kMost)
    return fail("%lld tile instances of %lld splats: 2^30 are too many", static_cast<long long>(args.capacity),
                static_cast<long long>(args.count) * args.cameras);
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
