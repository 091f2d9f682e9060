// The gradient of field by the table for sorted positions: the rows of a block lie in a small box of grid points. If the box fits
// into shared memory, the gradients of a level are added up there, and each entry is added to global memory once.
//
// Sums are in fixed point, because shared memory adds integers natively: a unit is 2^-22 of the power of two above
// the greatest gradient of the block, and 256 rows of it stay below 2^30.
#pragma once

#include "kernels/field/grid_mlp/field_scatter.cuh"

namespace luxel {

constexpr int kBoxWords = 8192;  // sums of a block
constexpr int kBoxParts = 2;     // rows of two lanes
static_assert(kScatterThreads * kBoxParts == 2 * kScatterWarps * kScatterRows && kScatterWarps * kScatterRows == 256);

__device__ __forceinline__ uint32_t warp_least(uint32_t x) {
#if __CUDA_ARCH__ >= 800
  return __reduce_min_sync(~0u, x);
#else
  for (int step = 16; step > 0; step /= 2) x = min(x, __shfl_xor_sync(~0u, x, step));
  return x;
#endif
}
__device__ __forceinline__ uint32_t warp_greatest(uint32_t x) { return ~warp_least(~x); }

// A box of a level's grid points, at most kBoxWords / F of them.
template <int D> struct GridBox {
  uint32_t low[D], size[D];
  uint32_t points;
};

// A row's part at one end of its cell: whole numbers to the box. Lanes that are neighbours begin at different corners and features,
// so that those of one cell do not meet in one sum.
template <int D, int F>
__device__ __forceinline__ void add_to_box(const CellEnd<D>& cell, const GridBox<D>& box, const float (&g)[F], float unit, int row,
                                           int* sums) {
  constexpr int kPoints = kBoxWords / F, kCorners = CellEnd<D>::kCorners;
  const bool swap = row / kCorners % 2;
  uint32_t first = cell.corner[0] - box.low[0], stride = box.size[0], steps[D] = {};
  float weights[kCorners];
#pragma unroll
  for (int k = 0; k < kCorners; ++k) weights[k] = unit * cell.weight[k];
#pragma unroll
  for (int d = 1; d < D; ++d) {
    const int bit = 1 << (d - 1);
    const bool turned = row & bit;
    first += (cell.corner[d] - box.low[d] + turned) * stride;
    steps[d] = turned ? 0 - stride : stride;
    stride *= box.size[d];
#pragma unroll
    for (int k = 0; k < kCorners; ++k) {
      if (k & bit) continue;
      const float near = weights[k], far = weights[k | bit];
      weights[k] = turned ? far : near;
      weights[k | bit] = turned ? near : far;
    }
  }
#pragma unroll
  for (int k = 0; k < kCorners; ++k) {
    uint32_t point = first;
#pragma unroll
    for (int d = 1; d < D; ++d) point += k >> (d - 1) & 1 ? steps[d] : 0;
#pragma unroll
    for (int f = 0; f < F; ++f) {
      const float value = swap ? g[f ^ 1] : g[f];
      atomicAdd(sums + (f ^ static_cast<int>(swap)) * kPoints + point, __float2int_rn(weights[k] * value));
    }
  }
}

// Adds the sums of the box to global memory.
template <int D, int F>
__device__ __forceinline__ void add_box(const GridLevel& level, const GridBox<D>& box, float unit, const int* sums, float* to) {
  constexpr int kPoints = kBoxWords / F;
  float part[D];
#pragma unroll
  for (int d = 0; d < D; ++d) part[d] = 1.0f / static_cast<float>(box.size[d]);
  for (uint32_t i = threadIdx.x; i < box.points; i += kScatterThreads) {
    int sum[F], any = 0;
#pragma unroll
    for (int f = 0; f < F; ++f) any |= sum[f] = sums[f * kPoints + i];
    if (any == 0) continue;
    uint32_t at[D], rest = i;
#pragma unroll
    for (int d = 0; d < D; ++d) {  // rest is small enough for the quotient of floats to be right
      const uint32_t quotient = d + 1 < D ? static_cast<uint32_t>((static_cast<float>(rest) + 0.5f) * part[d]) : 0u;
      at[d] = box.low[d] + rest - quotient * box.size[d];
      rest = quotient;
    }
    float values[F];
#pragma unroll
    for (int f = 0; f < F; ++f) values[f] = static_cast<float>(sum[f]) * unit;
    add_atomically<F>(to + int64_t{grid_entry<D>(level, at)} * F, values);
  }
}

template <int D, int F>
__global__ void __launch_bounds__(kScatterThreads)
    field_boxes_kernel(const float* x, const GridLevels levels, const FieldFeatures g_features, float* g_table) {
  constexpr int kPoints = kBoxWords / F;
  __shared__ alignas(16) int sums[kBoxWords];
  __shared__ uint32_t bounds[2 * D + 1];  // lowest and highest corners, and the bits of the greatest gradient
  const int lane = threadIdx.x % 32, end = lane % 2;
  const GridLevel& level = levels.at[blockIdx.y];
  float* const to = g_table + int64_t{level.offset} * F;
  if (threadIdx.x <= 2 * D) bounds[threadIdx.x] = threadIdx.x < D ? ~0u : 0u;

  HeldPosition<D> position[kBoxParts];
  float g[kBoxParts][F];
  uint32_t low[D], high[D], greatest = 0;
#pragma unroll
  for (int d = 0; d < D; ++d) {
    low[d] = ~0u;
    high[d] = 0;
  }
#pragma unroll
  for (int part = 0; part < kBoxParts; ++part) {
    const int64_t row = int64_t{blockIdx.x} * kScatterWarps * kScatterRows + (part * kScatterThreads + threadIdx.x) / 2;
    position[part] = load_held<D>(x, row, g_features.count);
    uint32_t most = 0;
#pragma unroll
    for (int f = 0; f < F; f += 2) {
      const float2 pair = unpack_halves(g_features.packed(static_cast<int>(blockIdx.y) * (F / 2) + f / 2, row));
      g[part][f] = pair.x;
      g[part][f + 1] = pair.y;
      most = max(most, max(__float_as_uint(fabsf(pair.x)), __float_as_uint(fabsf(pair.y))));  // NaN above all
    }
    position[part].good = position[part].good && most > 0;
    if (!position[part].good) continue;
    greatest = max(greatest, most);
    const CellEnd<D> cell = cell_end<D>(level, position[part], end);
#pragma unroll
    for (int d = 0; d < D; ++d) {
      low[d] = min(low[d], cell.corner[d]);
      high[d] = max(high[d], cell.corner[d] + (d > 0));
    }
  }
  __syncthreads();
  greatest = warp_greatest(greatest);
#pragma unroll
  for (int d = 0; d < D; ++d) {
    low[d] = warp_least(low[d]);
    high[d] = warp_greatest(high[d]);
  }
  if (lane == 0 && greatest > 0) {
    atomicMax(bounds + 2 * D, greatest);
#pragma unroll
    for (int d = 0; d < D; ++d) {
      atomicMin(bounds + d, low[d]);
      atomicMax(bounds + D + d, high[d]);
    }
  }
  __syncthreads();
  greatest = bounds[2 * D];
  if (greatest == 0) return;

  GridBox<D> box;
  box.points = 1;
  float points = 1;
#pragma unroll
  for (int d = 0; d < D; ++d) {
    box.low[d] = bounds[d];
    box.size[d] = bounds[D + d] - box.low[d] + 1;
    box.points *= box.size[d];
    points *= static_cast<float>(box.size[d]);
  }
  const int exponent = static_cast<int>(greatest >> 23);  // biased
  constexpr int kInfinite = 255, kTop = 275;              // 127 + 126 + 22: 2^(kTop - exponent - 127) is units of 1
  if (points > static_cast<float>(kPoints) || exponent == kInfinite) {
#pragma unroll
    for (int part = 0; part < kBoxParts; ++part) {
      const CellEnd<D> cell = cell_end<D>(level, position[part], end);
      float values[CellEnd<D>::kCorners][F];
#pragma unroll
      for (int k = 0; k < CellEnd<D>::kCorners; ++k)
#pragma unroll
        for (int f = 0; f < F; ++f) values[k][f] = cell.weight[k] * g[part][f];
      add_corners<D, F>(level, cell, values, position[part].good, lane, to);
    }
    return;
  }
  for (uint32_t i = threadIdx.x; i < box.points; i += kScatterThreads) {
#pragma unroll
    for (int f = 0; f < F; ++f) sums[f * kPoints + i] = 0;
  }
  __syncthreads();
  const float in_units = __uint_as_float(static_cast<uint32_t>(kTop - exponent) << 23);  // a half's exponent is 103 to 142
#pragma unroll
  for (int part = 0; part < kBoxParts; ++part) {
    if (position[part].good)
      add_to_box<D, F>(cell_end<D>(level, position[part], end), box, g[part], in_units, lane / 2, sums);
  }
  __syncthreads();
  add_box<D, F>(level, box, 1.0f / in_units, sums, to);
}

}  // namespace luxel
