// The gradient of field by the table, from the gradient by the features: level by level, as the blocks come, so that the caches
// have one level's sums at a time. Two lanes have a position, one end of its cell each; neighbouring positions in one cell, as
// samples along a ray are, add up their parts before they go to memory.
#pragma once

#include "field_chain.cuh"

namespace luxel {

constexpr int kScatterWarps = 8, kScatterThreads = 32 * kScatterWarps, kScatterRows = 32;  // rows of a warp
constexpr int kMostCells = 10;  // of 16 positions in a row: with more of them, adding up beforehand costs more than it saves

template <int F> __device__ __forceinline__ void add_entry(float* to, const float* values) { add_atomically<F>(to, values); }
template <int F> __device__ __forceinline__ void add_entry(__half* to, const float* values) {
#pragma unroll
  for (int f = 0; f < F; f += 2)  // atomicAdd asks first whether it is shared memory, and waits for the sum
    asm volatile("red.global.add.noftz.f16x2 [%0], %1;" ::"l"(to + f), "r"(pack_halves(values[f], values[f + 1])) : "memory");
}

template <int D, int F, typename Sum>
__global__ void __launch_bounds__(kScatterThreads)
    field_scatter_kernel(const float* x, const GridLevels levels, const FieldFeatures g_features, Sum* g_table) {
  constexpr int kCorners = CellEnd<D>::kCorners;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, end = lane % 2;
  const GridLevel& level = levels.at[blockIdx.y];
  Sum* const sums = g_table + int64_t{level.offset} * F;
  const int64_t start = (int64_t{blockIdx.x} * kScatterWarps + warp) * kScatterRows;
#pragma unroll 1
  for (int part = 0; part < kScatterRows; part += 16) {
    const int64_t row = start + part + lane / 2;
    const bool there = row < g_features.count;
    const HeldPosition<D> position = load_held<D>(x, row, g_features.count);
    float g[F];
    bool active = false;
#pragma unroll
    for (int f = 0; f < F; f += 2) {
      const int64_t pair = int64_t{blockIdx.y} * (F / 2) + f / 2;
      const float2 two = there ? unpack_halves(__ldg(reinterpret_cast<const uint32_t*>(g_features.at) + pair * g_features.count + row))
                               : make_float2(0.0f, 0.0f);
      g[f] = two.x;
      g[f + 1] = two.y;
      active |= two.x != 0.0f || two.y != 0.0f;
    }
    const CellEnd<D> cell = cell_end<D>(level, position, end);
    active = active && position.good;
    bool same = __shfl_up_sync(~0u, static_cast<int>(active), 2) != 0 && lane >= 2 && active;  // as the position before
#pragma unroll
    for (int d = 0; d < D; ++d) same = (__shfl_up_sync(~0u, cell.corner[d], 2) == cell.corner[d]) && same;
    float values[kCorners][F];
#pragma unroll
    for (int k = 0; k < kCorners; ++k)
#pragma unroll
      for (int f = 0; f < F; ++f) values[k][f] = cell.weight[k] * g[f];
    const uint32_t heads = __ballot_sync(~0u, !same) & (0x55555555u << end);  // of runs, at this end
    if (__popc(heads) <= kMostCells) {                                         // the same at both ends
      const uint32_t later = heads & ~((2u << lane) - 1u);
      const int stop = later ? __ffs(later) - 1 : 32;  // one past this run's last lane
#pragma unroll
      for (int step = 2; step < 32; step *= 2)
#pragma unroll
        for (int k = 0; k < kCorners; ++k)
#pragma unroll
          for (int f = 0; f < F; ++f) {
            const float more = __shfl_down_sync(~0u, values[k][f], step);
            if (lane + step < stop) values[k][f] += more;
          }
      active = active && !same;
    }
    if (active) {
#pragma unroll
      for (int k = 0; k < kCorners; ++k) add_entry<F>(sums + int64_t{cell.entry[k]} * F, values[k]);
    }
  }
}

// g_table += what was added up in half, eight numbers a thread.
__global__ void __launch_bounds__(256) field_widen_kernel(const __half* sums, int64_t numbers, float* g_table) {
  const int64_t i = (int64_t{blockIdx.x} * 256 + threadIdx.x) * 8;
  if (i + 8 <= numbers) {
    const uint4 packed = *reinterpret_cast<const uint4*>(sums + i);
    const uint32_t words[4] = {packed.x, packed.y, packed.z, packed.w};
    float4* const to = reinterpret_cast<float4*>(g_table + i);
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      float4 value = to[k];
      const float2 low = unpack_halves(words[2 * k]), high = unpack_halves(words[2 * k + 1]);
      value.x += low.x;
      value.y += low.y;
      value.z += high.x;
      value.w += high.y;
      to[k] = value;
    }
    return;
  }
  for (int64_t k = i; k < numbers; ++k) g_table[k] += __half2float(sums[k]);
}

}  // namespace luxel
