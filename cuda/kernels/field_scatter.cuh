// The gradient of field by the table, from the gradient by the features: level by level, as the blocks come, so that the caches
// have one level's sums at a time.
#pragma once

#include "field_chain.cuh"
#include "grid_scatter.cuh"

namespace luxel {

constexpr int kScatterWarps = 8, kScatterThreads = 32 * kScatterWarps, kScatterRows = 32;  // rows of a warp

template <int D, int F, typename Sum>
__global__ void __launch_bounds__(kScatterThreads)
    field_scatter_kernel(const float* x, const GridLevels levels, const FieldFeatures g_features, Sum* g_table) {
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

// g_table += what was added up in half, eight numbers a thread.
static __global__ void __launch_bounds__(256) field_widen_kernel(const __half* sums, int64_t numbers, float* g_table) {
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
