// The gradient of field by the table, from the gradient by the features: level by level in block order, so that the
// caches hold one level's sums at a time.
#pragma once

#include "kernels/field/grid_mlp/field_chain.cuh"
#include "kernels/field/grid/grid_scatter.cuh"

namespace luxel {

constexpr int kScatterWarps = 8, kScatterThreads = 32 * kScatterWarps, kScatterRows = 32;  // rows of a warp

template <int D, int F>
__global__ void __launch_bounds__(kScatterThreads)
    field_scatter_kernel(const float* x, const GridLevels levels, const FieldFeatures g_features, float* g_table) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const GridLevel& level = levels.at[blockIdx.y];
  const int64_t start = (int64_t{blockIdx.x} * kScatterWarps + warp) * kScatterRows;
#pragma unroll 1
  for (int part = 0; part < kScatterRows; part += 16) {
    const int64_t row = start + part + lane / 2;
    const HeldPosition<D> position = load_held<D>(x, row, g_features.count);
    float g[F];
#pragma unroll
    for (int f = 0; f < F; f += 2) {
      const float2 pair = unpack_halves(g_features.packed(static_cast<int>(blockIdx.y) * (F / 2) + f / 2, row));
      g[f] = pair.x;
      g[f + 1] = pair.y;
    }
    scatter_level<D, F>(level, position, g, lane, g_table + int64_t{level.offset} * F);
  }
}

}  // namespace luxel
