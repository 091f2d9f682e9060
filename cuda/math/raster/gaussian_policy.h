// The policy of the Gaussian: alpha = opacity * exp(-power) with power = (a dx^2 + c dy^2) / 2 + b dx dy of the conic a, b, c.
#pragma once

#include "math/raster/policy.h"

#if !defined(__CUDACC_RTC__)
#include <cstring>
#endif

namespace luxel {

constexpr int kGaussianRow = 8;

template <typename T> struct SplatEllipse;

// V below: a vector of T that holds several pixels of one row.
template <typename T> struct alignas(4 * sizeof(T)) GaussianPolicy {
  using Bounds = SplatEllipse<T>;
  static constexpr int kRow = kGaussianRow;
  static constexpr int kPiece = 256;
  static constexpr bool kMultiEdge = false, kHasAbsolute = true, kPixelDepth = false;

  T x, y, opacity, depth;
  T a, b, c;  // conic a/2, b, c/2, each times log2(e): alpha = opacity * 2^-power
  T unused;

  static LUXEL_HD GaussianPolicy load(const T* row) {
    const T log2e = T(1.4426950408889634);
    return {row[0], row[1], row[2], row[3], T(0.5) * log2e * row[4], log2e * row[5], T(0.5) * log2e * row[6], T(0)};
  }

  // Pixels of a row, dx and dy (px) from the centre. falloff: exp(-power); valid: false where rounding made power negative.
  template <typename V> struct At {
    V dx;
    T dy;
    V falloff;
    decltype(V() >= V()) valid;
  };
  template <typename V> LUXEL_HD At<V> at(V dx, T dy) const {
    const V power = (a * dx + b * dy) * dx + c * dy * dy;
    return {dx, dy, exp2_of(-power), power >= T(0)};
  }

  // Gradient by the row, accumulated over pixels; g_alpha is the gradient by the uncapped alpha = opacity * falloff. Stored are
  // moments of g = falloff * g_alpha, in separate members rather than an array, so that the CPU's inner loop keeps them in registers.
  template <typename V, bool kAbsolute> struct Gradient {
    V zeroth, by_x, by_y, by_xx, by_xy, by_yy, absolute_x, absolute_y;

    LUXEL_HD void add(const GaussianPolicy& policy, const At<V>& at, V g_alpha) {
      const V g = at.falloff * g_alpha, g_x = g * at.dx, g_y = g * at.dy;
      zeroth += g;
      by_x += g_x;
      by_y += g_y;
      by_xx += g_x * at.dx;
      by_xy += g_x * at.dy;
      by_yy += g_y * at.dy;
      if (kAbsolute) {
        const V x = T(2) * policy.a * g_x + policy.b * g_y, y = T(2) * policy.c * g_y + policy.b * g_x;
        absolute_x += x < T(0) ? -x : x;
        absolute_y += y < T(0) ? -y : y;
      }
    }
    template <typename Sum> LUXEL_HD void store(const GaussianPolicy& policy, Sum sum, T* row) const {
      const T scale = T(0.6931471805599453) * policy.opacity;  // ln 2: the conic of the policy is of powers of 2
      const T x = sum(by_x), y = sum(by_y);
      row[0] = scale * (T(2) * policy.a * x + policy.b * y);
      row[1] = scale * (T(2) * policy.c * y + policy.b * x);
      row[2] = sum(zeroth);
      row[3] = kAbsolute ? scale * sum(absolute_x) : T(0);
      row[4] = T(-0.5) * policy.opacity * sum(by_xx);
      row[5] = -policy.opacity * sum(by_xy);
      row[6] = T(-0.5) * policy.opacity * sum(by_yy);
      row[7] = kAbsolute ? scale * sum(absolute_y) : T(0);
    }
  };

  // The form in a tile's shared memory: conic -a/2, -b, -c/2 times log2(e), so that log2(alpha) is
  // log2_opacity + a dx^2 + b dx dy + c dy^2.
  struct Packed {
    float x, y, a, b, c, log2_opacity;

    // Largest valid log2(alpha); larger values are rounding errors (negative power).
    LUXEL_HD float highest() const { return log2_opacity; }
  };
  static LUXEL_HD Packed pack(const float* row) {
    const float log2e = 1.4426950408889634f;
    return {row[0], row[1], -0.5f * log2e * row[4], -log2e * row[5], -0.5f * log2e * row[6], log2_of(row[2])};
  }
  // A splat that contributes to no pixel.
  static LUXEL_HD Packed null_splat() { return {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, -infinity<float>()}; }
  static LUXEL_HD float depth_of(const float* row) { return row[3]; }

  // log2 of the uncapped alpha at a pixel.
  struct Coverage {
    float exponent;
    LUXEL_HD bool hits(float highest) const { return exponent >= kMinExponent && exponent <= highest; }
    LUXEL_HD float alpha() const { return exp2_of(exponent); }
  };

  // Terms that the pixels at px share. Forward and backward pass both use it, so that they agree bitwise.
  struct Column {
    float dx, constant, slope;
    LUXEL_HD Column(const Packed& splat, float px)
        : dx(px - splat.x), constant(fused(splat.a * dx, dx, splat.log2_opacity)), slope(splat.b * dx) {}
    // The pixel dy (px) below the centre.
    LUXEL_HD Coverage at(const Packed& splat, float dy) const { return {fused(fused(splat.c, dy, slope), dy, constant)}; }
  };
  static LUXEL_HD Coverage look(const Packed& splat, float px, float dy) { return Column(splat, px).at(splat, dy); }

  // Gradient by the row, accumulated over pixels of one column: moments of g_log_alpha = alpha d loss / d alpha.
  template <bool kAbsolute> struct Sums {
    static constexpr int kCount = kAbsolute ? 8 : 6;
    float zeroth = 0.0f, first = 0.0f, second = 0.0f, absolute_x = 0.0f, absolute_y = 0.0f;

    LUXEL_HD void add(const Packed& splat, const Column& column, const Coverage&, float dy, float g_log_alpha) {
      const float g_dy = g_log_alpha * dy;
      zeroth += g_log_alpha;
      first += g_dy;
      second = fused(g_dy, dy, second);
      if (kAbsolute) {
        absolute_x += fabsf(g_log_alpha * fused(splat.a, column.dx, 0.5f * splat.b * dy));
        absolute_y += fabsf(g_log_alpha * fused(splat.c, dy, 0.5f * column.slope));
      }
    }
    // The sums to be added over threads, before scale(): of x, y, opacity, a, b, c, |g_x|, |g_y|.
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
    // Index of sum k in the row, and its factor.
    static LUXEL_HD int slot(int k) { return k < 3 ? k : (k < 6 ? k + 1 : 4 * k - 21); }
    static LUXEL_HD float scale(int k) {
      const float two_ln2 = 1.3862943611198906f;
      return k < 2 ? -two_ln2 : (k == 2 ? 1.0f : (k == 4 ? -1.0f : (k < 6 ? -0.5f : two_ln2)));
    }
  };
};

// The ellipse power <= ln(255 opacity), inside which alpha can reach 1/255.
template <typename T> struct SplatEllipse {
  using Number = T;
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
    // Slightly enlarged, so that rounding never drops a tile with pixels that pass the test on alpha.
    const T reach = 2 * near_log(T(255) * splat[2]) * T(1.0001) + T(1e-5);
    const T scale = reach * inverse(e.det);
    e.extent_x = near_root(scale * c);
    e.extent_y = near_root(scale * a);
    e.dy_extreme = e.b * e.extent_x * inverse(c);
    e.reach_a = reach * a;
    e.inverse_a = inverse(a);
    return e;
  }

  // Bounding box.
  LUXEL_HD T left() const { return x - extent_x; }
  LUXEL_HD T right() const { return x + extent_x; }
  LUXEL_HD T top() const { return y - extent_y; }
  LUXEL_HD T bottom() const { return y + extent_y; }

  // Leftmost and rightmost point of the ellipse within the band y0 <= y <= y1 (px); false if they do not meet.
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

#if !defined(__CUDACC__)
  // Leftmost and rightmost point, from x0 on, at y0, y0 + 1, .. (px); left > right where there is none. CPU only.
  template <int N> void row_spans(T x0, T y0, T* left, T* right) const {
    const T from_x = x - x0, from_y = y0 - y;
#pragma omp simd
    for (int i = 0; i < N; ++i) {
      const T dy = from_y + T(i), square = reach_a - det * dy * dy;
      const T half = root(square > T(0) ? square : T(0)) * inverse_a, middle = from_x - b * dy * inverse_a;
      left[i] = square >= T(0) ? middle - half : T(1e9);
      right[i] = square >= T(0) ? middle + half : T(-1e9);
    }
  }
#endif

 private:
  // The enlargement above covers the error of these approximations, one instruction each on the GPU.
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
  // With an error of 1e-7, inline: a call costs the loops around it their registers.
  static LUXEL_HD float near_log(float v) {
    int32_t bits;
    std::memcpy(&bits, &v, sizeof bits);
    const int32_t exponent = (bits - 0x3F3504F3) >> 23;  // so that 2^-exponent v lies in [sqrt(1/2), sqrt(2))
    bits -= exponent * (1 << 23);
    float m;
    std::memcpy(&m, &bits, sizeof m);
    m -= 1.0f;
    return log_of_one_plus(m) + 0.693147181f * static_cast<float>(exponent);
  }
#endif
};

}  // namespace luxel
