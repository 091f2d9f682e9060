// A surfel (a flat Gaussian in space) in a pinhole camera, and its hand-written vjp (Huang et al. 2024, "2D Gaussian Splatting
// for Geometrically Accurate Radiance Fields", eq. 4 to 10).
//
// With t the centre and T = [t_u t_v] the scaled axes in camera space, a point (u, v) of the plane is imaged at
//   d = J (u, v) / (1 + q (u, v)) from the image of the centre,   J = rows a, b (px),   q = (t_u.z, t_v.z) / t.z.
// This homography has an inverse of the same form: (u, v) = s J^-1 d with s = 1 / (1 + g d) and g = -J^-T q. So the intersection
// of a pixel's ray with the plane, which eq. 8 to 10 find as that of three planes, lies at
//   u^2 + v^2 = s^2 (d^T C d),   depth t.z s,   with the conic C = (J J^T)^-1.
// A surfel is rendered where all of it that reaches an alpha of 1/255 is in front of the camera: m |q|^2 < kMaxTilt, with
// m = 2 ln(255 opacity) the squared radius in (u, v) of this region.
#pragma once

#include "math/camera/camera.h"
#include "math/quat.h"

namespace luxel {

constexpr double kMaxTilt = 0.9;  // of m |q|^2: the nearest point that is rendered has at least 5 % of the depth of the centre

// The row of a surfel on the screen; inverse_conic: the determinant of J J^T. h = J J^T g = -J q.
template <typename T> struct SurfelSplat {
  T x, y, opacity, depth, a, b, c, inverse_conic, g_x, g_y, h_x, h_y;
};

// Intermediate values, which the vjp recomputes.
template <typename T> struct SurfelProjection {
  Vec3<T> camera_mean;
  T alpha;
  Quat<T> unit_quat;
  T inverse_norm;
  Mat3<T> axes;            // R(q), world space
  T scale_u, scale_v;
  Vec3<T> tangent_u, tangent_v;  // scaled axes in camera space
  T x_over_z, y_over_z;
  T a_u, a_v, b_u, b_v;    // J
  T q_u, q_v, area;        // area: det J
};

template <typename T> struct SurfelGradient {
  Vec3<T> mean;
  Quat<T> quat;
  T log_scale_u, log_scale_v, opacity_logit;
  PoseGradient<T> pose;
};

// False if the surfel is not visible; every comparison is phrased so that NaN fails it.
template <typename T>
LUXEL_HD bool project_surfel(const Pinhole<T>& cam, Vec3<T> mean, const T* quat, const T* log_scales, T opacity_logit,
                             SurfelProjection<T>& p, SurfelSplat<T>& s) {
  p.camera_mean = mul(cam.rotation, mean) + cam.translation;
  const T z = p.camera_mean.z;
  if (!(z > cam.near_plane && z < cam.far_plane)) return false;
  p.alpha = sigmoid(opacity_logit);
  if (!(p.alpha >= T(1.0 / 255.0))) return false;
  p.axes = quat_to_matrix(quat, p.unit_quat, p.inverse_norm);
  p.scale_u = exp_exact(log_scales[0]);
  p.scale_v = exp_exact(log_scales[1]);
  p.tangent_u = p.scale_u * mul(cam.rotation, Vec3<T>{p.axes.r0.x, p.axes.r1.x, p.axes.r2.x});
  p.tangent_v = p.scale_v * mul(cam.rotation, Vec3<T>{p.axes.r0.y, p.axes.r1.y, p.axes.r2.y});
  const T inverse_z = inverse(z);
  p.x_over_z = p.camera_mean.x * inverse_z;
  p.y_over_z = p.camera_mean.y * inverse_z;
  const T focal_x = cam.fx * inverse_z, focal_y = cam.fy * inverse_z;
  p.a_u = focal_x * (p.tangent_u.x - p.x_over_z * p.tangent_u.z);
  p.a_v = focal_x * (p.tangent_v.x - p.x_over_z * p.tangent_v.z);
  p.b_u = focal_y * (p.tangent_u.y - p.y_over_z * p.tangent_u.z);
  p.b_v = focal_y * (p.tangent_v.y - p.y_over_z * p.tangent_v.z);
  p.q_u = p.tangent_u.z * inverse_z;
  p.q_v = p.tangent_v.z * inverse_z;
  p.area = difference_of_products(p.a_u, p.b_v, p.a_v, p.b_u);
  const T reach = 2 * log_of(T(255) * p.alpha);
  if (!(reach * (p.q_u * p.q_u + p.q_v * p.q_v) < T(kMaxTilt))) return false;
  const T inverse_area = inverse(p.area), inverse_det = inverse_area * inverse_area;
  s.x = cam.fx * p.x_over_z + cam.cx;
  s.y = cam.fy * p.y_over_z + cam.cy;
  s.opacity = p.alpha;
  s.depth = z;
  s.a = (p.b_u * p.b_u + p.b_v * p.b_v) * inverse_det;
  s.b = -(p.a_u * p.b_u + p.a_v * p.b_v) * inverse_det;
  s.c = (p.a_u * p.a_u + p.a_v * p.a_v) * inverse_det;
  s.inverse_conic = p.area * p.area;
  s.g_x = (p.b_u * p.q_v - p.b_v * p.q_u) * inverse_area;
  s.g_y = (p.a_v * p.q_u - p.a_u * p.q_v) * inverse_area;
  s.h_x = -(p.a_u * p.q_u + p.a_v * p.q_v);
  s.h_y = -(p.b_u * p.q_u + p.b_v * p.q_v);
  // Viewed edge-on the conic is not finite.
  return finite(s.a + s.b + s.c + s.g_x + s.g_y) && finite(s.x) && finite(s.y) && s.inverse_conic > T(0);
}

// g: gradient by x, y, opacity, a, b, c, g_x, g_y of the splat; g_depth: by the depth of the centre; g_normal: by the third axis.
// Adds to mean and pose of `out`, sets its other members.
template <typename T>
LUXEL_HD void project_surfel_vjp(const Pinhole<T>& cam, Vec3<T> mean, const SurfelProjection<T>& p, const SurfelSplat<T>& s,
                                 const SurfelSplat<T>& g, T g_depth, Vec3<T> g_normal, SurfelGradient<T>& out) {
  const T inverse_z = inverse(p.camera_mean.z), inverse_area = inverse(p.area);
  const T inverse_det = inverse_area * inverse_area;
  out.opacity_logit = g.opacity * p.alpha * (T(1) - p.alpha);

  // The conic and g by J, q and the determinant.
  const T g_aa = g.c * inverse_det, g_bb = g.a * inverse_det, g_ab = -g.b * inverse_det;
  const T k_x = g.g_x * inverse_area, k_y = g.g_y * inverse_area;
  T g_area = -inverse_area * (2 * (s.a * g.a + s.b * g.b + s.c * g.c) + s.g_x * g.g_x + s.g_y * g.g_y);
  const T a_u = p.a_u, a_v = p.a_v, b_u = p.b_u, b_v = p.b_v;
  const T g_q_u = a_v * k_y - b_v * k_x, g_q_v = b_u * k_x - a_u * k_y;
  const T g_a_u = 2 * a_u * g_aa + b_u * g_ab - p.q_v * k_y + b_v * g_area;
  const T g_a_v = 2 * a_v * g_aa + b_v * g_ab + p.q_u * k_y - b_u * g_area;
  const T g_b_u = 2 * b_u * g_bb + a_u * g_ab + p.q_v * k_x - a_v * g_area;
  const T g_b_v = 2 * b_v * g_bb + a_v * g_ab - p.q_u * k_x + a_u * g_area;

  // J and q by the axes and the centre.
  const T focal_x = cam.fx * inverse_z, focal_y = cam.fy * inverse_z;
  const Vec3<T> g_u = {focal_x * g_a_u, focal_y * g_b_u,
                       inverse_z * g_q_u - p.x_over_z * focal_x * g_a_u - p.y_over_z * focal_y * g_b_u};
  const Vec3<T> g_v = {focal_x * g_a_v, focal_y * g_b_v,
                       inverse_z * g_q_v - p.x_over_z * focal_x * g_a_v - p.y_over_z * focal_y * g_b_v};
  const T g_x = cam.fx * g.x - focal_x * (p.tangent_u.z * g_a_u + p.tangent_v.z * g_a_v);  // by x/z
  const T g_y = cam.fy * g.y - focal_y * (p.tangent_u.z * g_b_u + p.tangent_v.z * g_b_v);
  const T through_inverse = a_u * g_a_u + a_v * g_a_v + b_u * g_b_u + b_v * g_b_v + p.q_u * g_q_u + p.q_v * g_q_v;
  const Vec3<T> g_mean = {g_x * inverse_z, g_y * inverse_z,
                          g_depth - inverse_z * (through_inverse + g_x * p.x_over_z + g_y * p.y_over_z)};

  out.log_scale_u = dot(g_u, p.tangent_u);
  out.log_scale_v = dot(g_v, p.tangent_v);
  const Vec3<T> world_u = p.scale_u * mul_transposed(cam.rotation, g_u), world_v = p.scale_v * mul_transposed(cam.rotation, g_v);
  const Mat3<T> g_axes = {{world_u.x, world_v.x, g_normal.x}, {world_u.y, world_v.y, g_normal.y}, {world_u.z, world_v.z, g_normal.z}};
  out.quat = quat_to_matrix_vjp(p.unit_quat, p.inverse_norm, g_axes);
  out.mean = out.mean + mul_transposed(cam.rotation, g_mean);
  out.pose.add_point(g_mean, mean);
  const Vec3<T> column_u = p.scale_u * Vec3<T>{p.axes.r0.x, p.axes.r1.x, p.axes.r2.x};
  const Vec3<T> column_v = p.scale_v * Vec3<T>{p.axes.r0.y, p.axes.r1.y, p.axes.r2.y};
  Mat3<T>& r = out.pose.rotation;
  r = {r.r0 + g_u.x * column_u + g_v.x * column_v, r.r1 + g_u.y * column_u + g_v.y * column_v,
       r.r2 + g_u.z * column_u + g_v.z * column_v};
}

// The third axis in world space, turned towards the camera; sign: +1 or -1.
template <typename T>
LUXEL_HD Vec3<T> surfel_normal(const SurfelProjection<T>& p, Vec3<T> mean, Vec3<T> camera_position, T& sign) {
  const Vec3<T> n = {p.axes.r0.z, p.axes.r1.z, p.axes.r2.z};
  sign = dot(n, camera_position - mean) < T(0) ? T(-1) : T(1);
  return sign * n;
}

}  // namespace luxel
