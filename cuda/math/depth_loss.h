// Depth of a render against a known depth: symmetric relative difference, and the fit of depths of unknown scale.
#pragma once

#include "math/hd.h"

namespace luxel {

enum { kDepthSums = 6 };  // weight, and with a fit: weight, x, y, x x, x y

// Inverse depth of a view is scale / depth + shift; share is the weight of a pixel in the loss, 0 if the view has no part.
template <typename T> struct DepthFit {
  T scale, shift, share;
};

// Least coverage of a pixel that has a depth.
template <typename T> LUXEL_HD T least_cover() { return T(1e-3); }

// Adds a pixel to sums [kDepthSums]. x = 1 / known depth, y = cover / accumulated; weights of the fit are weight cover^2.
template <typename T, typename Sum>
LUXEL_HD void add_depth(T known, T accumulated, T cover, T weight, bool fits, Sum* sums) {
  if (!(known > T(0) && weight > T(0))) return;
  sums[0] += weight;
  if (!fits || !(cover > least_cover<T>() && accumulated > T(0))) return;
  const Sum w = static_cast<Sum>(weight) * cover * cover, x = Sum(1) / known, y = static_cast<Sum>(cover) / accumulated;
  sums[1] += w;
  sums[2] += w * x;
  sums[3] += w * y;
  sums[4] += w * x * x;
  sums[5] += w * x * y;
}

// Weighted least squares y = scale x + shift; where all x are alike, or without `fits`, the shift is 0. A view whose scale is not
// positive has no part in the loss. The share is 1 / (views max(weights, pixels / 100)).
template <typename T> LUXEL_HD DepthFit<T> depth_fit(const double* sums, int64_t pixels, int views, bool fits) {
  const DepthFit<T> nothing = {T(0), T(0), T(0)};
  double scale = 1.0, shift = 0.0;
  if (!(sums[0] > 0.0)) return nothing;
  if (fits) {
    if (!(sums[1] > 0.0)) return nothing;
    const double x = sums[2] / sums[1], y = sums[3] / sums[1];
    const double xx = sums[4] / sums[1] - x * x, xy = sums[5] / sums[1] - x * y;
    const bool varies = xx > 1e-6 * x * x;
    scale = varies ? xy / xx : y / x;
    shift = varies ? y - scale * x : 0.0;
    if (!(scale > 0.0 && finite(scale) && finite(shift))) return nothing;
  }
  const double share = 1.0 / (views * larger(sums[0], 0.01 * static_cast<double>(pixels)));
  return {static_cast<T>(scale), static_cast<T>(shift), static_cast<T>(share)};
}

// cover |rendered - known| / max(rendered, known), with rendered = accumulated / cover and known = 1 / inverse; it is 0 where
// nothing is rendered and below cover everywhere.
template <typename T> LUXEL_HD T depth_difference(T accumulated, T cover, T inverse) {
  if (!(cover > least_cover<T>() && accumulated > T(0) && inverse > T(0))) return T(0);
  const T ratio = inverse * accumulated;  // cover rendered / known
  return ratio <= cover ? cover - ratio : cover - cover * cover / ratio;
}
// Its derivatives.
template <typename T> LUXEL_HD void depth_difference_vjp(T accumulated, T cover, T inverse, T g, T& g_accumulated, T& g_cover) {
  g_accumulated = g_cover = T(0);
  if (!(cover > least_cover<T>() && accumulated > T(0) && inverse > T(0))) return;
  const T ratio = inverse * accumulated;
  if (ratio < cover) {
    g_accumulated = -g * inverse;
    g_cover = g;
  } else if (ratio > cover) {
    const T near = cover / ratio;
    g_accumulated = g * near * near * inverse;
    g_cover = g * (T(1) - T(2) * near);
  }
}

}  // namespace luxel
