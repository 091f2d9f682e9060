// A 3D Gaussian projected by a camera: EWA projection (Zwicker et al. 2002; Kerbl et al. 2023) with optional
// opacity compensation (Yu et al. 2024, "Mip-Splatting"), and its hand-written vjp. project_ellipsoid, which is independent of
// the parameters of the ellipsoid, also serves other primitives.
//
// With a lens (math/camera/lens.h) mean and covariance on screen are those of the images of sigma points (Julier and Uhlmann 1997;
// Wu et al. 2025, "3DGUT"). With n columns of A they are the 2 n points at sqrt(n) times the columns, of equal weight: the rule with
// kappa = 0, in which the centre has weight 0 in the mean. It has none in the covariance either: any more (2 with the beta of Wu et
// al.) is further from the exact covariance, which the tests integrate numerically.
//
// With M = R(q) diag(s), A = R_cam M and J the Jacobian of the projection, the 2D covariance is B B^T, B = J A [2,3]. Only the
// two rows of B are needed, not the 3x3 covariances.
#pragma once

#include "math/quat.h"
#include "math/camera/shutter.h"

namespace luxel {

template <typename T> struct ProjectionOptions {
  T dilation;
  bool antialiased;
};

template <typename T> struct Splat {
  T x, y, opacity, depth, a, b, c, radius;
};

// Intermediate values between an ellipsoid and its splat; the vjp recomputes instead of storing them. The covariance in world
// space is M M^T, with rows of three numbers for a 3D Gaussian, of four for the slice of a 4D one.
template <typename T, typename Row> struct EllipsoidProjection {
  Vec3<T> camera_mean;
  T alpha;             // opacity before compensation
  Rows3<Row> spread;   // A = R_cam M
  T u, v;              // clamped x/z, y/z
  bool u_free, v_free;  // whether u, v are not clamped
  Row row_x, row_y;    // B
  T cov_xx, cov_xy, cov_yy, det, det_raw;
  T compensation;      // 1 unless antialiased
};

// The same for a 3D Gaussian: M = R(q) diag(s).
template <typename T> struct GaussianProjection : EllipsoidProjection<T, Vec3<T>> {
  Quat<T> unit_quat;
  T inverse_norm;
  Mat3<T> axes;    // R(q)
  Vec3<T> scales;  // exp(log_scales)
};

template <typename T> LUXEL_HD bool in_depth_range(const Pinhole<T>& cam, Vec3<T> mean) {
  const T z = dot(cam.rotation.r2, mean) + cam.translation.z;
  return z > cam.near_plane && z < cam.far_plane;
}
template <typename T> LUXEL_HD bool in_depth_range(const LensCamera<T>& cam, Vec3<T> mean) {
  return in_range(cam, mul(cam.rotation, mean) + cam.translation);
}

// Completes the splat, whose position and depth are set, from its covariance before dilation. False if it is not visible; every
// comparison is phrased so that NaN fails it.
template <typename T, typename Row>
LUXEL_HD bool complete_splat(const Pinhole<T>& cam, const ProjectionOptions<T>& options, T xx, T xy, T yy,
                             EllipsoidProjection<T, Row>& p, Splat<T>& splat) {
  p.cov_xx = xx + options.dilation;
  p.cov_xy = xy;
  p.cov_yy = yy + options.dilation;
  p.det_raw = difference_of_products(xx, yy, xy, xy);
  p.det = difference_of_products(p.cov_xx, p.cov_yy, xy, xy);
  if (!(p.det > T(0))) return false;
  p.compensation = T(1);
  if (options.antialiased) {
    if (!(p.det_raw > T(0))) return false;
    p.compensation = root(p.det_raw / p.det);
  }
  splat.opacity = p.alpha * p.compensation;
  if (!(splat.opacity >= T(1.0 / 255.0))) return false;
  const T inverse_det = inverse(p.det);
  splat.a = p.cov_yy * inverse_det;
  splat.b = -p.cov_xy * inverse_det;
  splat.c = p.cov_xx * inverse_det;
  const T reach = 2 * log_of(T(255) * splat.opacity);  // squared Mahalanobis radius at which alpha is 1/255
  const T extent_x = root(reach * p.cov_xx), extent_y = root(reach * p.cov_yy);
  splat.radius = larger(extent_x, extent_y);
  if (!(splat.x + extent_x > T(0) && splat.x - extent_x < cam.width)) return false;
  if (!(splat.y + extent_y > T(0) && splat.y - extent_y < cam.height)) return false;
  return finite(splat.radius) && finite(splat.x) && finite(splat.y) && finite(splat.a + splat.b + splat.c);
}

// Computes the splat, and the other values of `p`, from camera_mean, alpha and spread of `p`. False if it is not visible.
template <typename T, typename Row>
LUXEL_HD bool project_ellipsoid(const Pinhole<T>& cam, const ProjectionOptions<T>& options, EllipsoidProjection<T, Row>& p,
                                Splat<T>& splat) {
  const T z = p.camera_mean.z;
  const T inverse_z = inverse(z);
  const T u = p.camera_mean.x * inverse_z, v = p.camera_mean.y * inverse_z;
  p.u = clamp(u, cam.u_min, cam.u_max);
  p.v = clamp(v, cam.v_min, cam.v_max);
  p.u_free = p.u == u;
  p.v_free = p.v == v;
  p.row_x = (cam.fx * inverse_z) * (p.spread.r0 - p.u * p.spread.r2);
  p.row_y = (cam.fy * inverse_z) * (p.spread.r1 - p.v * p.spread.r2);
  const T xx = dot(p.row_x, p.row_x), xy = dot(p.row_x, p.row_y), yy = dot(p.row_y, p.row_y);
  splat.x = cam.fx * u + cam.cx;
  splat.y = cam.fy * v + cam.cy;
  splat.depth = z;
  return complete_splat(cam, options, xx, xy, yy, p, splat);
}

// Sigma points, 2 for each number of a row of the spread: calls visit(k, offset) with the columns of A times sqrt(n).
template <typename T> struct SigmaPoints {
  T factor, weight;  // sqrt(n); 1 / (2 n)
  T min_depth;     // see image_through
};
constexpr double kMinDepth = 0.25;  // of a sigma point, as a share of that of the centre
template <typename T> LUXEL_HD SigmaPoints<T> sigma_points(const Mat3<T>&, Vec3<T> centre) {
  return {T(1.7320508075688772), T(1.0 / 6.0), T(kMinDepth) * centre.z};
}
template <typename T> LUXEL_HD SigmaPoints<T> sigma_points(const Rows3<Quat<T>>&, Vec3<T> centre) {
  return {T(2), T(1.0 / 8.0), T(kMinDepth) * centre.z};
}
template <typename T, typename Visit> LUXEL_HD void for_columns(const Mat3<T>& a, Visit visit) {
  visit(0, Vec3<T>{a.r0.x, a.r1.x, a.r2.x});
  visit(1, Vec3<T>{a.r0.y, a.r1.y, a.r2.y});
  visit(2, Vec3<T>{a.r0.z, a.r1.z, a.r2.z});
}
template <typename T, typename Visit> LUXEL_HD void for_columns(const Rows3<Quat<T>>& a, Visit visit) {
  visit(0, Vec3<T>{a.r0.x, a.r1.x, a.r2.x});
  visit(1, Vec3<T>{a.r0.y, a.r1.y, a.r2.y});
  visit(2, Vec3<T>{a.r0.z, a.r1.z, a.r2.z});
  visit(3, Vec3<T>{a.r0.w, a.r1.w, a.r2.w});
}
template <typename T> LUXEL_HD Mat3<T> from_columns(const Mat3<T>&, const Vec3<T>* c) {
  return {{c[0].x, c[1].x, c[2].x}, {c[0].y, c[1].y, c[2].y}, {c[0].z, c[1].z, c[2].z}};
}
template <typename T> LUXEL_HD Rows3<Quat<T>> from_columns(const Rows3<Quat<T>>&, const Vec3<T>* c) {
  return {{c[3].x, c[0].x, c[1].x, c[2].x}, {c[3].y, c[0].y, c[1].y, c[2].y}, {c[3].z, c[0].z, c[1].z, c[2].z}};
}

// The same with a lens, from sigma points.
template <typename T, typename Row>
LUXEL_HD bool project_ellipsoid(const LensCamera<T>& cam, const ProjectionOptions<T>& options, EllipsoidProjection<T, Row>& p,
                                Splat<T>& splat) {
  const SigmaPoints<T> sigma = sigma_points(p.spread, p.camera_mean);
  T x[8], y[8];
  splat.x = splat.y = T(0);
  for_columns(p.spread, [&](int k, Vec3<T> column) {
    const Vec3<T> offset = sigma.factor * column;
    const LensImage<T> plus = image_through(cam, p.camera_mean + offset, sigma.min_depth);
    const LensImage<T> minus = image_through(cam, p.camera_mean - offset, sigma.min_depth);
    x[2 * k] = plus.x;
    y[2 * k] = plus.y;
    x[2 * k + 1] = minus.x;
    y[2 * k + 1] = minus.y;
    splat.x += sigma.weight * (plus.x + minus.x);
    splat.y += sigma.weight * (plus.y + minus.y);
  });
  T xx = T(0), xy = T(0), yy = T(0);
  for_columns(p.spread, [&](int k, Vec3<T>) {
    for (int i = 2 * k; i < 2 * k + 2; ++i) {
      const T dx = x[i] - splat.x, dy = y[i] - splat.y;
      xx += sigma.weight * dx * dx;
      xy += sigma.weight * dx * dy;
      yy += sigma.weight * dy * dy;
    }
  });
  splat.depth = depth_of(cam, p.camera_mean);
  return complete_splat(cam, options, xx, xy, yy, p, splat);
}

// False if the Gaussian is not visible. Camera: Pinhole<T>, LensCamera<T>, or either with a rolling shutter, here and below.
template <typename T, typename Camera>
LUXEL_HD bool project_gaussian(const Camera& cam, const ProjectionOptions<T>& options, Vec3<T> mean, const T* quat,
                               Vec3<T> log_scales, T opacity_logit, GaussianProjection<T>& p, Splat<T>& splat) {
  p.camera_mean = mul(cam.rotation, mean) + cam.translation;
  if (!in_range(cam, p.camera_mean) || !roll(cam, p.camera_mean)) return false;
  p.alpha = sigmoid(opacity_logit);
  if (!(p.alpha >= T(1.0 / 255.0))) return false;
  p.axes = quat_to_matrix(quat, p.unit_quat, p.inverse_norm);
  p.scales = {exp_exact(log_scales.x), exp_exact(log_scales.y), exp_exact(log_scales.z)};
  const Mat3<T> rotated = mul(cam.rotation, p.axes);
  const Vec3<T> s = p.scales;
  p.spread = {{rotated.r0.x * s.x, rotated.r0.y * s.y, rotated.r0.z * s.z},
              {rotated.r1.x * s.x, rotated.r1.y * s.y, rotated.r1.z * s.z},
              {rotated.r2.x * s.x, rotated.r2.y * s.y, rotated.r2.z * s.z}};
  return project_ellipsoid(cam, options, p, splat);
}

// Gradient by the inputs of project_ellipsoid; g: by the splat, g_depth: by its depth from elsewhere.
template <typename T, typename Row> struct EllipsoidGradient {
  Vec3<T> camera_mean;
  T alpha;
  Rows3<Row> spread;
};
// Gradients by the covariance before dilation, and by alpha.
template <typename T> struct CovarianceGradient {
  T xx, xy, yy, alpha;
};
template <typename T, typename Row>
LUXEL_HD CovarianceGradient<T> complete_splat_vjp(const ProjectionOptions<T>& options, const EllipsoidProjection<T, Row>& p,
                                                  const Splat<T>& splat, const Splat<T>& g) {
  const T a = splat.a, b = splat.b, c = splat.c;
  T g_xx = -(a * a * g.a + a * b * g.b + b * b * g.c);
  T g_xy = -(2 * a * b * g.a + (a * c + b * b) * g.b + 2 * b * c * g.c);
  T g_yy = -(b * b * g.a + b * c * g.b + c * c * g.c);

  T g_alpha = g.opacity;
  if (options.antialiased) {
    const T g_compensation = g.opacity * p.alpha;
    g_alpha = g.opacity * p.compensation;
    const T g_raw = g_compensation * T(0.5) / (p.compensation * p.det);
    const T g_det = -g_compensation * T(0.5) * p.compensation / p.det;
    g_xx += g_raw * (p.cov_yy - options.dilation) + g_det * p.cov_yy;
    g_yy += g_raw * (p.cov_xx - options.dilation) + g_det * p.cov_xx;
    g_xy -= 2 * (g_raw + g_det) * p.cov_xy;
  }
  return {g_xx, g_xy, g_yy, g_alpha};
}

template <typename T, typename Row>
LUXEL_HD EllipsoidGradient<T, Row> project_ellipsoid_vjp(const Pinhole<T>& cam, const ProjectionOptions<T>& options,
                                                         const EllipsoidProjection<T, Row>& p, const Splat<T>& splat,
                                                         const Splat<T>& g, T g_depth) {
  const CovarianceGradient<T> g_cov = complete_splat_vjp(options, p, splat, g);
  const T g_xx = g_cov.xx, g_xy = g_cov.xy, g_yy = g_cov.yy;
  EllipsoidGradient<T, Row> out;
  out.alpha = g_cov.alpha;
  const Row g_row_x = (2 * g_xx) * p.row_x + g_xy * p.row_y;
  const Row g_row_y = (2 * g_yy) * p.row_y + g_xy * p.row_x;
  const T inverse_z = inverse(p.camera_mean.z);
  const T focal_x = cam.fx * inverse_z, focal_y = cam.fy * inverse_z;
  out.spread.r0 = focal_x * g_row_x;
  out.spread.r1 = focal_y * g_row_y;
  out.spread.r2 = (-p.u) * out.spread.r0 + (-p.v) * out.spread.r1;

  const T x_over_z = p.camera_mean.x * inverse_z, y_over_z = p.camera_mean.y * inverse_z;
  T g_u = cam.fx * g.x, g_v = cam.fy * g.y;  // x/z and y/z through the mean, unclamped
  if (p.u_free) g_u -= dot(p.spread.r2, out.spread.r0);
  if (p.v_free) g_v -= dot(p.spread.r2, out.spread.r1);
  out.camera_mean.x = g_u * inverse_z;
  out.camera_mean.y = g_v * inverse_z;
  out.camera_mean.z = g_depth + g.depth - inverse_z * (g_u * x_over_z + g_v * y_over_z) -
                      inverse_z * (dot(p.row_x, g_row_x) + dot(p.row_y, g_row_y));
  return out;
}

// Sigma points are imaged again. What the mean of the images contributes through the covariance cancels, since their offsets
// from it sum to 0.
template <typename T, typename Row>
LUXEL_HD EllipsoidGradient<T, Row> project_ellipsoid_vjp(const LensCamera<T>& cam, const ProjectionOptions<T>& options,
                                                         const EllipsoidProjection<T, Row>& p, const Splat<T>& splat,
                                                         const Splat<T>& g, T g_depth) {
  const CovarianceGradient<T> g_cov = complete_splat_vjp(options, p, splat, g);
  const SigmaPoints<T> sigma = sigma_points(p.spread, p.camera_mean);
  T g_least = T(0);
  const auto one = [&](Vec3<T> point) {
    const LensImage<T> i = image_through(cam, point, sigma.min_depth);
    const T dx = i.x - splat.x, dy = i.y - splat.y;
    return image_through_vjp(cam, point, i, sigma.weight * (g.x + 2 * g_cov.xx * dx + g_cov.xy * dy),
                             sigma.weight * (g.y + 2 * g_cov.yy * dy + g_cov.xy * dx), g_least);
  };
  EllipsoidGradient<T, Row> out;
  out.alpha = g_cov.alpha;
  out.camera_mean = depth_of_vjp(cam, p.camera_mean, g_depth + g.depth);
  Vec3<T> columns[4];
  for_columns(p.spread, [&](int k, Vec3<T> column) {
    const Vec3<T> offset = sigma.factor * column;
    const Vec3<T> plus = one(p.camera_mean + offset), minus = one(p.camera_mean - offset);
    out.camera_mean = out.camera_mean + plus + minus;
    columns[k] = sigma.factor * (plus - minus);
  });
  out.camera_mean.z += T(kMinDepth) * g_least;
  out.spread = from_columns(p.spread, columns);
  return out;
}

// Adds the gradient by the pose, which acts on the mean and on A = R_cam M: g_R = g_mean_c mean^T + g_A M^T.
template <typename T, typename Row>
LUXEL_HD void add_ellipsoid(PoseGradient<T>& pose, const EllipsoidGradient<T, Row>& g, Vec3<T> mean, const Rows3<Row>& m) {
  pose.add_point(g.camera_mean, mean);
  pose.rotation = {pose.rotation.r0 + mul(m, g.spread.r0), pose.rotation.r1 + mul(m, g.spread.r1),
                   pose.rotation.r2 + mul(m, g.spread.r2)};
}

template <typename T> struct GaussianGradient {
  Vec3<T> mean;
  Quat<T> quat;
  Vec3<T> log_scales;
  T opacity_logit;
  PoseGradient<T> pose;
};

// g_axes: gradient by R(q) from elsewhere (normals). Adds to mean and pose of `out`, sets its other members.
template <typename T, typename Camera>
LUXEL_HD void project_gaussian_vjp(const Camera& cam, const ProjectionOptions<T>& options, Vec3<T> mean,
                                   const GaussianProjection<T>& p, const Splat<T>& splat, const Splat<T>& g,
                                   T g_depth, Mat3<T> g_axes, GaussianGradient<T>& out) {
  EllipsoidGradient<T, Vec3<T>> g_ellipsoid = project_ellipsoid_vjp(cam, options, p, splat, g, g_depth);
  g_ellipsoid.camera_mean = roll_vjp(cam, mean, g_ellipsoid.camera_mean, out.pose);
  out.opacity_logit = g_ellipsoid.alpha * p.alpha * (T(1) - p.alpha);

  // A = R_cam M, M = R(q) diag(s)
  const Mat3<T> g_m = mul_transposed(cam.rotation, g_ellipsoid.spread);
  const Vec3<T> s = p.scales;
  const Mat3<T>& q = p.axes;
  out.log_scales = {s.x * (q.r0.x * g_m.r0.x + q.r1.x * g_m.r1.x + q.r2.x * g_m.r2.x),
                    s.y * (q.r0.y * g_m.r0.y + q.r1.y * g_m.r1.y + q.r2.y * g_m.r2.y),
                    s.z * (q.r0.z * g_m.r0.z + q.r1.z * g_m.r1.z + q.r2.z * g_m.r2.z)};
  const Vec3<T> row0 = {g_m.r0.x * s.x, g_m.r0.y * s.y, g_m.r0.z * s.z};
  const Vec3<T> row1 = {g_m.r1.x * s.x, g_m.r1.y * s.y, g_m.r1.z * s.z};
  const Vec3<T> row2 = {g_m.r2.x * s.x, g_m.r2.y * s.y, g_m.r2.z * s.z};
  g_axes = {g_axes.r0 + row0, g_axes.r1 + row1, g_axes.r2 + row2};
  out.quat = quat_to_matrix_vjp(p.unit_quat, p.inverse_norm, g_axes);

  out.mean = out.mean + mul_transposed(cam.rotation, g_ellipsoid.camera_mean);
  const Mat3<T> m = {{q.r0.x * s.x, q.r0.y * s.y, q.r0.z * s.z},
                     {q.r1.x * s.x, q.r1.y * s.y, q.r1.z * s.z},
                     {q.r2.x * s.x, q.r2.y * s.y, q.r2.z * s.z}};
  add_ellipsoid(out.pose, g_ellipsoid, mean, m);
}

// The normal of a Gaussian: its shortest axis in world space, turned towards the camera.
template <typename T>
LUXEL_HD Vec3<T> gaussian_normal(const GaussianProjection<T>& p, Vec3<T> mean, Vec3<T> camera_position, int& axis, T& sign) {
  const Vec3<T> s = p.scales;
  axis = s.x <= s.y && s.x <= s.z ? 0 : (s.y <= s.z ? 1 : 2);
  const Mat3<T>& q = p.axes;
  const Vec3<T> n = axis == 0   ? Vec3<T>{q.r0.x, q.r1.x, q.r2.x}
                    : axis == 1 ? Vec3<T>{q.r0.y, q.r1.y, q.r2.y}
                                : Vec3<T>{q.r0.z, q.r1.z, q.r2.z};
  sign = dot(n, camera_position - mean) < T(0) ? T(-1) : T(1);
  return sign * n;
}
template <typename T> LUXEL_HD Mat3<T> gaussian_normal_vjp(int axis, T sign, Vec3<T> g) {
  const T k0 = axis == 0 ? sign : T(0), k1 = axis == 1 ? sign : T(0), k2 = axis == 2 ? sign : T(0);
  return {{g.x * k0, g.x * k1, g.x * k2}, {g.y * k0, g.y * k1, g.y * k2}, {g.z * k0, g.z * k1, g.z * k2}};
}

}  // namespace luxel
