// Access to the entries of a grid's levels on the GPU: wide loads, wide atomics, and the division of a cell's corners between two
// lanes.
#pragma once

#include <cuda_fp16.h>

#include "kernels/field/grid/encode_grid.h"

namespace luxel {

// As many bytes as a vector access takes.
template <int Bytes> struct Word;
template <> struct Word<2> { using type = unsigned short; };
template <> struct Word<4> { using type = unsigned; };
template <> struct Word<8> { using type = uint2; };
template <> struct Word<16> { using type = uint4; };

// Copies F values in the widest accesses that their alignment (that of all F, up to 16 bytes) allows.
template <int F, typename Stored> __device__ __forceinline__ void copy_vector(const Stored* from, Stored* to) {
  constexpr int kBytes = F * static_cast<int>(sizeof(Stored)), kStep = kBytes < 16 ? kBytes : 16;
  using Step = typename Word<kStep>::type;
#pragma unroll
  for (int i = 0; i < kBytes / kStep; ++i) reinterpret_cast<Step*>(to)[i] = __ldg(reinterpret_cast<const Step*>(from) + i);
}

__device__ __forceinline__ float widened(float value) { return value; }
__device__ __forceinline__ float widened(__half value) { return __half2float(value); }

// Reads entries of a level.
template <int F, typename Stored> struct Reader {
  const Stored* table;
  __device__ __forceinline__ void operator()(uint32_t entry, float* to) const {
    alignas(16) Stored values[F];
    copy_vector<F>(table + static_cast<int64_t>(entry) * F, values);
#pragma unroll
    for (int f = 0; f < F; ++f) to[f] = widened(values[f]);
  }
};
template <int F, typename Stored> __device__ __forceinline__ Reader<F, Stored> reader(const Stored* table, const GridLevel& level) {
  return {table + static_cast<int64_t>(level.offset) * F};
}

__device__ __forceinline__ void add_together(float* to, const float* values, Fixed<1>) { atomicAdd(to, values[0]); }
#if __CUDA_ARCH__ >= 900
__device__ __forceinline__ void add_together(float* to, const float* values, Fixed<2>) {
  atomicAdd(reinterpret_cast<float2*>(to), make_float2(values[0], values[1]));
}
__device__ __forceinline__ void add_together(float* to, const float* values, Fixed<4>) {
  atomicAdd(reinterpret_cast<float4*>(to), make_float4(values[0], values[1], values[2], values[3]));
}
#endif
template <int F> __device__ __forceinline__ void add_atomically(float* to, const float* values) {
#if __CUDA_ARCH__ >= 900
  constexpr int kTogether = F < 4 ? F : 4;
#else
  constexpr int kTogether = 1;
#endif
#pragma unroll
  for (int f = 0; f < F; f += kTogether) add_together(to + f, values + f, Fixed<kTogether>());
}

// A position clamped to [0, 1].
template <int D> struct HeldPosition {
  float at[D];
  bool good;  // the row exists, and no coordinate is NaN
};
template <int D> __device__ __forceinline__ HeldPosition<D> load_held(const float* x, int64_t row, int64_t count) {
  HeldPosition<D> out;
  out.good = row < count;
#pragma unroll
  for (int d = 0; d < D; ++d) {
    const float value = row < count ? __ldg(x + row * D + d) : 0.0f;
    out.good = out.good && value == value;
    out.at[d] = fminf(fmaxf(value, 0.0f), 1.0f);
  }
  return out;
}

// The corners at one end of a cell's first axis. Two neighbouring lanes have one end each: their entries are mostly neighbours
// too (the hash leaves the first axis as it is), and lanes that read one cache line at a time read it once, or, of one
// sector of 32 bytes, added at once.
template <int D> struct CellEnd {
  static constexpr int kCorners = 1 << (D - 1);
  uint32_t entry[kCorners];
  float weight[kCorners];
  uint32_t corner[D];
};

template <int D>
__device__ __forceinline__ void find_entries(const GridLevel& level, const GridCell<float, D>& cell, uint32_t* entry) {
#pragma unroll
  for (int k = 0; k < CellEnd<D>::kCorners; ++k) entry[k] = corner_entry(level, cell, 2 * k);
}

// Unlike in grid_cell, a position at the boundary of a cell may fall into either cell; features and gradients by the table are the
// same for both.
template <int D>
__device__ __forceinline__ CellEnd<D> cell_end(const GridLevel& level, const HeldPosition<D>& x, uint32_t end) {
  constexpr float kRound = 12582912.0f;  // 1.5 2^23: a sum with it is rounded to a whole number, in its lowest bits
  CellEnd<D> out;
  GridCell<float, D> cell;
#pragma unroll
  for (int d = 0; d < D; ++d) {
    const float rounded = fmaf(x.at[d], level.scale, kRound);
    cell.corner[d] = __float_as_uint(rounded) - __float_as_uint(kRound);
    cell.fraction[d] = __fadd_rn(fmaf(x.at[d], level.scale, -__fadd_rn(rounded, -kRound)), 0.5f);
  }
  const float along = end ? cell.fraction[0] : 1.0f - cell.fraction[0];
  cell.corner[0] += end;
#pragma unroll
  for (int d = 0; d < D; ++d) out.corner[d] = cell.corner[d];
#pragma unroll
  for (int k = 0; k < CellEnd<D>::kCorners; ++k) out.weight[k] = along * weight_without(cell, 2 * k, 0, 0);
  GridLevel known = level;
  if (level.order == kGridHashed) {  // out here, for the same branch at every corner is not taken out
    known.order = kGridHashed;
    find_entries(known, cell, out.entry);
  } else if (level.order == kGridHashedBlocks) {
    known.order = kGridHashedBlocks;
    find_entries(known, cell, out.entry);
  } else if (level.order == kGridDenseBlocks) {
    known.order = kGridDenseBlocks;
    find_entries(known, cell, out.entry);
  } else if (level.order == kGridWrapped) {
    known.order = kGridWrapped;
    find_entries(known, cell, out.entry);
  } else {
    known.order = kGridDense;
    find_entries(known, cell, out.entry);
  }
  return out;
}

// Contribution of the corners at one end to the features of a position.
template <int D, int F, typename Load>
__device__ __forceinline__ void add_up_end(const GridLevel& level, const HeldPosition<D>& x, uint32_t end, const Load& load,
                                           float* value) {
  const CellEnd<D> cell = cell_end<D>(level, x, end);
  float features[CellEnd<D>::kCorners][F];
#pragma unroll
  for (int k = 0; k < CellEnd<D>::kCorners; ++k) load(cell.entry[k], features[k]);
#pragma unroll
  for (int f = 0; f < F; ++f) {
    float sum = 0;
#pragma unroll
    for (int k = 0; k < CellEnd<D>::kCorners; ++k) sum = fmaf(cell.weight[k], features[k][f], sum);
    value[f] = x.good ? sum : 0.0f;
  }
}

// The features of two positions, by two lanes: the even one (end 0) gets those of `first`, the odd one of `second`. All lanes
// of the warp take part.
template <int D, int F, typename Load>
__device__ __forceinline__ void features_of_pair(const GridLevel& level, const HeldPosition<D>& first,
                                                 const HeldPosition<D>& second, uint32_t end, const Load& load, float* value) {
  float a[F], b[F];
  add_up_end<D, F>(level, first, end, load, a);
  add_up_end<D, F>(level, second, end, load, b);
#pragma unroll
  for (int f = 0; f < F; ++f) {
    const float given = __shfl_xor_sync(~0u, end ? a[f] : b[f], 1);
    value[f] = (end ? b[f] : a[f]) + given;
  }
}

}  // namespace luxel
