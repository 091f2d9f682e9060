// Discs on the screen: alpha = opacity * q^2 with q = 1 - ((pixel_x - x)^2 + (pixel_y - y)^2) / radius^2, 0 outside of the disc.
#pragma once

#include "math/raster/policy_check.h"

namespace luxel {

template <typename T> struct DiscBounds {
  using Number = T;
  T x, y, radius;

  static LUXEL_HD DiscBounds of(const T* row) { return {row[0], row[1], row[4]}; }
  LUXEL_HD T left() const { return x - radius; }
  LUXEL_HD T right() const { return x + radius; }
  LUXEL_HD T top() const { return y - radius; }
  LUXEL_HD T bottom() const { return y + radius; }
  LUXEL_HD bool band(T y0, T y1, T& left, T& right) const {
    const T dy = clamp(y, y0, y1) - y, rest = radius * radius - dy * dy;
    if (!(rest >= T(0))) return false;
    const T half = root(rest);
    left = x - half;
    right = x + half;
    return true;
  }
};

template <typename T> struct DiscPolicy {
  using Bounds = DiscBounds<T>;
  static constexpr int kRow = 8, kPiece = 256;  // x, y (px), opacity, depth, radius (px), three unused
  static constexpr bool kMultiEdge = false, kHasAbsolute = false, kPixelDepth = false;

  T x, y, opacity, depth, radius;

  static LUXEL_HD DiscPolicy load(const T* row) { return {row[0], row[1], row[2], row[3], row[4]}; }

  template <typename V> struct At {
    V dx;
    T dy;
    V q, falloff;
    decltype(V() >= V()) valid;
  };
  template <typename V> LUXEL_HD At<V> at(V dx, T dy) const {
    const V zero = dx - dx, q = zero + T(1) - (dx * dx + dy * dy) / (radius * radius);
    return {dx, dy, q, q * q, q > zero};
  }

  // With g the gradient by q:  d q / d x = 2 dx / radius^2, d q / d radius = 2 r^2 / radius^3.
  template <typename V, bool> struct Gradient {
    V x, y, opacity, radius;

    LUXEL_HD void add(const DiscPolicy& disc, const At<V>& at, V g_alpha) {
      const V g = (T(2) * disc.opacity) * at.q * g_alpha;
      const T factor = T(2) / (disc.radius * disc.radius);
      x += factor * at.dx * g;
      y += factor * at.dy * g;
      opacity += at.falloff * g_alpha;
      radius += factor / disc.radius * (at.dx * at.dx + at.dy * at.dy) * g;
    }
    template <typename Sum> LUXEL_HD void store(const DiscPolicy&, Sum sum, T* row) const {
      for (int k = 0; k < kRow; ++k) row[k] = T(0);
      row[0] = sum(x);
      row[1] = sum(y);
      row[2] = sum(opacity);
      row[4] = sum(radius);
    }
  };

  struct Packed {
    float x, y, opacity, radius, inverse;  // 1 / radius^2
    LUXEL_HD float highest() const { return 1.0f; }
  };
  static LUXEL_HD Packed pack(const float* row) { return {row[0], row[1], row[2], row[4], 1.0f / (row[4] * row[4])}; }
  static LUXEL_HD Packed null_splat() { return {}; }
  static LUXEL_HD float depth_of(const float* row) { return row[3]; }

  struct Coverage {
    float q, opacity;
    LUXEL_HD bool hits(float) const { return q > 0.0f && alpha() >= kMinAlpha; }
    LUXEL_HD float alpha() const { return opacity * q * q; }
  };
  struct Column {
    float dx, base;
    LUXEL_HD Column(const Packed& disc, float px) : dx(px - disc.x), base(1.0f - dx * dx * disc.inverse) {}
    LUXEL_HD Coverage at(const Packed& disc, float dy) const { return {base - dy * dy * disc.inverse, disc.opacity}; }
  };
  static LUXEL_HD Coverage look(const Packed& disc, float px, float dy) { return Column(disc, px).at(disc, dy); }

  template <bool> struct Sums {
    static constexpr int kCount = 4;  // x, y, opacity, radius
    float opacity = 0.0f, zeroth = 0.0f, first = 0.0f, second = 0.0f;

    LUXEL_HD void add(const Packed&, const Column&, const Coverage& coverage, float dy, float g_log_alpha) {
      const float g = 2.0f * g_log_alpha / coverage.q;  // by q
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
    static LUXEL_HD int slot(int k) { return k < 3 ? k : 4; }
    static LUXEL_HD float scale(int) { return 1.0f; }
  };
};

}  // namespace luxel
