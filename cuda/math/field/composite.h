// Emission and absorption along a ray (Max 1995, "Optical models for direct volume rendering"; Mildenhall et al. 2020,
// "NeRF", equation 3), one sample at a time, and its vjp. Inputs are before the activations: exp for the density, sigmoid for the
// colour.
#pragma once

#include "math/vec.h"

namespace luxel {

template <typename T> LUXEL_HD T max_density() { return T(15); }  // before the activation, which is clamped to [-15, 15]

template <typename T> LUXEL_HD T optical_depth(T density, T scaled_step) {
  return scaled_step * exp_exact(clamp(density, -max_density<T>(), max_density<T>()));
}

template <typename T> LUXEL_HD T sample_weight(T transmittance, T depth) { return -transmittance * expm1_of(-depth); }

template <typename T> LUXEL_HD Vec3<T> sample_colour(const T* colour) {
  return {sigmoid(colour[0]), sigmoid(colour[1]), sigmoid(colour[2])};
}

// Optical depth and colour of a sample given after the activations, clamped to their ranges.
template <typename T> LUXEL_HD T plain_optical_depth(T density, T scaled_step) { return scaled_step * larger(density, T(0)); }
template <typename T> LUXEL_HD Vec3<T> plain_colour(const T* colour) {
  return {clamp(colour[0], T(0), T(1)), clamp(colour[1], T(0), T(1)), clamp(colour[2], T(0), T(1))};
}

// The distortion of a ray (Barron et al. 2022, "Mip-NeRF 360", equation 15) in one pass over its samples, whose order is that of s:
// every pair counts once in the running sums of w and w s, and twice in the sum.
template <typename T> struct Moments {
  T weight, first;  // sums of w and of w s
};
template <typename T> LUXEL_HD T distortion_of(T weight, T s, T width, Moments<T> before) {
  return weight * (T(2) * (s * before.weight - before.first) + weight * width / T(3));
}

// Gradient of the distortion by the weight of a sample. all: sums over the ray.
template <typename T> LUXEL_HD T distortion_value(T weight, T s, T width, Moments<T> before, Moments<T> all) {
  const T behind_weight = all.weight - before.weight - weight, behind_first = all.first - before.first - weight * s;
  return T(2) * (s * (before.weight - behind_weight) - (before.first - behind_first)) + T(2) / T(3) * weight * width;
}

// Gradient of the loss by the weight of a sample.
template <typename T> LUXEL_HD T sample_value(Vec3<T> colour, T t, Vec3<T> g_rgb, T g_depth) {
  return dot(g_rgb, colour) + g_depth * t;
}

// Gradient by a sample's density. depth: its optical depth; transmittance: in front of it; value: of sample_value(); behind: sum of
// weights times values of everything behind it, background included.
template <typename T> LUXEL_HD T density_vjp(T density, T depth, T transmittance, T value, T behind) {
  const bool held = !(density > -max_density<T>() && density < max_density<T>());
  return held ? T(0) : depth * (transmittance * exp_exact(-depth) * value - behind);
}
// Gradient by a colour before its sigmoid. A saturated colour (on a dark object all of them, in the first steps, where darker
// colours lower the loss faster than denser samples do) has a derivative that half precision rounds to zero: it would stay as it
// is for good. Where a step brings it back, the derivative is therefore at least `min_derivative`, that at 6.9; where a step
// saturates it further, it is that of the sigmoid.
template <typename T> LUXEL_HD T min_derivative() { return T(1) / T(1024); }
template <typename T> LUXEL_HD T colour_vjp(T colour, T g) {
  const T derivative = colour * (T(1) - colour);
  const bool back = colour < T(0.5) ? g < T(0) : g > T(0);
  return g * (back ? larger(derivative, min_derivative<T>()) : derivative);
}
template <typename T> LUXEL_HD void colour_vjp(Vec3<T> colour, T weight, Vec3<T> g_rgb, T* g_colour) {
  g_colour[0] = colour_vjp(colour.x, weight * g_rgb.x);
  g_colour[1] = colour_vjp(colour.y, weight * g_rgb.y);
  g_colour[2] = colour_vjp(colour.z, weight * g_rgb.z);
}

}  // namespace luxel
