// A stable radix sort of pairs (key, value), least significant digit first, with the number of pairs in device memory. Each
// pass reads and writes the pairs once (Onesweep, Adinets and Merrill 2022): a block ranks its tile, and finds by
// look-back how many pairs of each digit lie in the preceding tiles. The histogram of digits is computed by the kernel
// that makes the keys; the look-back words of a pass are zeroed by the preceding kernel.
#pragma once

#include "math/hd.h"
#include "device/launch.cuh"
#include "device/look_back.cuh"

#include <cub/block/block_scan.cuh>

namespace luxel {
namespace {

constexpr int kSortThreads = 256;
constexpr int kSortWarps = kSortThreads / 32;
constexpr int kCopies = 4;  // copies of a histogram, to reduce contention of atomics
constexpr int kAhead = 4;  // number of tiles whose words a look-back step reads

// One pass over *count pairs.
template <typename Key> struct RadixPass {
  const Key* keys;
  const int32_t* values;
  Key* keys_out;  // null: keys are not written
  int32_t* values_out;
  const int64_t* count;       // [1] on the device
  int shift, bits;            // position and width of the digit
  const uint32_t* histogram;  // [kCopies, digits] of all pairs; to be summed over the copies
  uint32_t* words;            // [tiles, digits] look-back words, zeroed beforehand
  uint32_t* next_words;       // those of the next pass, zeroed here; null in the last pass
  int* tickets;               // [1] counter of next_tile(), zeroed beforehand
};

// Adds each lane's digit to a histogram, -1: no digit; all lanes call. A run of equal digits takes one atomic addition.
__device__ __forceinline__ void count_digit(uint32_t* histogram, int digit) {
  const int lane = threadIdx.x & 31;
  const int before = __shfl_up_sync(~0u, digit, 1);
  const bool head = lane == 0 || before != digit;
  const unsigned heads = __ballot_sync(~0u, head);
  if (head && digit >= 0) {
    const unsigned later = lane == 31 ? 0u : heads >> (lane + 1);
    atomicAdd(histogram + digit, static_cast<uint32_t>(later != 0 ? __ffs(later) : 32 - lane));
  }
}

// The look-back words of the kOwn digits of a thread, in one memory access.
template <int kOwn> struct Words {
  static_assert(kOwn == 1 || kOwn == 4);
  uint32_t word[kOwn];
  __device__ __forceinline__ void read(const uint32_t* from) {
    if constexpr (kOwn == 4)
      asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3]) : "l"(from) : "memory");
    else
      asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(word[0]) : "l"(from) : "memory");
  }
  __device__ __forceinline__ void write(uint32_t* to) const {
    if constexpr (kOwn == 4)
      asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1, %2, %3, %4};"
                   ::"l"(to), "r"(word[0]), "r"(word[1]), "r"(word[2]), "r"(word[3]) : "memory");
    else
      asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(to), "r"(word[0]) : "memory");
  }
};

// kDigitBits: largest width of a digit; kItems: pairs per thread.
template <typename Key, int kDigitBits, int kItems>
__global__ void __launch_bounds__(kSortThreads, kItems <= 8 ? 4 : 3) radix_pass_kernel(const RadixPass<Key> pass) {
  constexpr int kDigits = 1 << kDigitBits, kOwn = kDigits / kSortThreads, kTile = kSortThreads * kItems;
  constexpr uint32_t kPartial = 1u << 30, kComplete = 1u << 31, kCount = kPartial - 1;
  using Scan = cub::BlockScan<uint64_t, kSortThreads>;
  union Shared {
    struct {
      alignas(16) uint16_t counts[kSortWarps][kDigits];
      typename Scan::TempStorage scan;
    } rank;
    struct {
      Key keys[kTile];
      int32_t values[kTile];
    } sorted;
    __device__ Shared() {}
  };
  __shared__ Shared shared;
  __shared__ uint32_t starts[kDigits];  // output index of a digit's pairs of this tile, minus their index in the sorted tile
  const int64_t count = *pass.count;
  if (static_cast<int64_t>(blockIdx.x) * kTile >= count) return;  // one ticket per tile
  const int tile = next_tile(pass.tickets), warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int64_t base = static_cast<int64_t>(tile) * kTile;
  const int here = static_cast<int>(smaller<int64_t>(kTile, count - base));
  const uint32_t mask = (1u << pass.bits) - 1;
  const auto digit_of = [&](Key key) { return static_cast<uint32_t>(key) >> pass.shift & mask; };

  Key keys[kItems];
  const int first = warp * 32 * kItems + lane;  // the pairs of a warp are contiguous
#pragma unroll
  for (int i = 0; i < kItems; ++i) keys[i] = first + 32 * i < here ? pass.keys[base + first + 32 * i] : static_cast<Key>(~Key(0));

  const int own = threadIdx.x * kOwn;  // first digit of this thread
  uint32_t everywhere[kOwn] = {};
#pragma unroll
  for (int copy = 0; copy < kCopies; ++copy) {
#pragma unroll
    for (int k = 0; k < kOwn; ++k) everywhere[k] += pass.histogram[copy * kDigits + own + k];
  }

  uint16_t* counts = shared.rank.counts[warp];
  for (int k = lane; k < kDigits / 2; k += 32) reinterpret_cast<uint32_t*>(counts)[k] = 0;
  __syncwarp();
  uint32_t ranks[kItems];  // among the warp's pairs of the same digit; the digit above bit 16, so that one register holds both
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const uint32_t digit = digit_of(keys[i]);
    unsigned same = ~0u;
#pragma unroll
    for (int bit = 0; bit < kDigitBits; ++bit) {
      if (bit < pass.bits) {
        const bool set = digit >> bit & 1;
        const unsigned those = __ballot_sync(~0u, set);
        same &= set ? those : ~those;
      }
    }
    const int before = __popc(same & ((1u << lane) - 1)), all = __popc(same);
    const uint32_t earlier = counts[digit];
    __syncwarp();
    if (before == 0) counts[digit] = static_cast<uint16_t>(earlier + all);
    __syncwarp();
    ranks[i] = digit << 16 | (earlier + before);
  }
  __syncthreads();

  // For this thread's digits: count in the tile, and count before each warp.
  uint32_t totals[kOwn] = {};
#pragma unroll
  for (int w = 0; w < kSortWarps; ++w) {
#pragma unroll
    for (int k = 0; k < kOwn; ++k) {
      const uint32_t of_warp = shared.rank.counts[w][own + k];
      shared.rank.counts[w][own + k] = static_cast<uint16_t>(totals[k]);
      totals[k] += of_warp;
    }
  }
  uint32_t* row = pass.words + static_cast<int64_t>(tile) * kDigits + own;
  Words<kOwn> mine;
#pragma unroll
  for (int k = 0; k < kOwn; ++k) mine.word[k] = (tile == 0 ? kComplete : kPartial) | totals[k];
  mine.write(row);
  if (pass.next_words != nullptr) {
    Words<kOwn> zeros = {};
    zeros.write(pass.next_words + static_cast<int64_t>(tile) * kDigits + own);
  }

  // One scan for both: index in the tile (low 32 bits) and in the full output (high 32 bits).
  uint64_t sums[kOwn], sum = 0;
#pragma unroll
  for (int k = 0; k < kOwn; ++k) {
    sums[k] = sum;
    sum += static_cast<uint64_t>(everywhere[k]) << 32 | totals[k];
  }
  uint64_t offset;
  Scan(shared.rank.scan).ExclusiveSum(sum, offset);
  uint32_t in_tile[kOwn];
#pragma unroll
  for (int k = 0; k < kOwn; ++k) in_tile[k] = static_cast<uint32_t>(sums[k] + offset);

  // Indices in the tile; counts shares its memory with the sorted pairs.
#pragma unroll
  for (int k = 0; k < kOwn; ++k) starts[own + k] = in_tile[k];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const uint32_t digit = ranks[i] >> 16;
    ranks[i] = (ranks[i] & 0xffff) + counts[digit] + starts[digit];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kItems; ++i) shared.sorted.keys[ranks[i]] = keys[i];
  int32_t values[kItems];
#pragma unroll
  for (int i = 0; i < kItems; ++i) values[i] = first + 32 * i < here ? pass.values[base + first + 32 * i] : 0;

  uint32_t prior[kOwn] = {};
  unsigned open = tile > 0 ? (1u << kOwn) - 1 : 0u;
  for (int back = 1; open != 0; back += kAhead) {
    Words<kOwn> seen[kAhead];
#pragma unroll
    for (int j = 0; j < kAhead; ++j)
      if (back + j <= tile) seen[j].read(row - static_cast<int64_t>(back + j) * kDigits);
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      if (open == 0 || back + j > tile) continue;
#pragma unroll
      for (int k = 0; k < kOwn; ++k) {
        if (!(open >> k & 1)) continue;
        while (seen[j].word[k] == 0) seen[j].read(row - static_cast<int64_t>(back + j) * kDigits);
        prior[k] += seen[j].word[k] & kCount;
        if (seen[j].word[k] & kComplete) open &= ~(1u << k);
      }
    }
  }
  if (tile > 0) {  // published early: later tiles wait for it
#pragma unroll
    for (int k = 0; k < kOwn; ++k) mine.word[k] = kComplete | (prior[k] + totals[k]);
    mine.write(row);
  }
#pragma unroll
  for (int i = 0; i < kItems; ++i) shared.sorted.values[ranks[i]] = values[i];
#pragma unroll
  for (int k = 0; k < kOwn; ++k) starts[own + k] = static_cast<uint32_t>((sums[k] + offset) >> 32) + prior[k] - in_tile[k];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int k = threadIdx.x + i * kSortThreads;
    if (k < here) {
      const Key key = shared.sorted.keys[k];
      const uint32_t to = starts[digit_of(key)] + k;
      if (pass.keys_out != nullptr) pass.keys_out[to] = key;
      pass.values_out[to] = shared.sorted.values[k];
    }
  }
}

}  // namespace
}  // namespace luxel
