// A stable radix sort of pairs (key, value), least significant digit first, whose number is known on the device only. Each
// pass reads and writes the pairs once (Onesweep, Adinets and Merrill 2022): a block ranks its tile, and finds by
// look-back how many pairs of each digit lie in tiles before it. How often a digit occurs at all is counted by the kernel
// that makes the keys; the look-back words of a pass are zeroed by the kernel before it.
#pragma once

#include "device/launch.cuh"
#include "device/look_back.cuh"

#include <cub/block/block_scan.cuh>

namespace luxel {
namespace {

constexpr int kSortThreads = 256;
constexpr int kSortWarps = kSortThreads / 32;
constexpr int kCopies = 4;  // of a histogram, so that not all blocks add at one address
constexpr int kAhead = 4;  // tiles whose words are read at a time when looking back

// One pass over *count pairs.
template <typename Key> struct RadixPass {
  const Key* keys;
  const int32_t* values;
  Key* keys_out;  // null: none
  int32_t* values_out;
  const int64_t* count;
  int shift, bits;            // the digit
  const uint32_t* histogram;  // of all pairs [kCopies, digits]; the sum of the copies counts
  uint32_t* words;            // [tiles, digits], zeros at the start
  uint32_t* next_words;       // of the next pass, zeroed here; null: there is none
  int* tickets;               // 0 at the start
};

// Counts a digit of each lane's key, -1 for none; all lanes call. Runs of equal digits are added at once.
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

// The words of the digits that a thread owns, all at once.
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

// kDigitBits: most bits of a digit; kItems: pairs of a thread.
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
  __shared__ uint32_t starts[kDigits];  // where a digit's pairs of this tile go, less their places in the tile
  const int64_t count = *pass.count;
  if (static_cast<int64_t>(blockIdx.x) * kTile >= count) return;  // there are as many tickets as tiles
  const int tile = next_tile(pass.tickets), warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int64_t base = static_cast<int64_t>(tile) * kTile;
  const int here = static_cast<int>(smaller<int64_t>(kTile, count - base));
  const uint32_t mask = (1u << pass.bits) - 1;
  const auto digit_of = [&](Key key) { return static_cast<uint32_t>(key) >> pass.shift & mask; };

  Key keys[kItems];
  const int first = warp * 32 * kItems + lane;  // a warp's pairs follow each other
#pragma unroll
  for (int i = 0; i < kItems; ++i) keys[i] = first + 32 * i < here ? pass.keys[base + first + 32 * i] : static_cast<Key>(~Key(0));

  const int own = threadIdx.x * kOwn;  // the digits that this thread looks after
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

  // Of this thread's digits: how many in the tile, and of those before each warp.
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

  // Both in one scan: places in the tile, and in the whole.
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

  // Places in the tile, before the counts are overwritten.
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
  if (tile > 0) {  // first of all: others wait for it
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
