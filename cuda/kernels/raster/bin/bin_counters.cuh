// What the kernels of bin_splats on the GPU share: tunables, counters, and what a policy's stage gets from the shared ones.
#pragma once

#include "abi/raster.h"
#include "device/radix_sort.cuh"
#include "kernels/raster/stage.h"
#include "kernels/raster/bin/tile_plan.cuh"

namespace luxel {

// Visible splats in depth order, and where their instances go: see write_instances.cuh.
struct SortedSplats {
  const int32_t* sorted;  // indices
  const int64_t* ends;    // one past the last instance of each
  void* counters;         // Counters
  int key_bytes;          // of an instance's tile: 2 or 4
  void* keys;
  int32_t* instances;
  uint32_t* sort_words;  // of the first pass of the sort by tile
  int sort_tile, passes, digit_bits;
};

namespace {

// Tunables.
constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kGatherBlocks = 8;  // per multiprocessor, on architectures with enough threads
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ == 800 || (__CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200)
constexpr int kGatherBound = kGatherBlocks;
#else
constexpr int kGatherBound = 4;
#endif
constexpr int kFewRows = 4, kManyRows = 8;  // rows per thread of the gather kernel
constexpr int64_t kFewGaussians = 1 << 20;
constexpr int kScanItems = 8;
constexpr int kDepthDigit = 10, kDepthPasses = 3;
constexpr int kTileDigit = 8, kTilePasses = 4;  // at most
constexpr int64_t kFewSplats = 1 << 18, kFewInstances = 1 << 20;  // up to here a sort uses smaller tiles, for more blocks
constexpr int kFewItems = 8, kManyItems = 16;  // pairs per thread

constexpr int64_t kMax = 1 << 30;  // limit of the counts in a sort's look-back words

// Counters of the kernels, zeroed beforehand.
struct Counters {
  uint32_t depth_histogram[kDepthPasses][kCopies][1 << kDepthDigit];
  uint32_t tile_histogram[kTilePasses][kCopies][1 << kTileDigit];
  PlanCounters plan;
  int gather_tickets, scan_tickets, depth_tickets[kDepthPasses], tile_tickets[kTilePasses];
  int64_t seen, instances;  // limited to the capacities
};

}  // namespace
}  // namespace luxel
