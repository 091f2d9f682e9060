// The policy of the Gaussian: what the tile rasterizer (cuda/kernels/blend.h, blend.cuh) needs of a primitive.
//
// A policy gives, from a primitive's row of numbers on the screen: Bounds, which say what part of a band of pixel rows
// it can reach; its alpha at a pixel; and the gradient of that by the row. It knows neither tiles nor colours.
//
// The CPU blends policies as they are. On the GPU every instruction of the inner loop counts: a tile's splats are Packed
// once, pixels of one column share a Column, and gradients by the row are gathered as Sums of few numbers per pixel.
#pragma once

#include "vec.h"

namespace luxel {

constexpr float kMinAlpha = 1.0f / 255.0f;       // contributions below are skipped
constexpr float kMinExponent = -7.9943534f;      // log2 of that
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

  // The form in a tile's shared memory: conic -a/2, -b, -c/2 times log2(e), so that log2(alpha) is
  // log2_opacity + a dx^2 + b dx dy + c dy^2.
  struct Packed {
    float x, y, a, b, c, log2_opacity;

    // log2(alpha) beyond this comes from rounding: the power was negative.
    LUXEL_HD float highest() const { return log2_opacity; }
  };
  static LUXEL_HD Packed pack(const float* row) {
    const float log2e = 1.4426950408889634f;
    return {row[0], row[1], -0.5f * log2e * row[4], -log2e * row[5], -0.5f * log2e * row[6], log2_of(row[2])};
  }
  // Reaches no pixel.
  static LUXEL_HD Packed nowhere() { return {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, -INFINITY}; }
  static LUXEL_HD float depth_of(const float* row) { return row[3]; }

  // What the pixels at px have in common. Forward and backward pass go through here, and so agree to the bit.
  struct Column {
    float dx, constant, slope;
    LUXEL_HD Column(const Packed& splat, float px)
        : dx(px - splat.x), constant(fused(splat.a * dx, dx, splat.log2_opacity)), slope(splat.b * dx) {}
    // log2 of the uncapped alpha at the pixel dy below the centre.
    LUXEL_HD float exponent(const Packed& splat, float dy) const { return fused(fused(splat.c, dy, slope), dy, constant); }
  };

  // Gradient by the row, gathered over pixels of one column: moments of g_log_alpha = alpha d loss / d alpha.
  template <bool kAbsolute> struct Sums {
    static constexpr int kCount = kAbsolute ? 8 : 6;
    float zeroth = 0.0f, first = 0.0f, second = 0.0f, absolute_x = 0.0f, absolute_y = 0.0f;

    LUXEL_HD void add(const Packed& splat, const Column& column, float dy, float g_log_alpha) {
      const float g_dy = g_log_alpha * dy;
      zeroth += g_log_alpha;
      first += g_dy;
      second = fused(g_dy, dy, second);
      if (kAbsolute) {
        absolute_x += fabsf(g_log_alpha * fused(splat.a, column.dx, 0.5f * splat.b * dy));
        absolute_y += fabsf(g_log_alpha * fused(splat.c, dy, 0.5f * column.slope));
      }
    }
    // The sums as they are added over threads, each still to be scaled: of x, y, opacity, a, b, c, |x|, |y|.
    LUXEL_HD void store(const Packed& splat, const Column& column, float* sums) const {
      const float moment = column.dx * zeroth, half_b = 0.5f * splat.b;
      sums[0] = fused(splat.a, moment, half_b * first);
      sums[1] = fused(splat.c, first, half_b * moment);
      sums[2] = zeroth * exp2_of(-splat.log2_opacity);
      sums[3] = column.dx * moment;
      sums[4] = column.dx * first;
      sums[5] = second;
      if (kAbsolute) sums[6] = absolute_x, sums[7] = absolute_y;
    }
    // Where a sum belongs in the row, and its factor.
    static LUXEL_HD int slot(int k) { return k < 3 ? k : (k < 6 ? k + 1 : 4 * k - 21); }
    static LUXEL_HD float scale(int k) {
      const float two_ln2 = 1.3862943611198906f;
      return k < 2 ? -two_ln2 : (k == 2 ? 1.0f : (k == 4 ? -1.0f : (k < 6 ? -0.5f : two_ln2)));
    }
  };
};

// The ellipse power <= ln(255 opacity), inside which alpha can reach 1/255.
template <typename T> struct SplatEllipse {
  // reach: largest value of a dx^2 + 2 b dx dy + c dy^2; dy_extreme: dy of the leftmost point, the rightmost has its
  // negative
  T x, y, b, det, reach_a, inverse_a, extent_x, extent_y, dy_extreme;

  static LUXEL_HD SplatEllipse of(const T* splat) {
    SplatEllipse e;
    const T a = splat[4], c = splat[6];
    e.x = splat[0];
    e.y = splat[1];
    e.b = splat[5];
    e.det = larger(difference_of_products(a, c, e.b, e.b), T(1e-12) * a * c);
    // A hair wider than exact, so that rounding never drops a tile whose pixels pass the test on alpha.
    const T reach = 2 * near_log(T(255) * splat[2]) * T(1.0001) + T(1e-5);
    const T scale = reach * inverse(e.det);
    e.extent_x = near_root(scale * c);
    e.extent_y = near_root(scale * a);
    e.dy_extreme = e.b * e.extent_x * inverse(c);
    e.reach_a = reach * a;
    e.inverse_a = inverse(a);
    return e;
  }

  // Leftmost and rightmost point of the ellipse within the band y0 <= pixel y <= y1; false where they do not meet.
  LUXEL_HD bool band(T y0, T y1, T& left, T& right) const {
    const T d0 = larger(y0 - y, -extent_y), d1 = smaller(y1 - y, extent_y);
    if (!(d0 <= d1)) return false;
    const T dy_left = between(dy_extreme, d0, d1), dy_right = between(-dy_extreme, d0, d1);
    const T half_left = near_root(larger(reach_a - det * dy_left * dy_left, T(0)));
    const T half_right = near_root(larger(reach_a - det * dy_right * dy_right, T(0)));
    left = x + (-b * dy_left - half_left) * inverse_a;
    right = x + (-b * dy_right + half_right) * inverse_a;
    return true;
  }

 private:
  // Within the hair above the last bit does not matter: the GPU has one instruction for each of these.
  static LUXEL_HD double between(double v, double lo, double hi) { return clamp(v, lo, hi); }
  static LUXEL_HD double near_root(double v) { return root(v); }
  static LUXEL_HD double near_log(double v) { return log_of(v); }
#if defined(__CUDA_ARCH__)
  static LUXEL_HD float between(float v, float lo, float hi) { return fminf(fmaxf(v, lo), hi); }
  static LUXEL_HD float near_root(float v) {
    float y;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(v));
    return y;
  }
  static LUXEL_HD float near_log(float v) { return 0.69314718f * log2_of(v); }
#else
  static LUXEL_HD float between(float v, float lo, float hi) { return clamp(v, lo, hi); }
  static LUXEL_HD float near_root(float v) { return root(v); }
  static LUXEL_HD float near_log(float v) { return log_of(v); }
#endif
};

// Rows [first, end) of 16-pixel tiles that the ellipse can reach.
template <typename T> LUXEL_HD void tile_rows(const SplatEllipse<T>& e, int tiles_y, int& first, int& end) {
  const T side = T(16), half = T(0.5);
  // Bounds are clamped while still floating point: a huge splat must not overflow the conversion.
  first = larger(static_cast<int>(clamp(ceil_of((e.y - e.extent_y - side + half) / side), T(-1), T(tiles_y))), 0);
  end = static_cast<int>(clamp(floor_of((e.y + e.extent_y - half) / side), T(-1), T(tiles_y - 1))) + 1;
}

// Columns [first, end) of tiles in a row whose pixel centres it can reach: the exact horizontal extent of the ellipse over
// the row's band of pixel centres.
template <typename T> LUXEL_HD void tile_columns(const SplatEllipse<T>& e, int row, int tiles_x, int& first, int& end) {
  const T side = T(16), half = T(0.5);
  T left, right;
  first = end = 0;
  if (!e.band(T(row) * side + half, T(row) * side + side - half, left, right)) return;
  first = static_cast<int>(clamp(ceil_of((left - side + half) / side), T(0), T(tiles_x)));
  end = static_cast<int>(clamp(floor_of((right - half) / side), T(-1), T(tiles_x - 1))) + 1;
}

// Calls visit(tile_y, first_tile_x, end_tile_x) for every row of tiles in [first_row, end_row) that the splat can reach.
template <typename T, typename Visit>
LUXEL_HD void for_tile_rows(const T* splat, int tiles_x, int tiles_y, int first_row, int end_row, Visit visit) {
  const SplatEllipse<T> e = SplatEllipse<T>::of(splat);
  int row0, row1, column0, column1;
  tile_rows(e, tiles_y, row0, row1);
  for (int row = larger(row0, first_row); row < smaller(row1, end_row); ++row) {
    tile_columns(e, row, tiles_x, column0, column1);
    if (column0 < column1) visit(row, column0, column1);
  }
}

}  // namespace luxel
