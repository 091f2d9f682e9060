// Structural similarity of two images at one pixel, from Gaussian-weighted local moments (Wang et al. 2004,
// eq. 13), and its gradient by the first image's moments.
#pragma once

#include "math/hd.h"

namespace luxel {

constexpr int kSsimRadius = 5;                    // 11 taps
constexpr int kSsimTaps = 2 * kSsimRadius + 1;
constexpr double kSsimC1 = 0.01 * 0.01, kSsimC2 = 0.03 * 0.03;

// Gaussian window, sigma 1.5, taps 0..10, normalised to 1.
LUXEL_HD constexpr double ssim_tap(int k) {
  const int distance = k < kSsimRadius ? kSsimRadius - k : k - kSsimRadius;
  return distance == 0   ? 0.26601172486179436
         : distance == 1 ? 0.2130055377112537
         : distance == 2 ? 0.10936068950970002
         : distance == 3 ? 0.03600077212843083
         : distance == 4 ? 0.007598758135239185
                         : 0.00102838008447911;
}

// E[x], E[y], E[x^2 + y^2], E[x y] under the window. SSIM needs the two variances only as a sum.
template <typename T> struct SsimMoments {
  T x, y, square, product;
};

template <typename T> LUXEL_HD T ssim(const SsimMoments<T>& m) {
  const T mean_product = m.x * m.y, mean_square = m.x * m.x + m.y * m.y;
  const T a = 2 * mean_product + T(kSsimC1), b = 2 * (m.product - mean_product) + T(kSsimC2);
  const T c = mean_square + T(kSsimC1), d = m.square - mean_square + T(kSsimC2);
  return (a * b) / (c * d);
}

// Gradients by E[x], E[x^2] and E[x y]; the target y has none. Returns the SSIM as well.
template <typename T>
LUXEL_HD T ssim_vjp(const SsimMoments<T>& m, T g_ssim, T& g_x, T& g_square, T& g_product) {
  const T mean_product = m.x * m.y, mean_square = m.x * m.x + m.y * m.y;
  const T a = 2 * mean_product + T(kSsimC1), b = 2 * (m.product - mean_product) + T(kSsimC2);
  const T c = mean_square + T(kSsimC1), d = m.square - mean_square + T(kSsimC2);
  const T inverse = T(1) / (c * d);
  const T value = a * b * inverse;
  const T g_a = g_ssim * b * inverse, g_b = g_ssim * a * inverse;
  const T g_c = -g_ssim * value * d * inverse, g_d = -g_ssim * value * c * inverse;
  g_x = 2 * (m.y * (g_a - g_b) + m.x * (g_c - g_d));
  g_square = g_d;
  g_product = 2 * g_b;
  return value;
}

// Gradient of a sum of SSIM values by one pixel x, from the windowed sums of ssim_vjp's three gradients.
template <typename T> LUXEL_HD T ssim_pixel_vjp(T x, T y, T sum_g_x, T sum_g_square, T sum_g_product) {
  return sum_g_x + 2 * x * sum_g_square + y * sum_g_product;
}

}  // namespace luxel
