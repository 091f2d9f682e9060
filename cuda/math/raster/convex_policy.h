// The policy of the smooth convex (Held et al. 2025, "3D Convex Splatting").
//
// With L_j(q) = (b_y - a_y) (q_x - a_x) - (b_x - a_x) (q_y - a_y) for the edge from corner a to the next, b, negative
// inside, phi = ln sum_j exp(delta L_j) and the indicator sigmoid(-sigma phi): alpha = opacity * indicator. Both are
// computed in base 2: v_j = log2(e) delta L_j, phi = max v + log2 sum 2^(v_j - max v), indicator =
// 1 / (1 + 2^(sigma phi)). L is quadratic in coordinates, so v_j is L_j of coordinates scaled by root(log2(e) delta).
//
// With g the gradient by v_j, the gradient by the corners needs only the sums over pixels of g, g q_x and g q_y of each edge.
#pragma once

#include "math/raster/convex_bounds.h"
#include "math/raster/policy.h"

namespace luxel {

// The scale of coordinates; bounded, so that no intermediate value of the indicator overflows.
template <typename T> LUXEL_HD T convex_scale(T delta) { return root(smaller(T(1.4426950408889634) * delta, T(1e20))); }
constexpr float kMinDelta = 1e-30f;  // lower bound of the divisor in the gradient by delta

template <typename T> struct ConvexPolicy {
  using Bounds = ConvexBounds<T>;
  static constexpr int kRow = kConvexRow, kCorners = kMaxCorners, kFirst = kConvexCorners;
  static constexpr int kPiece = 128;
  static constexpr bool kMultiEdge = true, kHasAbsolute = false, kPixelDepth = false;

  T x, y, opacity, depth;
  T delta, sigma, scale;
  int edges;
  T corner_x[kCorners + 1], corner_y[kCorners + 1];  // scaled, relative to (x, y); the first is repeated after the last

  static LUXEL_HD ConvexPolicy load(const T* row) {
    ConvexPolicy c = {row[0], row[1], row[2], row[3], row[4], row[5], convex_scale(row[4]), static_cast<int>(row[6]), {}, {}};
LUXEL_UNROLL
    for (int j = 0; j <= kCorners; ++j) {
      const bool there = j < kCorners && j < c.edges;  // selects values, not addresses: rows may be in registers
      const int k = kFirst + 2 * (j < kCorners ? j : 0);
      c.corner_x[j] = c.scale * (there ? row[k] : row[kFirst]);
      c.corner_y[j] = c.scale * (there ? row[k + 1] : row[kFirst + 1]);
    }
    return c;
  }

  // Pixels of a row, dx and dy (px) from the centroid.
  template <typename V> struct At {
    V dx;  // scaled, as is dy
    T dy;
    V falloff;
    decltype(V() >= V()) valid;  // false where phi is NaN
    V rest, phi, stretch, inverse;  // 1 - falloff; phi; sum of shares times v; 1 / sum of shares
    V share[kCorners];              // 2^(v_j - max v)
  };
  template <typename V> LUXEL_HD At<V> at(V dx, T dy) const {
    At<V> at;
    at.dx = scale * dx;
    at.dy = scale * dy;
    V top = {}, sum = {}, v[kCorners];
    for (int j = 0; j < edges; ++j) {
      const T normal_x = corner_y[j + 1] - corner_y[j], normal_y = corner_x[j] - corner_x[j + 1];
      v[j] = normal_x * (at.dx - corner_x[j]) + normal_y * (at.dy - corner_y[j]);
      top = j == 0 || v[j] > top ? v[j] : top;
    }
    at.stretch = V{};
    for (int j = 0; j < edges; ++j) {
      at.share[j] = exp2_of(v[j] - top);
      sum += at.share[j];
      at.stretch += at.share[j] * v[j];
    }
    at.inverse = T(1) / sum;
    at.phi = top + log2_of(sum);
    const V power = sigma * at.phi, most = V{} + T(126);
    const V outside = exp2_of(power < most ? power : most);
    at.falloff = T(1) / (T(1) + outside);
    at.rest = outside * at.falloff;
    at.valid = at.phi == at.phi;
    return at;
  }

  // Gradient by the row, accumulated over pixels; g_alpha is the gradient by the uncapped alpha = opacity * falloff.
  template <typename V, bool> struct Gradient {
    V opacity, delta, sigma;
    V zeroth[kCorners], first_x[kCorners], first_y[kCorners];  // sums over pixels of g, g dx, g dy; g: gradient by v_j

    LUXEL_HD void add(const ConvexPolicy& c, const At<V>& at, V g_alpha) {
      const T ln2 = T(0.6931471805599453);
      opacity += at.falloff * g_alpha;
      const V g_power = -ln2 * c.opacity * at.falloff * at.rest * g_alpha;
      sigma += at.phi * g_power;
      const V g_phi = c.sigma * at.inverse * g_power;
      delta += at.stretch * g_phi;
      for (int j = 0; j < c.edges; ++j) {
        const V g = at.share[j] * g_phi;
        zeroth[j] += g;
        first_x[j] += g * at.dx;
        first_y[j] += g * at.dy;
      }
    }
    template <typename Sum> LUXEL_HD void store(const ConvexPolicy& c, Sum sum, T* row) const {
      Moments of = {sum(opacity), sum(delta), sum(sigma), {}, {}, {}};
      for (int j = 0; j < c.edges; ++j) {
        of.zeroth[j] = sum(zeroth[j]);
        of.first_x[j] = sum(first_x[j]);
        of.first_y[j] = sum(first_y[j]);
      }
      c.gradient(of, row);
    }
  };

  // The sums of Gradient as scalars.
  struct Moments {
    T opacity, delta, sigma, zeroth[kCorners], first_x[kCorners], first_y[kCorners];
  };
  // Writes the gradient by the row.
  LUXEL_HD void gradient(const Moments& of, T* row) const {
LUXEL_UNROLL
    for (int k = 0; k < kRow; ++k) row[k] = T(0);
    row[2] = of.opacity;
    row[4] = of.delta / larger(delta, T(kMinDelta));
    row[5] = of.sigma;
LUXEL_UNROLL
    for (int j = 0; j < kCorners; ++j) {
      if (j >= edges) continue;
      const T g0 = scale * of.zeroth[j], gx = scale * of.first_x[j], gy = scale * of.first_y[j];
      const T next_x = corner_y[j] * g0 - gy, next_y = gx - corner_x[j] * g0;
      const bool closes = j + 1 >= edges || j + 1 == kCorners;
      row[kFirst + 2 * j] += gy - corner_y[j + 1] * g0;
      row[kFirst + 2 * j + 1] += corner_x[j + 1] * g0 - gx;
      row[kFirst] += closes ? next_x : T(0);
      row[kFirst + 1] += closes ? next_y : T(0);
      if (j + 1 == kCorners) continue;
      row[kFirst + 2 * (j + 1)] += closes ? T(0) : next_x;
      row[kFirst + 2 * (j + 1) + 1] += closes ? T(0) : next_y;
    }
  }

  // The form in a tile's shared memory: each edge as v_j = n . q + c, q scaled and relative to (x, y). Unused edges have a v far
  // below all others, so that loops over edges may include them: the loops have no branches, and their iterations are
  // independent.
  struct alignas(16) Packed {
    float x, y, scale, sigma, opacity;
    int edges;
    float lines[3 * kCorners];
  };
  static LUXEL_HD Packed pack(const float* row) {
    Packed packed = {row[0], row[1], convex_scale(row[4]), row[5], row[2], static_cast<int>(row[6]), {}};
    const float first_x = packed.scale * row[kFirst], first_y = packed.scale * row[kFirst + 1];
LUXEL_UNROLL
    for (int j = 0; j < kCorners; ++j) {
      const bool closes = j + 1 >= packed.edges || j + 1 == kCorners, there = j < packed.edges;
      const int after = j + 1 < kCorners ? kFirst + 2 * (j + 1) : kFirst;
      const float ax = packed.scale * row[kFirst + 2 * j], ay = packed.scale * row[kFirst + 2 * j + 1];
      const float bx = closes ? first_x : packed.scale * row[after];
      const float by = closes ? first_y : packed.scale * row[after + 1];
      const float nx = by - ay, ny = ax - bx;
      float* line = packed.lines + 3 * j;
      line[0] = there ? nx : 0.0f;
      line[1] = there ? ny : 0.0f;
      line[2] = there ? fused(-nx, ax, -ny * ay) : -1e30f;
    }
    return packed;
  }
  // A splat that contributes to no pixel.
  static LUXEL_HD Packed null_splat() { return {}; }
  static LUXEL_HD float depth_of(const float* row) { return row[3]; }

  // v of each of the first E edges at a pixel, and their maximum.
  template <int E> struct Reach {
    float v[E], top;
  };

  // Alpha at a pixel, and the intermediate values that the gradient reuses.
  template <int E> struct Coverage {
    float raw;                 // uncapped alpha
    float rest, phi, inverse;  // as in At
    float share[E];
    LUXEL_HD bool hits(float) const { return raw >= kMinAlpha; }
    LUXEL_HD float alpha() const { return raw; }
  };

  // Terms that the pixels at px share: v_j = base_j + slope_j dy. Forward and backward pass both use it, with the same E, so that
  // they agree bitwise.
  template <int E> struct Column {
    static constexpr int kEdges = E;
    float dx, base[E], slope[E];

    LUXEL_HD Column(const Packed& c, float px) : dx(c.scale * (px - c.x)) {
LUXEL_UNROLL
      for (int j = 0; j < E; ++j) {
        base[j] = fused(c.lines[3 * j], dx, c.lines[3 * j + 2]);
        slope[j] = c.lines[3 * j + 1];
      }
    }
    // The pixel dy (px) below the centroid.
    LUXEL_HD Reach<E> reach(const Packed& c, float dy) const {
      Reach<E> reach;
      const float scaled = c.scale * dy;
      float tops[E];
LUXEL_UNROLL
      for (int j = 0; j < E; ++j) tops[j] = reach.v[j] = fused(slope[j], scaled, base[j]);
LUXEL_UNROLL
      for (int step = 1; step < E; step *= 2)
LUXEL_UNROLL
        for (int j = 0; j + step < E; j += 2 * step) tops[j] = fmaxf(tops[j], tops[j + step]);
      reach.top = tops[0];
      return reach;
    }
    LUXEL_HD Coverage<E> coverage(const Packed& c, const Reach<E>& reach) const {
      Coverage<E> coverage;
      float sums[E];
LUXEL_UNROLL
      for (int j = 0; j < E; ++j) sums[j] = coverage.share[j] = exp2_of(reach.v[j] - reach.top);
LUXEL_UNROLL
      for (int step = 1; step < E; step *= 2)
LUXEL_UNROLL
        for (int j = 0; j + step < E; j += 2 * step) sums[j] += sums[j + step];
      coverage.inverse = inverse(sums[0]);
      coverage.phi = reach.top + log2_of(sums[0]);
      const float outside = exp2_of(smaller(c.sigma * coverage.phi, 126.0f)), falloff = inverse(1.0f + outside);
      coverage.rest = outside * falloff;
      coverage.raw = c.opacity * falloff;
      return coverage;
    }
    // The uncapped alpha alone.
    LUXEL_HD float look(const Packed& c, float dy) const { return coverage(c, reach(c, dy)).raw; }
  };

  // Raw moments over pixels of one column, from g_log_alpha = alpha d loss / d alpha; factors that the pixels share are applied
  // once for each row, in moments_to_gradient().
  template <bool, int E> struct Sums {
    static constexpr int kCount = 3 + 3 * E;
    float opacity = 0.0f, sigma = 0.0f, zeroth[E] = {}, first[E] = {};

    LUXEL_HD void add(const Packed&, const Column<E>&, const Coverage<E>& coverage, float dy, float g_log_alpha) {
      opacity += g_log_alpha;
      const float g_power = g_log_alpha * coverage.rest, g_phi = g_power * coverage.inverse, g_phi_dy = g_phi * dy;
      sigma = fused(coverage.phi, g_power, sigma);
LUXEL_UNROLL
      for (int j = 0; j < E; ++j) {
        zeroth[j] = fused(coverage.share[j], g_phi, zeroth[j]);
        first[j] = fused(coverage.share[j], g_phi_dy, first[j]);
      }
    }
    // The sums to be added over threads and warps: of opacity, sigma, delta (of share times v, which is linear in dy), and the
    // moments of each edge.
    LUXEL_HD void store(const Packed& c, const Column<E>& column, float* sums) const {
      float delta = 0.0f;
LUXEL_UNROLL
      for (int j = 0; j < E; ++j) {
        sums[3 + 3 * j] = zeroth[j];
        sums[4 + 3 * j] = column.dx * zeroth[j];
        sums[5 + 3 * j] = first[j];
        delta = fused(column.slope[j], c.scale * first[j], fused(column.base[j], zeroth[j], delta));
      }
      sums[0] = opacity;
      sums[1] = sigma;
      sums[2] = delta;
    }
    // Index of sum k in the row, and its factor.
    static LUXEL_HD int slot(int k) { return k; }
    static LUXEL_HD float scale(int) { return 1.0f; }
  };
  // Turns the sums over all pixels, ordered by slot(), into the gradient by the row, in place [kRow].
  static LUXEL_HD void moments_to_gradient(const float* row, float* sums) {
    static_assert(3 + 3 * kCorners <= kRow, "sums of a splat wait in the row of its gradient");
    const ConvexPolicy c = load(row);
    const float factor = -0.69314718f * c.sigma;  // applied before the scale: sums are 0 where both are huge
    Moments of = {sums[0] * inverse(c.opacity), factor * sums[2], -0.69314718f * sums[1], {}, {}, {}};
LUXEL_UNROLL
    for (int j = 0; j < kCorners; ++j) {
      of.zeroth[j] = factor * sums[3 + 3 * j];
      of.first_x[j] = factor * sums[4 + 3 * j];
      of.first_y[j] = c.scale * (factor * sums[5 + 3 * j]);
    }
    c.gradient(of, sums);
  }
};

}  // namespace luxel
