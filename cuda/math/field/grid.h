// One level of the grid encoding (Mueller et al. 2022, "Instant Neural Graphics Primitives", section 3), its vjp, and the vjp
// of the gradient by the position. Within a cell the features are linear along each axis, so that only mixed second derivatives
// by the position are not 0.
#pragma once

#include "math/hd.h"

namespace luxel {

// How points map to entries. The first three, for levels whose points do not all fit, are the values of `hashed` in abi/field.h.
enum GridOrder : int32_t { kGridWrapped, kGridHashed, kGridHashedBlocks, kGridDense, kGridDenseBlocks };

struct GridLevel {
  float scale;
  uint32_t resolution;  // points along an axis
  uint32_t offset;      // first entry
  uint32_t size;        // entries; a power of two unless the level is dense
  int32_t order;
};

// Blocks of 8 neighbouring points, 4 x 2 in 2D, 2 x 2 x 2 in 3D, 2 x 2 x 2 x 1 in 4D, are stored densely or hashed together, so
// that their entries are contiguous: with two half features one 32-byte cache sector.
constexpr int kGridBlock = 3;  // log2 of the points of a block
// log2 of a block's side along axis d.
LUXEL_HD constexpr int block_side(int dimensions, int d) {
  return dimensions == 1 ? 3 : dimensions == 2 ? 2 - d : d < 3 ? 1 : 0;
}

LUXEL_HD GridLevel grid_level(double scale, int64_t begin, int64_t end, int dimensions, GridOrder beyond) {
  const double resolution = ceil_of(scale) + 1;
  const bool blocks = beyond == kGridHashedBlocks;
  double points = blocks ? 1 << kGridBlock : 1;
  for (int d = 0; d < dimensions; ++d)  // with blocks, one point more along each axis, for positions at the upper end
    points *= blocks ? (static_cast<uint32_t>(resolution) >> block_side(dimensions, d)) + 1 : resolution;
  const bool fits = points <= static_cast<double>(end - begin);
  return {static_cast<float>(scale), static_cast<uint32_t>(resolution), static_cast<uint32_t>(begin),
          static_cast<uint32_t>(end - begin), !fits ? beyond : blocks ? kGridDenseBlocks : kGridDense};
}

LUXEL_HD uint32_t grid_prime(int d) { return d == 0 ? 1u : d == 1 ? 2654435761u : d == 2 ? 805459861u : 3674653429u; }

LUXEL_HD bool in_blocks(const GridLevel& level) { return level.order == kGridHashedBlocks || level.order == kGridDenseBlocks; }

// Contribution of axis d to the index of an entry, (at >> side) * (step << side) + (position within the block << bits of the axes
// before), in fewer instructions.
template <int D> LUXEL_HD uint32_t block_part(uint32_t at, int d, uint32_t step) {
  int before = 0;
  LUXEL_UNROLL for (int e = 0; e < D; ++e) before += e < d ? block_side(D, e) : 0;
  const int side = block_side(D, d);
  return at * step + (at & ((1u << side) - 1)) * ((1u << before) - step);
}

// The entry of a grid point, relative to the level's first.
template <int D> LUXEL_HD uint32_t grid_entry(const GridLevel& level, const uint32_t* at) {
  uint32_t index = 0;
  if (level.order == kGridHashed) {
    LUXEL_UNROLL for (int d = 0; d < D; ++d) index ^= at[d] * grid_prime(d);
    return index & (level.size - 1);
  }
  if (level.order == kGridHashedBlocks) {
    LUXEL_UNROLL for (int d = 0; d < D; ++d) index ^= block_part<D>(at[d], d, grid_prime(d) << (kGridBlock - block_side(D, d)));
    return index & (level.size - 1);
  }
  if (level.order == kGridDenseBlocks) {
    uint32_t stride = 1u << kGridBlock;
    LUXEL_UNROLL for (int d = 0; d < D; ++d) {
      index += block_part<D>(at[d], d, stride >> block_side(D, d));
      stride *= (level.resolution >> block_side(D, d)) + 1;
    }
    return index;
  }
  uint32_t stride = 1;
  LUXEL_UNROLL for (int d = 0; d < D; ++d) {
    index += at[d] * stride;
    stride *= level.resolution;
  }
  if (level.order == kGridWrapped) return index & (level.size - 1);
  // A position at the upper end uses one point beyond the grid, with a weight of up to one half. As in the authors' code, its
  // entry is that of the next point in memory. The index stays below twice the size.
  return index < level.size ? index : index - level.size;
}

// x * scale + 0.5 as integer and fractional part, with no error but the rounding of the fraction, so that the cell is the same in
// every float type.
LUXEL_HD void split_position(double x, float scale, uint32_t* whole, double* rest) {
  const double p = x * static_cast<double>(scale) + 0.5, low = floor_of(p);
  *whole = static_cast<uint32_t>(low);
  *rest = p - low;
}
LUXEL_HD void split_position(float x, float scale, uint32_t* whole, float* rest) {
#if defined(__CUDA_ARCH__)
  const float product = __fmul_rn(x, scale), lost = fmaf(x, scale, -product);
  float low = floorf(__fadd_rn(product, 0.5f));
  const float rough = __fadd_rn(product, 0.5f - low);  // exact where the cell is in doubt
  const float above = __fadd_rn(__fadd_rn(rough, -1.0f), lost);
  float r = __fadd_rn(rough, lost);
  if (r < 0.0f) {
    low -= 1.0f;
    r += 1.0f;
  } else if (above >= 0.0f) {
    low += 1.0f;
    r = above;
  }
  *whole = static_cast<uint32_t>(low);
  *rest = r;
#else
  double r;
  split_position(static_cast<double>(x), scale, whole, &r);
  *rest = static_cast<float>(r);
#endif
}

template <typename T, int D> struct GridCell {
  uint32_t corner[D];
  T fraction[D];
  T slope[D];  // of the fraction by x
};

// The cell of a position; false where a coordinate is NaN.
template <typename T, int D> LUXEL_HD bool grid_cell(const GridLevel& level, const T* x, GridCell<T, D>* cell) {
  bool good = true;
  LUXEL_UNROLL for (int d = 0; d < D; ++d) {
    const T held = x[d] > T(0) ? smaller(x[d], T(1)) : T(0);
    good = good && x[d] == x[d];
    split_position(held, level.scale, &cell->corner[d], &cell->fraction[d]);
    cell->slope[d] = held == x[d] ? static_cast<T>(level.scale) : T(0);
  }
  return good;
}

// For corner k, whose bit d selects the end along axis d: entry, weight, and the derivatives of the weight by x_a and by x_a, x_b.
template <typename T, int D> LUXEL_HD uint32_t corner_entry(const GridLevel& level, const GridCell<T, D>& cell, int k) {
  uint32_t at[D];
  LUXEL_UNROLL for (int d = 0; d < D; ++d) at[d] = cell.corner[d] + ((k >> d) & 1);
  return grid_entry<D>(level, at);
}
template <typename T, int D> LUXEL_HD T weight_without(const GridCell<T, D>& cell, int k, int a, int b) {
  T w = 1;
  LUXEL_UNROLL for (int d = 0; d < D; ++d) {
    if (d != a && d != b) w *= (k >> d) & 1 ? cell.fraction[d] : T(1) - cell.fraction[d];
  }
  return w;
}
template <typename T, int D> LUXEL_HD T end_slope(const GridCell<T, D>& cell, int k, int d) {
  return (k >> d) & 1 ? cell.slope[d] : -cell.slope[d];
}
template <typename T, int D> LUXEL_HD T corner_weight(const GridCell<T, D>& cell, int k) {
  return weight_without(cell, k, -1, -1);
}
template <typename T, int D> LUXEL_HD T corner_slope(const GridCell<T, D>& cell, int k, int a) {
  return end_slope(cell, k, a) * weight_without(cell, k, a, a);
}
template <typename T, int D> LUXEL_HD T corner_mixed(const GridCell<T, D>& cell, int k, int a, int b) {
  return end_slope(cell, k, a) * end_slope(cell, k, b) * weight_without(cell, k, a, b);
}
// The derivative of the weight along v.
template <typename T, int D> LUXEL_HD T corner_slope_along(const GridCell<T, D>& cell, int k, const T* v) {
  T sum = 0;
  LUXEL_UNROLL for (int d = 0; d < D; ++d) sum += v[d] * corner_slope(cell, k, d);
  return sum;
}

template <typename T, int F> LUXEL_HD T dot_features(const T* a, const T* b) {
  T sum = 0;
  LUXEL_UNROLL for (int f = 0; f < F; ++f) sum += a[f] * b[f];
  return sum;
}

// Below, load(entry, T* to) reads the F features of an entry of this level.

// Features at a position; value [F] is written.
template <typename T, int D, int F, typename Load>
LUXEL_HD void grid_value(const GridLevel& level, const T* x, const Load& load, T* value) {
  LUXEL_UNROLL for (int f = 0; f < F; ++f) value[f] = 0;
  GridCell<T, D> cell;
  if (!grid_cell(level, x, &cell)) return;
  LUXEL_UNROLL for (int k = 0; k < 1 << D; ++k) {
    T features[F];
    load(corner_entry(level, cell, k), features);
    const T w = corner_weight(cell, k);
    LUXEL_UNROLL for (int f = 0; f < F; ++f) value[f] += w * features[f];
  }
}

// Gradient by the position, added to g_x [D]; g [F]: gradient by the features.
template <typename T, int D, int F, typename Load>
LUXEL_HD void grid_vjp_x(const GridLevel& level, const T* x, const Load& load, const T* g, T* g_x) {
  GridCell<T, D> cell;
  if (!grid_cell(level, x, &cell)) return;
  LUXEL_UNROLL for (int k = 0; k < 1 << D; ++k) {
    T features[F];
    load(corner_entry(level, cell, k), features);
    const T pull = dot_features<T, F>(features, g);
    LUXEL_UNROLL for (int d = 0; d < D; ++d) g_x[d] += corner_slope(cell, k, d) * pull;
  }
}

// Gradient by the table: calls add(entry, factor of g) for each corner.
template <typename T, int D, typename Add> LUXEL_HD void grid_vjp_table(const GridLevel& level, const T* x, const Add& add) {
  GridCell<T, D> cell;
  if (!grid_cell(level, x, &cell)) return;
  LUXEL_UNROLL for (int k = 0; k < 1 << D; ++k) add(corner_entry(level, cell, k), corner_weight(cell, k));
}

// The vjp of grid_vjp_x, given v [D], the gradient by its g_x: gradients by its g (gg, written) and its x (g_x, added to).
template <typename T, int D, int F, typename Load>
LUXEL_HD void grid_vjp_x_vjp(const GridLevel& level, const T* x, const Load& load, const T* v, const T* g, T* gg, T* g_x) {
  LUXEL_UNROLL for (int f = 0; f < F; ++f) gg[f] = 0;
  GridCell<T, D> cell;
  if (!grid_cell(level, x, &cell)) return;
  LUXEL_UNROLL for (int k = 0; k < 1 << D; ++k) {
    T features[F];
    load(corner_entry(level, cell, k), features);
    const T along = corner_slope_along(cell, k, v), pull = dot_features<T, F>(features, g);
    LUXEL_UNROLL for (int f = 0; f < F; ++f) gg[f] += along * features[f];
    LUXEL_UNROLL for (int a = 0; a < D; ++a) {
      LUXEL_UNROLL for (int b = 0; b < D; ++b) {
        if (a != b) g_x[a] += corner_mixed(cell, k, a, b) * v[b] * pull;
      }
    }
  }
}
// And by its table: calls add(entry, factor of g) for each corner.
template <typename T, int D, typename Add>
LUXEL_HD void grid_vjp_x_vjp_table(const GridLevel& level, const T* x, const T* v, const Add& add) {
  GridCell<T, D> cell;
  if (!grid_cell(level, x, &cell)) return;
  LUXEL_UNROLL for (int k = 0; k < 1 << D; ++k) add(corner_entry(level, cell, k), corner_slope_along(cell, k, v));
}

}  // namespace luxel
