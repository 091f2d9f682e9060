// Prefix sums over the tiles of a kernel's input in one pass: a block publishes the sum of its tile, then adds up the sums of the
// preceding tiles (decoupled look-back, Merrill and Garland 2016). Tiles are assigned to blocks by an atomic counter, so that all
// preceding tiles have been started.
#pragma once

#include "device/warp_sum.cuh"

#include <cstdint>

namespace luxel {
namespace {

constexpr uint64_t kPart = 1ull << 62;   // flag: the word holds the sum of its tile
constexpr uint64_t kWhole = 1ull << 63;  // flag: the word holds the sum of all tiles up to its own, inclusive
constexpr uint64_t kSum = kPart - 1;

__device__ __forceinline__ uint64_t load_word(const uint64_t* word) {
  uint64_t value;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}
__device__ __forceinline__ void store_word(uint64_t* word, uint64_t value) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}

// The sum of all tiles before `tile`, whose own sum is `mine`; called by one warp of its block. `words` [tiles], zeroed
// beforehand.
__device__ __forceinline__ uint64_t sum_before(uint64_t* words, int tile, uint64_t mine) {
  const int lane = threadIdx.x & 31;
  if (tile == 0) {
    if (lane == 0) store_word(words, kWhole | mine);
    return 0;
  }
  if (lane == 0) store_word(words + tile, kPart | mine);
  uint64_t sum = 0;
  for (int end = tile;; end -= 32) {
    const int k = end - 1 - lane;
    uint64_t word = kWhole;
    do {
      if (k >= 0) word = load_word(words + k);
    } while (__any_sync(~0u, word == 0));
    const unsigned whole = __ballot_sync(~0u, (word & kWhole) != 0);
    const int last = whole != 0 ? __ffs(whole) - 1 : 31;
    const uint64_t part = lane <= last ? word & kSum : 0;
    sum += warp_sum(part);
    if (whole != 0) break;
  }
  if (lane == 0) store_word(words + tile, kWhole | (sum + mine));
  return sum;
}

// Exclusive prefix sums over warps, in place: `sums` (shared memory) holds the sum of each warp of the block, and afterwards the
// sum of all preceding tiles and warps. All threads of the block call.
template <int kWarps> __device__ __forceinline__ void sums_before(int64_t (&sums)[kWarps], uint64_t* words, int tile) {
  const int lane = threadIdx.x & 31;
  __syncthreads();
  if (threadIdx.x < 32) {
    const int64_t mine = lane < kWarps ? sums[lane] : 0;
    int64_t inclusive = mine;
#pragma unroll
    for (int step = 1; step < kWarps; step *= 2) {
      const int64_t other = __shfl_up_sync(~0u, inclusive, step);
      if (lane >= step) inclusive += other;
    }
    const uint64_t whole = static_cast<uint64_t>(__shfl_sync(~0u, inclusive, kWarps - 1));
    const int64_t base = static_cast<int64_t>(sum_before(words, tile, whole));
    if (lane < kWarps) sums[lane] = base + inclusive - mine;
  }
  __syncthreads();
}

// The next tile for this block, the same for all its threads.
__device__ __forceinline__ int next_tile(int* tickets) {
  __shared__ int tile;
  __syncthreads();
  if (threadIdx.x == 0) tile = atomicAdd(tickets, 1);
  __syncthreads();
  return tile;
}

}  // namespace
}  // namespace luxel
