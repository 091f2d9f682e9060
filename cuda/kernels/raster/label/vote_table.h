// Where votes are added (abi/raster.h, label_votes): dense and sparse tables of fixed-point sums, by many threads at once.
#pragma once

#include "abi/raster.h"
#include "math/hd.h"

namespace luxel {

constexpr int kVoteBits = 24, kFineBits = 52;  // of a sum's fraction; fine ones are split after the 20th
constexpr int kSlots = LUXEL_VOTE_SLOTS, kNoLabel = LUXEL_NO_LABEL;
constexpr float kCentreRadius = 2.0f, kCentreTransmittance = 0.01f;  // of the centre rule: px, and T

// A word that other threads may change; a value from before their change is harmless, see claim_slot and claim_row.
template <typename Word> LUXEL_HD Word read_shared(const Word* word) {
#if defined(__CUDA_ARCH__)
  return *static_cast<const volatile Word*>(word);
#else
  return __atomic_load_n(word, __ATOMIC_RELAXED);
#endif
}
// Relaxed atomic operations on host and device. swap_where returns the value before, and stores `next` if that is `expected`.
LUXEL_HD void add_atomically(int64_t* sum, int64_t x) {
#if defined(__CUDA_ARCH__)
  atomicAdd(reinterpret_cast<unsigned long long*>(sum), static_cast<unsigned long long>(x));
#else
  __atomic_fetch_add(sum, x, __ATOMIC_RELAXED);
#endif
}
LUXEL_HD int32_t take_number(int32_t* counter) {
#if defined(__CUDA_ARCH__)
  return atomicAdd(counter, 1);
#else
  return __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
#endif
}
LUXEL_HD uint64_t swap_where(int64_t* word, uint64_t expected, uint64_t next) {
#if defined(__CUDA_ARCH__)
  return atomicCAS(reinterpret_cast<unsigned long long*>(word), expected, next);
#else
  int64_t before = static_cast<int64_t>(expected);
  __atomic_compare_exchange_n(word, &before, static_cast<int64_t>(next), false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return static_cast<uint64_t>(before);
#endif
}
LUXEL_HD int32_t swap_where(int32_t* word, int32_t expected, int32_t next) {
#if defined(__CUDA_ARCH__)
  return atomicCAS(word, expected, next);
#else
  __atomic_compare_exchange_n(word, &expected, next, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
#endif
}

// The first byte of a word of eight labels that holds `label`; -1 if none does.
LUXEL_HD int slot_of(uint64_t labels, int label) {
LUXEL_UNROLL
  for (int k = 0; k < kSlots; ++k)
    if (static_cast<int>(labels >> (8 * k) & 255u) == label) return k;
  return -1;
}

// The slot of a label in a primitive's word of the sparse table, taken if it has none; -1 if all eight have other labels.
LUXEL_HD int claim_slot(int64_t* word, int label) {
  uint64_t labels = static_cast<uint64_t>(read_shared(word));
  for (;;) {
    const int known = slot_of(labels, label);
    if (known >= 0) return known;
    const int free = slot_of(labels, kNoLabel);
    if (free < 0) return -1;
    const uint64_t next = labels ^ static_cast<uint64_t>(kNoLabel ^ label) << (8 * free);
    const uint64_t before = swap_where(word, labels, next);
    if (before == labels) return free;
    labels = before;  // another thread was faster
  }
}

// The primitive's row of the pool, claimed if it has none; -2 if none is left. A pool with a row for each primitive is not
// counted: row n belongs to primitive n. Otherwise a thread that loses the race for a primitive's row leaves one unused.
LUXEL_HD int32_t claim_row(const luxel_label_votes_args& args, int64_t n) {
  const int32_t held = read_shared(args.rows + n);
  if (held != -1) return held;
  if (args.pool_rows >= args.binned.count) {
    swap_where(args.rows + n, -1, static_cast<int32_t>(n));
    return static_cast<int32_t>(n);
  }
  const int32_t taken = take_number(args.pool_used), row = taken < args.pool_rows ? taken : -2;
  const int32_t before = swap_where(args.rows + n, -1, row);
  return before == -1 ? row : before;
}

// Adds to sum `index` of a table. sum: in units of 2^-kVoteBits, or of 2^-kFineBits if fine.
LUXEL_HD void add_sum(const luxel_label_votes_args& args, int64_t* table, int64_t index, int64_t sum) {
  if (!args.fine) return add_atomically(table + index, sum);
  const int64_t low = sum & 0xffffffff;
  if (sum != low) add_atomically(table + 2 * index, sum >> 32);
  add_atomically(table + 2 * index + 1, low);
}

// Adds a sum of primitive n for a label; L and above: no vote.
LUXEL_HD void add_votes(const luxel_label_votes_args& args, int64_t n, int label, int64_t sum) {
  if (args.keys == nullptr) return add_sum(args, args.votes, n * (args.labels + 1) + smaller(label, args.labels), sum);
  int column = kSlots;
  if (label < args.labels) {
    const int slot = claim_slot(args.keys + n, label);
    const int32_t row = slot < 0 ? claim_row(args, n) : -2;
    if (row >= 0) return add_sum(args, args.pool, static_cast<int64_t>(row) * kNoLabel + label, sum);
    if (slot >= 0) column = slot;
  }
  add_sum(args, args.votes, n * (kSlots + 1) + column, sum);
}

}  // namespace luxel
