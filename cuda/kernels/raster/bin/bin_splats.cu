// bin_splats on the GPU: gather the visible splats, sort them by depth, write their tile instances in that order, then
// sort the instances by tile only: there are many of them, and the key is short.
#include "device/launch.cuh"
#include "kernels/workspace.h"
#include "kernels/raster/bin/visible_splats.cuh"
#include "kernels/raster/policy_stages.h"

namespace luxel {
namespace {

template <typename Key> int run(const luxel_bin_splats_args& args, const PolicyStages& stages, int64_t* bytes_needed) {
  const int64_t rows = static_cast<int64_t>(args.count) * args.cameras;
  const int64_t seen = smaller(args.visible_capacity, rows), capacity = args.capacity;
  const int64_t tiles = static_cast<int64_t>(tiles_along(args.width)) * tiles_along(args.height) * args.cameras;
  int key_bits = 1;
  while ((int64_t(1) << key_bits) <= tiles) ++key_bits;  // space for the all-ones key of empty slots
  const int passes = (key_bits + kTileDigit - 1) / kTileDigit, digit_bits = (key_bits + passes - 1) / passes;
  const int depth_tile = kThreads * (seen <= kFewSplats ? kFewItems : kManyItems);
  const int instance_tile = kThreads * (capacity <= kFewInstances ? kFewItems : kManyItems);
  const bool few_rows = rows <= kFewGaussians;
  const unsigned gather_tiles = blocks_for(rows, kThreads * (few_rows ? kFewRows : kManyRows));
  const unsigned scan_tiles = blocks_for(seen, kThreads * kScanItems);
  const unsigned depth_tiles = blocks_for(seen, depth_tile), instance_tiles = blocks_for(capacity, instance_tile);

  Layout layout;
  // Zeroed below:
  Counters* counters = layout.take<Counters>(args.workspace, 1);
  uint64_t* gather_words = layout.take<uint64_t>(args.workspace, gather_tiles);
  const int64_t zeros = layout.used;
  uint64_t* scan_words = layout.take<uint64_t>(args.workspace, scan_tiles);
  int64_t* ends = layout.take<int64_t>(args.workspace, seen);  // reuses the memory of the depth keys
  uint32_t* depth_keys[2] = {reinterpret_cast<uint32_t*>(ends), reinterpret_cast<uint32_t*>(ends) + seen};
  int32_t* indices[2] = {layout.take<int32_t>(args.workspace, seen), layout.take<int32_t>(args.workspace, seen)};
  Key* tile_keys[2] = {layout.take<Key>(args.workspace, capacity), layout.take<Key>(args.workspace, capacity)};
  int32_t* other_instances = layout.take<int32_t>(args.workspace, capacity);
  uint32_t *depth_words[2], *tile_words[2];  // look-back words, alternating between passes
  for (uint32_t*& words : depth_words) words = layout.take<uint32_t>(args.workspace, int64_t(depth_tiles) << kDepthDigit);
  for (uint32_t*& words : tile_words) words = layout.take<uint32_t>(args.workspace, int64_t(instance_tiles) << kTileDigit);
  if (bytes_needed != nullptr) {
    *bytes_needed = layout.used;
    return 0;
  }
  if (args.workspace_bytes < layout.used) return fail("workspace of %lld bytes, %lld needed",
                                                      static_cast<long long>(args.workspace_bytes), static_cast<long long>(layout.used));
  LUXEL_CUDA(cudaMemsetAsync(args.workspace, 0, static_cast<size_t>(zeros), static_cast<cudaStream_t>(args.stream)));
  int gather_blocks = 0;
  if (resident_blocks(kGatherBlocks, args.device, &gather_blocks)) return -1;
  const Ready ready = {depth_words[0], depth_tile, scan_words, scan_tiles};
  const auto gather = few_rows ? gather_seen_kernel<kFewRows> : gather_seen_kernel<kManyRows>;
  if (launch("gather_seen", gather, smaller(gather_tiles, static_cast<unsigned>(gather_blocks)), kThreads, 0, args.stream, args,
             counters, gather_words, ready, stages.row, depth_keys[0], indices[0]) < 0)
    return -1;
  for (int k = 0; k < kDepthPasses; ++k) {
    const RadixPass<uint32_t> pass = {depth_keys[k & 1], indices[k & 1], k + 1 < kDepthPasses ? depth_keys[~k & 1] : nullptr,
                                      indices[~k & 1], &counters->seen, k * kDepthDigit, kDepthDigit,
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
  const SortedSplats splats = {sorted,       ends,          counters,      sizeof(Key), tile_keys[0],
                               instances[0], tile_words[0], instance_tile, passes,      digit_bits};
  if (stages.bin(args, &splats) < 0) return -1;
  for (int k = 0; k < passes; ++k) {
    const RadixPass<Key> pass = {tile_keys[k & 1], instances[k & 1], tile_keys[~k & 1], instances[~k & 1], &counters->instances,
                                 k * digit_bits, digit_bits, counters->tile_histogram[k][0], tile_words[k & 1],
                                 k + 1 < passes ? tile_words[~k & 1] : nullptr, &counters->tile_tickets[k]};
    const auto kernel = capacity <= kFewInstances ? radix_pass_kernel<Key, kTileDigit, kFewItems>
                                                  : radix_pass_kernel<Key, kTileDigit, kManyItems>;
    if (launch("sort by tile", kernel, instance_tiles, kSortThreads, 0, args.stream, pass) < 0) return -1;
  }
  if (launch("ranges", ranges_kernel<Key>, blocks_for(tiles, kRangeTiles), kRangeTiles + 1, 0, args.stream, tile_keys[passes & 1],
             &counters->instances, static_cast<int>(tiles), stages.piece, args.ranges, &counters->plan) < 0)
    return -1;
  if (args.plan == nullptr) return 0;
  return launch("plan", plan_kernel, blocks_for(tiles, kPlanThreads), kPlanThreads, 0, args.stream, args.ranges,
                static_cast<int>(tiles), capacity, stages.piece, &counters->plan, args.plan);
}

int dispatch(const luxel_bin_splats_args& args, int64_t* bytes_needed) {
  const PolicyStages* const stages = policy_stages(args.policy);
  if (stages == nullptr) return -1;
  if (larger(args.capacity, static_cast<int64_t>(args.count) * args.cameras) >= kMax)
    return fail("%lld tile instances of %lld splats: 2^30 are too many", static_cast<long long>(args.capacity),
                static_cast<long long>(args.count) * args.cameras);
  const int64_t tiles = static_cast<int64_t>(tiles_along(args.width)) * tiles_along(args.height) * args.cameras;
  return tiles < 0xffff ? run<uint16_t>(args, *stages, bytes_needed) : run<uint32_t>(args, *stages, bytes_needed);
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
