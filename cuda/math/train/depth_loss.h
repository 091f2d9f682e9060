// Depth of a render against a known depth: symmetric relative difference, or correlation where its scale is unknown.
#pragma once

#include "math/hd.h"

namespace luxel {

enum { kDepthSums = 7 };  // weight, and with a fit: weight, x, y, x x, x y, y y

// What the pixels of a view have in common. Inverse rendered depth y is nearest to scale x + shift, with x = 1 / known depth.
template <typename T> struct DepthFit {
  T scale, shift;
  T share;           // weight of a pixel in the loss, 0 if the view has no part
  T x, y;            // means
  T cross, own;      // 1 / sqrt(var x var y), and correlation / var y
  T loss;            // (1 - correlation) / views
};

// Least coverage of a pixel that has a depth.
template <typename T> LUXEL_HD T min_cover() { return T(1e-3); }

// Adds a pixel to sums [kDepthSums]. x = 1 / known depth, y = cover / accumulated; weights of the fit are weight cover^2.
template <typename T, typename Sum>
LUXEL_HD void add_depth(T known, T accumulated, T cover, T weight, bool fits, Sum* sums) {
  if (!(known > T(0) && weight > T(0))) return;
  sums[0] += weight;
  if (!fits || !(cover > min_cover<T>() && accumulated > T(0))) return;
  const Sum w = static_cast<Sum>(weight) * cover * cover, x = Sum(1) / known, y = static_cast<Sum>(cover) / accumulated;
  sums[1] += w;
  sums[2] += w * x;
  sums[3] += w * y;
  sums[4] += w * x * x;
  sums[5] += w * x * y;
  sums[6] += w * y * y;
}

// The fit of a view, by weighted least squares. A view in which x or y is the same everywhere has no part in the loss. Of few
// pixels each weighs as if they were a hundredth of the image.
template <typename T> LUXEL_HD DepthFit<T> depth_fit(const double* sums, int64_t pixels, int views, bool fits) {
  DepthFit<T> out = {};
  if (!(sums[0] > 0.0)) return out;
  const double least = 0.01 * static_cast<double>(pixels);
  if (!fits) {
    out.scale = T(1);
    out.share = static_cast<T>(1.0 / (views * larger(sums[0], least)));
    return out;
  }
  if (!(sums[1] > 0.0)) return out;
  const double x = sums[2] / sums[1], y = sums[3] / sums[1];
  const double xx = sums[4] / sums[1] - x * x, xy = sums[5] / sums[1] - x * y, yy = sums[6] / sums[1] - y * y;
  if (!(xx > 1e-6 * x * x && yy > 1e-6 * y * y && finite(xx) && finite(yy))) return out;
  const double cross = 1.0 / (root(xx) * root(yy)), few = smaller(sums[0] / least, 1.0) / views;
  out.scale = static_cast<T>(xy / xx);
  out.shift = static_cast<T>(y - xy / xx * x);
  out.share = static_cast<T>(few / sums[1]);
  out.x = static_cast<T>(x);
  out.y = static_cast<T>(y);
  out.cross = static_cast<T>(cross);
  out.own = static_cast<T>(xy * cross / yy);
  out.loss = static_cast<T>(few * (1.0 - xy * cross));
  return out;
}

// The derivatives of `loss` of a fit by a pixel, times g; weights are taken as constants.
template <typename T>
LUXEL_HD void correlation_vjp(const DepthFit<T>& fit, T known, T accumulated, T cover, T g, T& g_accumulated, T& g_cover) {
  g_accumulated = g_cover = T(0);
  if (!(cover > min_cover<T>() && accumulated > T(0))) return;
  const T y = cover / accumulated, x = T(1) / known;
  const T g_y = -g * fit.share * cover * cover * ((x - fit.x) * fit.cross - (y - fit.y) * fit.own);
  g_accumulated = -g_y * y / accumulated;
  g_cover = g_y / accumulated;
}

// cover |rendered - known| / max(rendered, known) with rendered = accumulated / cover; it is 0 where nothing is rendered and below
// cover everywhere.
template <typename T> LUXEL_HD T depth_difference(T accumulated, T cover, T known) {
  if (!(cover > min_cover<T>() && accumulated > T(0))) return T(0);
  const T ratio = accumulated / known;  // cover rendered / known
  return ratio <= cover ? cover - ratio : cover - cover * cover / ratio;
}
// Its derivatives.
template <typename T> LUXEL_HD void depth_difference_vjp(T accumulated, T cover, T known, T g, T& g_accumulated, T& g_cover) {
  g_accumulated = g_cover = T(0);
  if (!(cover > min_cover<T>() && accumulated > T(0))) return;
  const T ratio = accumulated / known;
  if (ratio < cover) {
    g_accumulated = -g / known;
    g_cover = g;
  } else if (ratio > cover) {
    const T near = cover / ratio;
    g_accumulated = g * near * near / known;
    g_cover = g * (T(1) - T(2) * near);
  }
}

}  // namespace luxel
