// A 4D Gaussian at one time (Duan et al. 2024, "4D-Rotor Gaussian Splatting"): rotor to rotation, and the conditional of a
// 4D normal, with their hand-written vjps. The result is an ellipsoid, which gaussian.h projects.
//
// A four-vector (x, y, z, t) is read as the quaternion t + xi + yj + zk. With M = R diag(s) of rows M_x, M_y, M_z and m, the
// covariance of (x, y, z, t) is M M^T. With c = m . m, the variance of t, and the velocity v_i = M_i . m / c, the conditional
// covariance is P P^T of the rows P_i = M_i - v_i m: the Schur complement, positive semi-definite by construction.
#pragma once

#include "math/raster/gaussian.h"

namespace luxel {

template <typename T> LUXEL_HD T max_exponent() { return T(16); }  // of the temporal falloff; Gaussians beyond are culled

// A rotor (s, xy, xz, yz, xt, yt, zt, p) as two unit quaternions: R v = l v conj(r). Unit length of both makes it a
// proper rotor of unit length.
template <typename T> struct RotorQuats {
  Quat<T> left, right;
  T inverse_left, inverse_right;
};
template <typename T> LUXEL_HD RotorQuats<T> rotor_to_quats(const T* rotor) {
  const T s = rotor[0], xy = rotor[1], xz = rotor[2], yz = rotor[3], xt = rotor[4], yt = rotor[5], zt = rotor[6], p = rotor[7];
  RotorQuats<T> q;
  q.left = normalized(Quat<T>{s + p, xt - yz, xz + yt, zt - xy}, q.inverse_left);
  q.right = normalized(Quat<T>{s - p, -yz - xt, xz - yt, -xy - zt}, q.inverse_right);
  return q;
}
template <typename T> LUXEL_HD void rotor_to_quats_vjp(const RotorQuats<T>& q, Quat<T> g_left, Quat<T> g_right, T* g_rotor) {
  const Quat<T> l = normalized_vjp(q.left, q.inverse_left, g_left), r = normalized_vjp(q.right, q.inverse_right, g_right);
  g_rotor[0] = l.w + r.w;
  g_rotor[1] = -(l.z + r.z);
  g_rotor[2] = l.y + r.y;
  g_rotor[3] = -(l.x + r.x);
  g_rotor[4] = l.x - r.x;
  g_rotor[5] = l.y - r.y;
  g_rotor[6] = l.z - r.z;
  g_rotor[7] = l.w - r.w;
}

// i q, j q, k q
template <typename T> LUXEL_HD Quat<T> i_times(Quat<T> q) { return {-q.x, q.w, -q.z, q.y}; }
template <typename T> LUXEL_HD Quat<T> j_times(Quat<T> q) { return {-q.y, q.z, q.w, -q.x}; }
template <typename T> LUXEL_HD Quat<T> k_times(Quat<T> q) { return {-q.z, -q.y, q.x, q.w}; }

// Row e of R is conj(l) e r, for e = 1 (time), i, j, k.
template <typename T> LUXEL_HD Quat<T> rotation_of_time(const RotorQuats<T>& q) { return product(conjugate(q.left), q.right); }
template <typename T> LUXEL_HD Rows3<Quat<T>> rotation_of_space(const RotorQuats<T>& q) {
  const Quat<T> l = conjugate(q.left);
  return {product(l, i_times(q.right)), product(l, j_times(q.right)), product(l, k_times(q.right))};
}
template <typename T>
LUXEL_HD void rotation_vjp(const RotorQuats<T>& q, const Rows3<Quat<T>>& g_space, Quat<T> g_time, Quat<T>& g_left,
                           Quat<T>& g_right) {
  g_left = product(q.right, conjugate(g_time)) + product(i_times(q.right), conjugate(g_space.r0)) +
           product(j_times(q.right), conjugate(g_space.r1)) + product(k_times(q.right), conjugate(g_space.r2));
  g_right = product(q.left, g_time) - i_times(product(q.left, g_space.r0)) - j_times(product(q.left, g_space.r1)) -
            k_times(product(q.left, g_space.r2));
}

// Intermediate values between the parameters and the splat; the vjp recomputes instead of storing them.
template <typename T> struct Gaussian4dProjection : EllipsoidProjection<T, Quat<T>> {
  Rows3<Quat<T>> space;  // M_x, M_y, M_z
  Quat<T> span;          // m
  T later, inverse_variance, exponent;  // timestamp - time; 1 / c; of the temporal falloff
  T opacity;             // sigmoid(logit); p.alpha is this times the temporal falloff
  Vec3<T> velocity, mean;
  Rows3<Quat<T>> root;   // P
};

template <typename T> LUXEL_HD Quat<T> scales4d(Vec3<T> log_scales, T log_scale_t) {
  return {exp_exact(log_scale_t), exp_exact(log_scales.x), exp_exact(log_scales.y), exp_exact(log_scales.z)};
}

// Subtracts `parts` times m from the rows.
template <typename T> LUXEL_HD Rows3<Quat<T>> part_from(Quat<T> m, Vec3<T> parts, const Rows3<Quat<T>>& rows) {
  return {rows.r0 - parts.x * m, rows.r1 - parts.y * m, rows.r2 - parts.z * m};
}

// The slice at `timestamp`, and its splat. False if the Gaussian is culled; the time is tested first. Every comparison is
// phrased so that NaN fails it.
template <typename T, typename Camera>
LUXEL_HD bool project_gaussian4d(const Camera& cam, const ProjectionOptions<T>& options, T timestamp, const T* mean, T time,
                                 const T* log_scales, T log_scale_t, const T* rotor, T opacity_logit,
                                 Gaussian4dProjection<T>& p, Splat<T>& splat) {
  const RotorQuats<T> q = rotor_to_quats(rotor);
  const Quat<T> s = scales4d(load3(log_scales), log_scale_t);
  p.span = by_parts(rotation_of_time(q), s);
  p.later = timestamp - time;
  p.inverse_variance = inverse(dot(p.span, p.span));
  p.exponent = T(0.5) * p.later * p.later * p.inverse_variance;
  if (!(p.exponent < max_exponent<T>())) return false;
  p.opacity = sigmoid(opacity_logit);
  p.alpha = p.opacity * exp_exact(-p.exponent);
  if (!(p.alpha >= T(1.0 / 255.0))) return false;
  const Rows3<Quat<T>> rotation = rotation_of_space(q);
  p.space = {by_parts(rotation.r0, s), by_parts(rotation.r1, s), by_parts(rotation.r2, s)};
  p.velocity = p.inverse_variance * mul(p.space, p.span);
  p.mean = load3(mean) + p.later * p.velocity;
  if (!in_depth_range(cam, p.mean)) return false;
  p.camera_mean = mul(cam.rotation, p.mean) + cam.translation;
  if (!roll(cam, p.camera_mean)) return false;
  p.root = part_from(p.span, p.velocity, p.space);
  // A second time, to remove what rounding left along m; otherwise the slices of fast, long-lived, thin Gaussians lose precision.
  p.root = part_from(p.span, p.inverse_variance * mul(p.root, p.span), p.root);
  p.spread = mul(cam.rotation, p.root);
  return project_ellipsoid(cam, options, p, splat);
}

// Gradients summed over views; shape_vjp turns those by the rows of M into those by rotor and scales, once for all views.
template <typename T> struct Gaussian4dGradient {
  Vec3<T> mean;
  T time;
  Rows3<Quat<T>> space;
  Quat<T> span;
  T opacity_logit;
};

// The product of the gradient by P with m, with which it reaches v through P. It is 0 where the splat is a function of P P^T: the
// rows of the gradient are then combinations of rows of P, which are perpendicular to m. Sigma points depend on P itself.
template <typename T> LUXEL_HD Vec3<T> root_along(const Pinhole<T>&, const Rows3<Quat<T>>&, Quat<T>) { return {T(0), T(0), T(0)}; }
template <typename T> LUXEL_HD Vec3<T> root_along(const LensCamera<T>&, const Rows3<Quat<T>>& g_root, Quat<T> span) {
  return mul(g_root, span);
}

// Adds to `out` and `pose`. g_mean: gradient by the mean of the slice from elsewhere (colour). Returns the gradient by the
// timestamp, the negative of that by the Gaussian's time.
template <typename T, typename Camera>
LUXEL_HD T project_gaussian4d_vjp(const Camera& cam, const ProjectionOptions<T>& options, const Gaussian4dProjection<T>& p,
                                  const Splat<T>& splat, const Splat<T>& g, T g_depth, Vec3<T> g_mean,
                                  Gaussian4dGradient<T>& out, PoseGradient<T>& pose) {
  EllipsoidGradient<T, Quat<T>> g_ellipsoid = project_ellipsoid_vjp(cam, options, p, splat, g, g_depth);
  g_ellipsoid.camera_mean = roll_vjp(cam, p.mean, g_ellipsoid.camera_mean, pose);
  add_ellipsoid(pose, g_ellipsoid, p.mean, p.root);
  g_mean = g_mean + mul_transposed(cam.rotation, g_ellipsoid.camera_mean);
  const Rows3<Quat<T>> g_root = mul_transposed(cam.rotation, g_ellipsoid.spread);

  out.opacity_logit += g_ellipsoid.alpha * p.alpha * (T(1) - p.opacity);
  const T g_exponent = -g_ellipsoid.alpha * p.alpha;
  const T g_later = g_exponent * p.later * p.inverse_variance + dot(p.velocity, g_mean);
  out.mean = out.mean + g_mean;
  out.time -= g_later;

  // P_i = M_i - v_i m, v_i = M_i . m / c, c = m . m.
  const Vec3<T> g_velocity = p.later * g_mean - root_along(cam, g_root, p.span);
  const Vec3<T> g_product = p.inverse_variance * g_velocity;  // by M_i m
  const T g_variance = -p.inverse_variance * (dot(g_velocity, p.velocity) + g_exponent * p.exponent);
  out.space.r0 = out.space.r0 + g_root.r0 + g_product.x * p.span;
  out.space.r1 = out.space.r1 + g_root.r1 + g_product.y * p.span;
  out.space.r2 = out.space.r2 + g_root.r2 + g_product.z * p.span;
  out.span = out.span + (2 * g_variance) * p.span + mul_transposed(p.space, g_product) - mul_transposed(g_root, p.velocity);
  return g_later;
}

// Gradients by log scales (t, x, y, z) and rotor from those by the rows of M.
template <typename T>
LUXEL_HD Quat<T> shape_vjp(const T* rotor, Quat<T> scales, const Gaussian4dGradient<T>& g, T* g_rotor) {
  const RotorQuats<T> q = rotor_to_quats(rotor);
  const Rows3<Quat<T>> g_space = {by_parts(g.space.r0, scales), by_parts(g.space.r1, scales), by_parts(g.space.r2, scales)};
  const Quat<T> g_span = by_parts(g.span, scales);
  const Rows3<Quat<T>> space = rotation_of_space(q);
  Quat<T> g_left, g_right;
  rotation_vjp(q, g_space, g_span, g_left, g_right);
  rotor_to_quats_vjp(q, g_left, g_right, g_rotor);
  return by_parts(space.r0, g_space.r0) + by_parts(space.r1, g_space.r1) + by_parts(space.r2, g_space.r2) +
         by_parts(rotation_of_time(q), g_span);
}

// Rotates rows a and b, and the axes u and v with them, so that a and b become perpendicular; false if they already are.
template <typename T> LUXEL_HD bool part_rows(Quat<T>& a, Quat<T>& b, Vec3<T>& u, Vec3<T>& v) {
  const T aa = dot(a, a), bb = dot(b, b), ab = dot(a, b);
  const T rounding = sizeof(T) == 4 ? T(1e-7) : T(2e-16);
  if (!(square(ab) > square(rounding) * aa * bb)) return false;
  const T zeta = (bb - aa) / (2 * ab), size = zeta < T(0) ? -zeta : zeta;
  const T tangent = (zeta < T(0) ? T(-1) : T(1)) / (size + root(T(1) + zeta * zeta));
  const T cosine = inverse_root(T(1) + tangent * tangent), sine = cosine * tangent;
  const Quat<T> turned = cosine * a - sine * b;
  b = sine * a + cosine * b;
  a = turned;
  const Vec3<T> other = cosine * u - sine * v;
  v = sine * u + cosine * v;
  u = other;
  return true;
}

// The unit vector of the shortest axis of an ellipsoid with covariance P P^T, by one-sided Jacobi rotations of the rows of P, which
// resolve thin directions that are lost to rounding in P P^T.
template <typename T> LUXEL_HD Vec3<T> shortest_axis(Rows3<Quat<T>> p) {
  const T largest = larger(dot(p.r0, p.r0), larger(dot(p.r1, p.r1), dot(p.r2, p.r2)));
  if (!(largest > T(0))) return {T(1), T(0), T(0)};
  const T scale = inverse_root(largest);
  p = {scale * p.r0, scale * p.r1, scale * p.r2};
  Vec3<T> u0 = {T(1), T(0), T(0)}, u1 = {T(0), T(1), T(0)}, u2 = {T(0), T(0), T(1)};
  for (int sweep = 0; sweep < 8; ++sweep) {
    bool moved = part_rows(p.r0, p.r1, u0, u1);
    moved |= part_rows(p.r0, p.r2, u0, u2);
    moved |= part_rows(p.r1, p.r2, u1, u2);
    if (!moved) break;
  }
  const T x = dot(p.r0, p.r0), y = dot(p.r1, p.r1), z = dot(p.r2, p.r2);
  T inverse_length;
  return normalized(x <= y && x <= z ? u0 : (y <= z ? u1 : u2), inverse_length);
}

}  // namespace luxel
