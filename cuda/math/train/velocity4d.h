// Velocity of the slice of a 4D Gaussian (Duan et al. 2024, "4D-Rotor Gaussian Splatting"), with its hand-written vjp.
//
// With the covariance [[A, b], [b^T, c]] of (x, y, z, t) it is b / c. For n, the time row of R, and u = s^2 n, the product R u is
// (b, c) = l u conj(r). c is computed as n . u, a sum of positive terms without cancellation.
#pragma once

#include "math/raster/gaussian4d.h"

namespace luxel {

template <typename T> struct Velocity4d {
  RotorQuats<T> quats;
  Quat<T> squares;  // of the scales divided by the largest, which leaves b / c unchanged and cannot overflow
  Quat<T> time, weighted, turned;  // n, u, u conj(r)
  T inverse_variance;  // 1 / c
  bool held;           // c was too small to divide by and was clamped
  Vec3<T> velocity;
};

// False if the velocity is not finite, as for parameters that are not.
template <typename T>
LUXEL_HD bool velocity4d(const T* rotor, Vec3<T> log_scales, T log_scale_t, Velocity4d<T>& p) {
  p.quats = rotor_to_quats(rotor);
  const T most = larger(larger(log_scales.x, log_scales.y), larger(log_scales.z, log_scale_t));
  p.squares = {exp_exact(2 * (log_scale_t - most)), exp_exact(2 * (log_scales.x - most)), exp_exact(2 * (log_scales.y - most)),
               exp_exact(2 * (log_scales.z - most))};
  p.time = rotation_of_time(p.quats);
  p.weighted = by_parts(p.squares, p.time);
  p.turned = product(p.weighted, conjugate(p.quats.right));
  const Quat<T> b = product(p.quats.left, p.turned);
  const T variance = dot(p.time, p.weighted);
  p.held = !(variance >= smallest_normal<T>());
  p.inverse_variance = inverse(p.held ? smallest_normal<T>() : variance);
  p.velocity = p.inverse_variance * Vec3<T>{b.x, b.y, b.z};
  return finite(p.velocity.x) && finite(p.velocity.y) && finite(p.velocity.z) && finite(variance);
}

// Returns the gradient by the log scales (t, x, y, z), and writes that by the rotor to g_rotor [8].
template <typename T> LUXEL_HD Quat<T> velocity4d_vjp(const Velocity4d<T>& p, Vec3<T> g_velocity, T* g_rotor) {
  const Quat<T>&left = p.quats.left, &right = p.quats.right;
  const Vec3<T> g = p.inverse_variance * g_velocity;
  const Quat<T> g_b = {T(0), g.x, g.y, g.z};
  const T g_variance = p.held ? T(0) : -dot(g, p.velocity);
  const Quat<T> g_turned = product(conjugate(left), g_b);
  const Quat<T> g_weighted = product(g_turned, right) + g_variance * p.time;
  const Quat<T> g_time = by_parts(p.squares, g_weighted) + g_variance * p.weighted;
  const Quat<T> g_left = product(g_b, conjugate(p.turned)) + product(right, conjugate(g_time));
  const Quat<T> g_right = conjugate(product(conjugate(p.weighted), g_turned)) + product(left, g_time);
  rotor_to_quats_vjp(p.quats, g_left, g_right, g_rotor);
  return T(2) * by_parts(p.weighted, g_weighted);
}

}  // namespace luxel
