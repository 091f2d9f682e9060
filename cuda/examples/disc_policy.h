// A policy to start from: flat discs on the screen whose alpha falls off linearly with the squared distance from the centre.
//
//   alpha(pixel) = opacity * falloff,   falloff = 1 - ((pixel_x - x)^2 + (pixel_y - y)^2) / radius^2, 0 outside of the disc
//
// Contains everything that the tile rasterizer requires of a primitive, and nothing else (math/raster/policy.h describes the interface,
// math/raster/policy_check.h checks it). Copy this file, change the formula and its derivatives, and keep the names. A primitive that
// ships also needs a line in math/raster/policies.h and a projection that fills its rows (kernels/raster/project).
#pragma once

#include "math/raster/policy_check.h"

namespace luxel {

// The outline outside of which alpha is 0. Binning uses it to find the tiles that a disc touches: too large an outline costs time,
// too small a one truncates discs.
template <typename T> struct DiscBounds {
  using Number = T;
  T x, y, radius;

  static LUXEL_HD DiscBounds of(const T* row) { return {row[0], row[1], row[4]}; }

  // Bounding box.
  LUXEL_HD T left() const { return x - radius; }
  LUXEL_HD T right() const { return x + radius; }
  LUXEL_HD T top() const { return y - radius; }
  LUXEL_HD T bottom() const { return y + radius; }

  // Its extent over the band of pixel rows y0 <= y <= y1; false if it does not meet them.
  LUXEL_HD bool band(T y0, T y1, T& left, T& right) const {
    const T dy = clamp(y, y0, y1) - y;  // of the row in the band that is nearest to the centre
    const T rest = radius * radius - dy * dy;
    if (!(rest >= T(0))) return false;  // phrased so that NaN fails
    const T half = root(rest);
    left = x - half;
    right = x + half;
    return true;
  }
};

template <typename T> struct DiscPolicy {
  using Bounds = DiscBounds<T>;
  static constexpr int kRow = 8;              // x, y (px), opacity, depth, radius (px), three unused (a multiple of 4)
  static constexpr int kPiece = 256;          // on the GPU, lists of tiles are divided into pieces of so many instances
  static constexpr bool kMultiEdge = false;   // alpha has a closed form
  static constexpr bool kHasAbsolute = false;  // no sums of |d x|, |d y| for densification
  static constexpr bool kPixelDepth = false;   // the depth is that of the centre

  // ---- The CPU: one disc in registers, several pixels of a row at a time. ----
  T x, y, opacity, depth, radius;

  static LUXEL_HD DiscPolicy load(const T* row) { return {row[0], row[1], row[2], row[3], row[4]}; }

  // At pixels dx to the right of and dy below the centre. V: T, or a vector of T.
  template <typename V> struct At {
    V dx;
    T dy;
    V falloff;
    decltype(V() >= V()) valid;
  };
  template <typename V> LUXEL_HD At<V> at(V dx, T dy) const {
    const V zero = dx - dx;
    const V falloff = zero + T(1) - (dx * dx + dy * dy) / (radius * radius);
    return {dx, dy, falloff, falloff > zero};
  }

  // The gradient by the row, summed over pixels. add() gets the gradient of the loss by the uncapped alpha = opacity * falloff;
  // with g = g_alpha * opacity, the gradient by falloff:
  //   d falloff / d x = 2 dx / radius^2,  d falloff / d y = 2 dy / radius^2,  d falloff / d radius = 2 r^2 / radius^3.
  template <typename V, bool kAbsolute> struct Gradient {
    V x, y, opacity, radius;

    LUXEL_HD void add(const DiscPolicy& disc, const At<V>& at, V g_alpha) {
      const V g = disc.opacity * g_alpha;
      const T factor = T(2) / (disc.radius * disc.radius);
      x += factor * at.dx * g;
      y += factor * at.dy * g;
      opacity += at.falloff * g_alpha;
      radius += factor / disc.radius * (at.dx * at.dx + at.dy * at.dy) * g;
    }
    // sum(V) adds up the lanes of a V.
    template <typename Sum> LUXEL_HD void store(const DiscPolicy&, Sum sum, T* row) const {
      for (int k = 0; k < kRow; ++k) row[k] = T(0);
      row[0] = sum(x);
      row[1] = sum(y);
      row[2] = sum(opacity);
      row[4] = sum(radius);
    }
  };

  // ---- The GPU: a disc in shared memory, pixels of one column of a warp. Float only. ----
  struct Packed {
    float x, y, opacity, radius, inverse;  // 1 / radius^2

    // Upper bound passed to Coverage::hits, which a disc does not use.
    LUXEL_HD float highest() const { return 1.0f; }
  };
  static LUXEL_HD Packed pack(const float* row) { return {row[0], row[1], row[2], row[4], 1.0f / (row[4] * row[4])}; }
  static LUXEL_HD Packed null_splat() { return {}; }  // opacity 0: hits no pixel
  static LUXEL_HD float depth_of(const float* row) { return row[3]; }

  struct Coverage {
    float raw;  // uncapped alpha

    LUXEL_HD bool hits(float) const { return raw >= kMinAlpha; }
    LUXEL_HD float alpha() const { return raw; }
  };
  // Terms that the pixels at px share.
  struct Column {
    float dx, base;

    LUXEL_HD Column(const Packed& disc, float px) : dx(px - disc.x), base(1.0f - dx * dx * disc.inverse) {}
    LUXEL_HD Coverage at(const Packed& disc, float dy) const { return {disc.opacity * (base - dy * dy * disc.inverse)}; }
  };
  static LUXEL_HD Coverage look(const Packed& disc, float px, float dy) { return Column(disc, px).at(disc, dy); }

  // The gradient by the row over pixels of one column, from g_log_alpha = alpha d loss / d alpha: few numbers per pixel; factors that
  // the pixels share are applied once, in store().
  template <bool> struct Sums {
    static constexpr int kCount = 4;  // x, y, opacity, radius
    float opacity = 0.0f, zeroth = 0.0f, first = 0.0f, second = 0.0f;

    LUXEL_HD void add(const Packed& disc, const Column&, const Coverage& coverage, float dy, float g_log_alpha) {
      const float g = g_log_alpha * disc.opacity / coverage.raw;  // by falloff
      opacity += g_log_alpha;
      zeroth += g;
      first += g * dy;
      second += g * dy * dy;
    }
    LUXEL_HD void store(const Packed& disc, const Column& column, float* sums) const {
      const float factor = 2.0f * disc.inverse;
      sums[0] = factor * column.dx * zeroth;
      sums[1] = factor * first;
      sums[2] = opacity / disc.opacity;
      sums[3] = factor / disc.radius * (column.dx * column.dx * zeroth + second);
    }
    static LUXEL_HD int slot(int k) { return k < 3 ? k : 4; }  // index of sum k in the row
    static LUXEL_HD float scale(int) { return 1.0f; }          // its factor
  };
};

}  // namespace luxel
