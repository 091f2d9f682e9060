// The policy of the Gaussian: what the tile rasterizer (cuda/kernels/blend.h, blend.cuh) needs of a primitive.
//
// A policy gives, from a primitive's row of numbers on the screen: Bounds, which say what part of a band of pixel rows
// it can reach; its alpha at a pixel; and the gradient of that by the row. It knows neither tiles nor colours.
#pragma once

#include "vec.h"

namespace luxel {

constexpr float kMinAlpha = 1.0f / 255.0f;       // contributions below are skipped
constexpr float kMinTransmittance = 1e-4f;       // a pixel ends before T would fall to this

template <typename T> struct SplatEllipse;

// V below: T, or a vector of T that holds several pixels of one row.
template <typename T> struct alignas(4 * sizeof(T)) GaussianPolicy {
  using Bounds = SplatEllipse<T>;

  T x, y, opacity, depth;
  T a, b, c;  // conic a/2, b, c/2, each times log2(e): alpha = opacity * 2^-power
  T unused;

  static LUXEL_HD GaussianPolicy load(const T* row) {
    const T log2e = T(1.4426950408889634);
    return {row[0], row[1], row[2], row[3], T(0.5) * log2e * row[4], log2e * row[5], T(0.5) * log2e * row[6], T(0)};
  }

  // exp(-power) at a pixel (dx, dy) from the centre; valid is false where rounding made power negative.
  template <typename V, typename Valid> LUXEL_HD V falloff(V dx, T dy, Valid& valid) const {
    const V zero = dx - dx;
    const V power = fused(fused(zero + a, dx, zero + b * dy), dx, zero + c * dy * dy);
    valid = power >= zero;
    return exp2_of(-power);
  }

  // Gradient by the row where g_alpha reaches the uncapped alpha = opacity * falloff: x, y, opacity, (depth), a, b, c.
  // By value: an array behind a pointer would keep the CPU's inner loop out of registers.
  template <typename V> struct Gradient {
    V x, y, opacity, a, b, c;
  };
  template <typename V> LUXEL_HD Gradient<V> alpha_vjp(V dx, T dy, V falloff, V g_alpha) const {
    const T ln2 = T(0.6931471805599453);
    const V g_opacity = falloff * g_alpha;
    const V g_power = -opacity * g_opacity;  // by the natural exponent
    const V g_dx = g_power * dx;             // dx = pixel - x
    return {-ln2 * (2 * a * g_dx + b * dy * g_power),
            -ln2 * (2 * c * dy * g_power + b * g_dx),
            g_opacity,
            T(0.5) * g_dx * dx,
            dy * g_dx,
            T(0.5) * dy * dy * g_power};
  }
};

// The ellipse power <= ln(255 opacity), inside which alpha can reach 1/255.
template <typename T> struct SplatEllipse {
  T x, y, a, b, c, reach, det, extent_x, extent_y;  // reach: largest value of a dx^2 + 2 b dx dy + c dy^2

  static LUXEL_HD SplatEllipse of(const T* splat) {
    SplatEllipse e;
    e.x = splat[0];
    e.y = splat[1];
    e.a = splat[4];
    e.b = splat[5];
    e.c = splat[6];
    e.det = larger(difference_of_products(e.a, e.c, e.b, e.b), T(1e-12) * e.a * e.c);
    // A hair wider than exact, so that rounding never drops a tile whose pixels pass the test on alpha.
    e.reach = 2 * log_of(T(255) * splat[2]) * T(1.0001) + T(1e-5);
    const T scale = e.reach / e.det;
    e.extent_x = root(scale * e.c);
    e.extent_y = root(scale * e.a);
    return e;
  }

  // Leftmost and rightmost point of the ellipse within the band y0 <= pixel y <= y1; false where they do not meet.
  LUXEL_HD bool band(T y0, T y1, T& left, T& right) const {
    const T d0 = larger(y0 - y, -extent_y), d1 = smaller(y1 - y, extent_y);
    if (!(d0 <= d1)) return false;
    const T dy_extreme = b * extent_x / c;  // dy of the leftmost point; the rightmost has its negative
    const T dy_left = clamp(dy_extreme, d0, d1), dy_right = clamp(-dy_extreme, d0, d1);
    const T half_left = root(larger(reach * a - det * dy_left * dy_left, T(0)));
    const T half_right = root(larger(reach * a - det * dy_right * dy_right, T(0)));
    left = x + (-b * dy_left - half_left) / a;
    right = x + (-b * dy_right + half_right) / a;
    return true;
  }
};

// Calls visit(tile_y, first_tile_x, end_tile_x) for every row of 16-pixel tiles whose pixel centres the splat can
// reach: per row, the exact horizontal extent of the ellipse over the row's band of pixel centres.
template <typename T, typename Visit>
LUXEL_HD void for_tile_rows(const T* splat, int tiles_x, int tiles_y, int first_row, int end_row, Visit visit) {
  const SplatEllipse<T> e = SplatEllipse<T>::of(splat);
  const T side = T(16), half = T(0.5);
  // Bounds are clamped while still floating point: a huge splat must not overflow the conversion.
  const int row0 = larger(static_cast<int>(clamp(ceil_of((e.y - e.extent_y - side + half) / side), T(-1), T(tiles_y))), first_row);
  const int row1 = smaller(static_cast<int>(clamp(floor_of((e.y + e.extent_y - half) / side), T(-1), T(tiles_y))), end_row - 1);
  for (int row = larger(row0, 0); row <= row1; ++row) {
    T left, right;
    if (!e.band(T(row) * side + half, T(row) * side + side - half, left, right)) continue;
    const int column0 = larger(static_cast<int>(clamp(ceil_of((left - side + half) / side), T(0), T(tiles_x))), 0);
    const int column1 = static_cast<int>(clamp(floor_of((right - half) / side), T(-1), T(tiles_x - 1))) + 1;
    if (column0 < column1) visit(row, column0, column1);
  }
}

}  // namespace luxel
