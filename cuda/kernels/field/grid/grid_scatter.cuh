// The gradient by the entries of a grid's level. Two lanes share a position, one for each end of its cell; the contributions of
// neighbouring positions in one cell, such as samples along a ray, are added up before the atomics.
#pragma once

#include "kernels/field/grid/grid_access.cuh"

namespace luxel {

constexpr int kMaxCells = 10;  // cells of 16 adjacent positions; with more, adding up beforehand costs more than it saves

// Adds the corners of cells to memory. Of blocks, a sector of 32 bytes has both ends of the first two axes: four lanes, of two
// positions, exchange corners so that they add those of one position at a time. All lanes of a warp take part.
template <int D, int F>
__device__ __forceinline__ void add_corners(const GridLevel& level, const CellEnd<D>& cell,
                                            const float (&values)[CellEnd<D>::kCorners][F], bool active, int lane, float* sums) {
  if constexpr (D >= 3 && F <= 2) {
    if (in_blocks(level)) {
      const bool second = lane & 2, other = __shfl_xor_sync(~0u, static_cast<int>(active), 2) != 0;
#pragma unroll
      for (int k = 0; k < CellEnd<D>::kCorners; k += 2) {  // and k + 1: the ends of the second axis
        const uint32_t kept = second ? cell.entry[k + 1] : cell.entry[k];
        const uint32_t given = __shfl_xor_sync(~0u, second ? cell.entry[k] : cell.entry[k + 1], 2);
        float first_values[F], second_values[F];
#pragma unroll
        for (int f = 0; f < F; ++f) {
          const float own = second ? values[k + 1][f] : values[k][f];
          const float more = __shfl_xor_sync(~0u, second ? values[k][f] : values[k + 1][f], 2);
          first_values[f] = second ? more : own;
          second_values[f] = second ? own : more;
        }
        if (second ? other : active) add_atomically<F>(sums + int64_t{second ? given : kept} * F, first_values);
        if (second ? active : other) add_atomically<F>(sums + int64_t{second ? kept : given} * F, second_values);
      }
      return;
    }
  }
  if (!active) return;
#pragma unroll
  for (int k = 0; k < CellEnd<D>::kCorners; ++k) add_atomically<F>(sums + int64_t{cell.entry[k]} * F, values[k]);
}

// sums: of the level, [its entries, F]. All lanes of a warp take part; those of one position have the same g.
template <int D, int F>
__device__ __forceinline__ void scatter_level(const GridLevel& level, const HeldPosition<D>& position, const float (&g)[F],
                                              int lane, float* sums) {
  constexpr int kCorners = CellEnd<D>::kCorners;
  const int end = lane % 2;
  const CellEnd<D> cell = cell_end<D>(level, position, end);
  bool active = false;
#pragma unroll
  for (int f = 0; f < F; ++f) active |= g[f] != 0.0f;
  active = active && position.good;
  bool same = __shfl_up_sync(~0u, static_cast<int>(active), 2) != 0 && lane >= 2 && active;  // cell as of the position before
#pragma unroll
  for (int d = 0; d < D; ++d) same = (__shfl_up_sync(~0u, cell.corner[d], 2) == cell.corner[d]) && same;
  float values[kCorners][F];
#pragma unroll
  for (int k = 0; k < kCorners; ++k)
#pragma unroll
    for (int f = 0; f < F; ++f) values[k][f] = cell.weight[k] * g[f];
  const uint32_t heads = __ballot_sync(~0u, !same) & (0x55555555u << end);  // of runs of one cell, at this end
  if (__popc(heads) <= kMaxCells) {                                        // the same at both ends
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
  add_corners<D, F>(level, cell, values, active, lane, sums);
}

}  // namespace luxel
