// The policy of the surfel (math/raster/surfel.h): alpha = opacity * exp(-min(s^2 Q, |d|^2 / sigma^2) / 2) with the conic's
// quadratic form Q and s = 1 / (1 + g d), d (px) from the centre. The second term is the low-pass filter of Huang et al. 2024,
// eq. 11: a Gaussian on the screen of standard deviation sigma, which keeps surfels visible that are small or viewed from the side.
//
// The depth at a pixel is that of the centre times s where the first term is the smaller one, else that of the centre.
#pragma once

#include "math/raster/policy.h"

namespace luxel {

constexpr int kSurfelRow = 12;

// sigma of the low-pass filter, px, as LOW_PASS of render/reference/raster/blend_surfels.py. The sqrt(1/2) of the paper widens
// silhouettes by almost a pixel, and training moves the surface inward by as much.
constexpr double kLowPass = 0.3;
constexpr double kLowPassWeight = 0.5 / (kLowPass * kLowPass);  // of |d|^2 in the exponent

// The union of two ellipses in which alpha can reach 1/255: the image of the disc u^2 + v^2 <= m, and the disc of the filter.
template <typename T> struct SurfelBounds {
  using Number = T;
  // of the image: centre, half extents, d_x / d_y of the points of largest y, y - y_centre of the leftmost point, square of the
  // half width at the height of the centre. radius: of the filter.
  T x, y, radius, middle_x, middle_y, extent_x, extent_y, slope, dy_extreme, width;

  // By the dual conic: with k = m g h, its centre is m h / (1 - k) from (x, y) and its shape is that of
  // m S / (1 - k) + m^2 h h^T / (1 - k)^2, S the inverse conic.
  static LUXEL_HD SurfelBounds of(const T* row) {
    SurfelBounds e;
    e.x = row[0];
    e.y = row[1];
    // Slightly enlarged, so that rounding never drops a tile with pixels that pass the test on alpha.
    const T m = 2 * log_of(T(255) * row[2]) * T(1.0001) + T(1e-5);
    const T det = row[7], h_x = row[10], h_y = row[11], factor = m * inverse(larger(T(1) - m * (row[8] * h_x + row[9] * h_y), T(0.01)));
    const T move_x = factor * h_x, move_y = factor * h_y;
    const T xx = factor * row[6] * det + move_x * move_x, yy = factor * row[4] * det + move_y * move_y;
    const T xy = move_x * move_y - factor * row[5] * det;
    e.radius = T(kLowPass) * root(m);
    e.middle_x = e.x + move_x;
    e.middle_y = e.y + move_y;
    e.extent_x = root(xx);
    e.extent_y = root(yy);
    e.slope = xy / yy;
    e.dy_extreme = -xy / e.extent_x;
    e.width = factor * factor * factor / m * det / yy;
    return e;
  }

  LUXEL_HD bool usable() const { return finite(middle_x + middle_y + extent_x + extent_y) && finite(slope + dy_extreme) && finite(width); }

  // Bounding box.
  LUXEL_HD T left() const { return smaller(middle_x - extent_x, x - radius); }
  LUXEL_HD T right() const { return larger(middle_x + extent_x, x + radius); }
  LUXEL_HD T top() const { return smaller(middle_y - extent_y, y - radius); }
  LUXEL_HD T bottom() const { return larger(middle_y + extent_y, y + radius); }

  // Leftmost and rightmost point within the band y0 <= y <= y1 (px); false if they do not meet.
  LUXEL_HD bool band(T y0, T y1, T& left, T& right) const {
    const T d0 = larger(y0 - middle_y, -extent_y), d1 = smaller(y1 - middle_y, extent_y);
    const bool meets = d0 <= d1;
    left = right = x;
    if (meets) {
      const T dy_left = clamp(dy_extreme, d0, d1), dy_right = clamp(-dy_extreme, d0, d1), per_row = width / (extent_y * extent_y);
      left = middle_x + slope * dy_left - root(larger(width - per_row * dy_left * dy_left, T(0)));
      right = middle_x + slope * dy_right + root(larger(width - per_row * dy_right * dy_right, T(0)));
    }
    const T dy = clamp(y, y0, y1) - y, rest = radius * radius - dy * dy;
    if (!(rest >= T(0))) return meets;
    const T half = root(rest);
    left = meets ? smaller(left, x - half) : x - half;
    right = meets ? larger(right, x + half) : x + half;
    return true;
  }
};

template <typename T> struct SurfelPolicy {
  using Bounds = SurfelBounds<T>;
  static constexpr int kRow = kSurfelRow;
  static constexpr int kPiece = 256;
  static constexpr bool kMultiEdge = false, kHasAbsolute = true, kPixelDepth = true;

  T x, y, opacity, depth;
  T a, b, c;  // conic a/2, b, c/2, each times log2(e)
  T g_x, g_y;

  static LUXEL_HD SurfelPolicy load(const T* row) {
    const T log2e = T(1.4426950408889634);
    return {row[0], row[1], row[2], row[3], T(0.5) * log2e * row[4], log2e * row[5], T(0.5) * log2e * row[6], row[8], row[9]};
  }

  // Pixels of a row, dx and dy (px) from the centre.
  template <typename V> struct At {
    V dx;
    T dy;
    V falloff;
    decltype(V() >= V()) valid;
    decltype(V() >= V()) on_plane;  // the ray's intersection decides, not the filter
    V power;                        // s^2 Q / 2 times log2(e); 0 where the filter decides
    V depth_factor;                 // s; 1 where the filter decides
  };
  template <typename V> LUXEL_HD At<V> at(V dx, T dy) const {
    const T log2e = T(1.4426950408889634);
    const V zero = dx - dx, one = zero + T(1);
    const V s = one / fused(zero + g_x, dx, one + g_y * dy);
    const V form = fused(fused(zero + a, dx, zero + b * dy), dx, zero + c * dy * dy);
    const V power = (form < zero ? zero : form) * s * s;  // NaN, of a conic that overflows, stays
    const V filter = (T(kLowPassWeight) * log2e) * (dx * dx + dy * dy);
    const auto on_plane = power < filter;  // false for NaN
    return {dx, dy, exp2_of(-(on_plane ? power : filter)), filter >= zero, on_plane, on_plane ? power : zero, on_plane ? s : one};
  }

  // Gradient by the row, accumulated over pixels; g_alpha is the gradient by the uncapped alpha = opacity * falloff.
  template <typename V, bool kAbsolute> struct Gradient {
    V x, y, opacity, a, b, c, g_x, g_y, absolute_x, absolute_y;

    LUXEL_HD void add(const SurfelPolicy& g, const At<V>& at, V g_alpha) {
      const T ln2 = T(0.6931471805599453), dy = at.dy;
      const V zero = at.dx - at.dx, g_opacity = at.falloff * g_alpha;
      const V g_log = g.opacity * g_opacity, on_plane = at.on_plane ? g_log : zero, on_filter = g_log - on_plane;
      const V square = on_plane * at.depth_factor * at.depth_factor;  // by -Q / 2
      const V by_s = on_plane * (2 * ln2) * at.power * at.depth_factor;  // -s^2 times the gradient by s
      const V to_x = ln2 * square * (2 * g.a * at.dx + g.b * dy) - g.g_x * by_s + T(2 * kLowPassWeight) * on_filter * at.dx;
      const V to_y = ln2 * square * (2 * g.c * dy + g.b * at.dx) - g.g_y * by_s + T(2 * kLowPassWeight) * dy * on_filter;
      x += to_x;
      y += to_y;
      opacity += g_opacity;
      a -= T(0.5) * square * at.dx * at.dx;
      b -= dy * square * at.dx;
      c -= T(0.5) * dy * dy * square;
      g_x += by_s * at.dx;
      g_y += by_s * dy;
      if (kAbsolute) {
        absolute_x += to_x < zero ? -to_x : to_x;
        absolute_y += to_y < zero ? -to_y : to_y;
      }
    }
    // The same of a gradient by depth_factor.
    LUXEL_HD void add_depth(const SurfelPolicy& g, const At<V>& at, V g_factor) {
      const V zero = at.dx - at.dx, by_s = at.on_plane ? -(at.depth_factor * at.depth_factor) * g_factor : zero;
      x -= g.g_x * by_s;
      y -= g.g_y * by_s;
      g_x += by_s * at.dx;
      g_y += by_s * at.dy;
    }
    template <typename Sum> LUXEL_HD void store(const SurfelPolicy&, Sum sum, T* row) const {
      row[0] = sum(x);
      row[1] = sum(y);
      row[2] = sum(opacity);
      row[3] = kAbsolute ? sum(absolute_x) : T(0);
      row[4] = sum(a);
      row[5] = sum(b);
      row[6] = sum(c);
      row[7] = kAbsolute ? sum(absolute_y) : T(0);
      row[8] = sum(g_x);
      row[9] = sum(g_y);
      row[10] = row[11] = T(0);
    }
  };

  // The form in a tile's shared memory: conic -a/2, -b, -c/2 times log2(e).
  struct Packed {
    float x, y, a, b, c, log2_opacity, g_x, g_y;

    LUXEL_HD float highest() const { return log2_opacity; }
  };
  static LUXEL_HD Packed pack(const float* row) {
    const float log2e = 1.4426950408889634f;
    return {row[0], row[1], -0.5f * log2e * row[4], -log2e * row[5], -0.5f * log2e * row[6], log2_of(row[2]), row[8], row[9]};
  }
  // A splat that contributes to no pixel.
  static LUXEL_HD Packed null_splat() { return {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, -infinity<float>(), 0.0f, 0.0f}; }
  static LUXEL_HD float depth_of(const float* row) { return row[3]; }

  // exponent: log2 of the uncapped alpha at a pixel. s: 1 where the filter decides.
  struct Coverage {
    float exponent, s;
    bool on_plane;
    LUXEL_HD bool hits(float highest) const { return exponent >= kMinExponent && exponent <= highest; }
    LUXEL_HD float alpha() const { return exp2_of(exponent); }
    LUXEL_HD float depth_factor() const { return s; }
  };

  // Terms that the pixels at px share.
  struct Column {
    static constexpr float kFilter = float(kLowPassWeight * 1.4426950408889634);
    float dx, form, slope, denominator, filter;
    LUXEL_HD Column(const Packed& splat, float px)
        : dx(px - splat.x), form(splat.a * dx * dx), slope(splat.b * dx), denominator(fused(splat.g_x, dx, 1.0f)),
          filter(-kFilter * dx * dx) {}
    // The pixel dy (px) below the centre.
    LUXEL_HD Coverage at(const Packed& splat, float dy) const {
      const float s = inverse(fused(splat.g_y, dy, denominator));
      const float plane = smaller(0.0f, fused(fused(splat.c, dy, slope), dy, form)) * s * s;  // NaN stays
      const float low = fused(-kFilter * dy, dy, filter);
      const bool on_plane = plane > low;
      return {splat.log2_opacity + (on_plane ? plane : low), on_plane ? s : 1.0f, on_plane};
    }
  };
  static LUXEL_HD Coverage look(const Packed& splat, float px, float dy) { return Column(splat, px).at(splat, dy); }

  // Gradient by the row, accumulated over pixels of one column: moments of g_log_alpha = alpha d loss / d alpha.
  template <bool kAbsolute> struct Sums {
    static constexpr int kCount = kAbsolute ? 10 : 8;
    static constexpr float kTwice = float(2 * kLowPassWeight);  // the filter's slope by distance
    float zeroth = 0.0f, plane0 = 0.0f, plane1 = 0.0f, plane2 = 0.0f, s0 = 0.0f, s1 = 0.0f, filter0 = 0.0f, filter1 = 0.0f;
    float absolute_x = 0.0f, absolute_y = 0.0f;

    LUXEL_HD void add(const Packed& splat, const Column& column, const Coverage& coverage, float dy, float g_log_alpha) {
      const float ln2 = 0.69314718f;
      const float on_plane = coverage.on_plane ? g_log_alpha : 0.0f, on_filter = g_log_alpha - on_plane;
      const float square = on_plane * coverage.s * coverage.s, by_row = square * dy;
      const float by_s = (2.0f * ln2) * (splat.log2_opacity - coverage.exponent) * coverage.s * on_plane;
      zeroth += g_log_alpha;
      plane0 += square;
      plane1 += by_row;
      plane2 = fused(by_row, dy, plane2);
      s0 += by_s;
      s1 = fused(by_s, dy, s1);
      filter0 += on_filter;
      filter1 = fused(on_filter, dy, filter1);
      if (kAbsolute) {
        absolute_x += fabsf(-ln2 * square * fused(2.0f * splat.a, column.dx, splat.b * dy) - splat.g_x * by_s + kTwice * on_filter * column.dx);
        absolute_y += fabsf(-ln2 * square * fused(2.0f * splat.c, dy, column.slope) - splat.g_y * by_s + kTwice * on_filter * dy);
      }
    }
    LUXEL_HD void add_depth(const Coverage& coverage, float dy, float g_factor) {
      const float by_s = coverage.on_plane ? -coverage.s * coverage.s * g_factor : 0.0f;
      s0 += by_s;
      s1 = fused(by_s, dy, s1);
    }
    // The sums to be added over threads, before scale(): of x, y, opacity, a, b, c, g_x, g_y, |x|, |y|.
    LUXEL_HD void store(const Packed& splat, const Column& column, float* sums) const {
      const float ln2 = 0.69314718f, moment = column.dx * plane0;
      sums[0] = -ln2 * fused(2.0f * splat.a, moment, splat.b * plane1) - splat.g_x * s0 + kTwice * column.dx * filter0;
      sums[1] = -ln2 * fused(2.0f * splat.c, plane1, splat.b * moment) - splat.g_y * s0 + kTwice * filter1;
      sums[2] = zeroth * exp2_of(-splat.log2_opacity);
      sums[3] = column.dx * moment;
      sums[4] = column.dx * plane1;
      sums[5] = plane2;
      sums[6] = column.dx * s0;
      sums[7] = s1;
      if (kAbsolute) sums[8] = absolute_x, sums[9] = absolute_y;
    }
    // Index of sum k in the row, and its factor.
    static LUXEL_HD int slot(int k) { return k < 3 ? k : (k < 6 ? k + 1 : (k < 8 ? k + 2 : 4 * k - 29)); }
    static LUXEL_HD float scale(int k) { return k == 3 || k == 5 ? -0.5f : (k == 4 ? -1.0f : 1.0f); }
  };
};

}  // namespace luxel
