// One Gaussian of the stage project_gaussians, for one camera: its geometry, its colour, and the vjp of both.
// The CPU loops and the CUDA kernels around these are in the .cpp and .cu of the same name (backward: _bwd.cu).
#pragma once

#include "abi/raster.h"
#include "math/raster/gaussian.h"
#include "math/raster/gaussian_policy.h"
#include "kernels/raster/project/row_sink.h"
#include "kernels/raster/project/sh_values.h"

namespace luxel {

LUXEL_HD int value_channels(const luxel_project_gaussians_args& args) {
  return value_channels(args.with_depth, args.with_normals);
}
LUXEL_HD int sh_terms(const luxel_project_gaussians_args& args) { return sh_terms(args.sh_degree, args.sh_stride); }

// Pointers to the parameters of one Gaussian, in global or shared memory.
template <typename T> struct GaussianRow {
  const T *mean, *quat, *log_scales, *opacity_logit, *sh_dc, *sh_rest;
};
template <typename T> LUXEL_HD GaussianRow<T> row_of(const luxel_project_gaussians_args& args, int64_t n) {
  return {in<T>(args.means) + 3 * n,          in<T>(args.quats) + 4 * n, in<T>(args.log_scales) + 3 * n,
          in<T>(args.opacity_logits) + n, in<T>(args.sh_dc) + 3 * n, in<T>(args.sh_rest) + 3 * n * args.sh_stride};
}

template <typename T> LUXEL_HD ShView<T> sh_view(const luxel_project_gaussians_args& args, const GaussianRow<T>& row) {
  return {row.sh_dc, row.sh_rest, args.sh_stride, args.sh_degree};
}

template <typename T, typename Camera>
LUXEL_HD bool load_projection(const luxel_project_gaussians_args& args, const Camera& cam, const GaussianRow<T>& row,
                              Vec3<T> mean, GaussianProjection<T>& p, Splat<T>& s) {
  const ProjectionOptions<T> options = {T(args.dilation), args.antialiased != 0};
  return project_gaussian(cam, options, mean, row.quat, load3(row.log_scales), *row.opacity_logit, p, s);
}

// Geometry of a projected Gaussian, input of store_splat().
template <typename T> struct Projected {
  Vec3<T> mean, normal;  // normal: with_normals only
  Splat<T> splat;
};

// False if the Gaussian is not visible. Camera: Pinhole<T> or LensCamera<T>.
template <typename T, typename Camera>
LUXEL_HD bool project_geometry(const luxel_project_gaussians_args& args, const Camera& cam, const GaussianRow<T>& row,
                               Projected<T>& projected) {
  projected.mean = load3(row.mean);
  if (!in_depth_range(cam, projected.mean)) return false;  // before the other parameters are loaded: culls much of a large scene
  GaussianProjection<T> p;
  if (!load_projection(args, cam, row, projected.mean, p, projected.splat)) return false;
  if (args.with_normals) {
    int axis;
    T sign;
    projected.normal = gaussian_normal(p, projected.mean, camera_position(cam), axis, sign);
  }
  return true;
}

template <typename T> LUXEL_HD int count_tiles(int width, int height, const Splat<T>& s) {
  const T splat[kGaussianRow] = {s.x, s.y, s.opacity, s.depth, s.a, s.b, s.c, s.radius};
  int tiles = 0;
  const int tiles_y = tiles_along(height);
  for_tile_rows(SplatEllipse<T>::of(splat), tiles_along(width), tiles_y, 0, tiles_y,
                [&](int, int first, int end) { tiles += end - first; });
  return tiles;
}

template <typename T> LUXEL_HD void store_row(T* row, const Splat<T>& s) {
  const T splat[kGaussianRow] = {s.x, s.y, s.opacity, s.depth, s.a, s.b, s.c, s.radius};
  store4(row, splat);
  store4(row + 4, splat + 4);
}

// Writes splat and values of a Gaussian that touches tiles. Returns false and writes nothing if its colour is not finite.
// Args, Row: those of project_gaussians or of project_gaussians4d.
template <typename T, typename Args, typename Row>
LUXEL_HD bool store_splat(const Args& args, const Pinhole<T>& cam, int camera, int64_t n, const Row& row,
                          const Projected<T>& projected) {
  const Vec3<T> rgb = seen_colour(sh_view(args, row), cam, projected.mean);
  if (!finite(rgb.x + rgb.y + rgb.z)) return false;
  const int64_t index = static_cast<int64_t>(camera) * args.count + n;
  const Splat<T>& s = projected.splat;
  store_row(out<T>(args.splats) + kGaussianRow * index, s);
  store_values(out<T>(args.values) + value_channels(args.with_depth, args.with_normals) * index, rgb, args.with_depth, s.depth,
               args.with_normals, projected.normal);
  return true;
}

// Norm of a gradient by the screen position, in units of half the image size.
template <typename T> LUXEL_HD T screen_norm(const Pinhole<T>& cam, T g_x, T g_y) {
  return root(square(g_x * (T(0.5) * cam.width)) + square(g_y * (T(0.5) * cam.height)));
}
// Adds a view to the statistics [4] of a Gaussian: two given terms, a count of 1, and its radius.
template <typename T> LUXEL_HD void add_statistics(const Pinhole<T>& cam, const Splat<T>& s, T first, T second, T* statistics) {
  T row[4];
  load4(statistics, row);
  row[0] += first;
  row[1] += second;
  row[2] += T(1);
  row[3] = larger(row[3], s.radius / larger(cam.width, cam.height));
  store4(statistics, row);
}

// Adds the gradients of a Gaussian through one camera in which it is visible, given those by its splat and values; g_rest and kAdd
// as in seen_colour_vjp.
template <bool kAdd, typename T, typename Camera>
LUXEL_HD void project_one_vjp(const luxel_project_gaussians_args& args, const Camera& cam, const GaussianRow<T>& row,
                              const T* g_splat, const T* g_value, GaussianGradient<T>& total, Vec3<T>& g_dc, T* g_rest,
                              T* statistics) {
  const Vec3<T> mean = load3(row.mean);
  const Vec3<T> g_seen = seen_colour_vjp<kAdd>(sh_view(args, row), cam, mean, g_value, g_dc, g_rest);
  total.mean = total.mean + g_seen;

  GaussianProjection<T> p;
  Splat<T> s;
  if (!load_projection(args, cam, row, mean, p, s)) return;  // does not happen: it was visible in the forward pass
  T gs[kGaussianRow];
  load4(g_splat, gs);
  load4(g_splat + 4, gs + 4);
  const Splat<T> g = {gs[0], gs[1], gs[2], T(0), gs[4], gs[5], gs[6], T(0)};

  if (statistics != nullptr) {
    const T absolute = screen_norm(cam, gs[3], gs[7]);
    add_statistics(cam, s, screen_norm(cam, g.x, g.y), absolute, statistics);
  }

  g_value += 3;
  T g_depth = T(0);
  if (args.with_depth) g_depth = *g_value++;
  Mat3<T> g_axes = {{T(0), T(0), T(0)}, {T(0), T(0), T(0)}, {T(0), T(0), T(0)}};
  if (args.with_normals) {
    int axis;
    T sign;
    gaussian_normal(p, mean, camera_position(cam), axis, sign);
    g_axes = gaussian_normal_vjp(axis, sign, load3(g_value));
  }
  const ProjectionOptions<T> options = {T(args.dilation), args.antialiased != 0};
  GaussianGradient<T> one;
  one.mean = total.mean;
  one.pose = total.pose;
  project_gaussian_vjp(cam, options, mean, p, s, g, g_depth, g_axes, one);
  total.mean = one.mean;
  one.pose.add_seen(cam, g_seen);
  total.pose = one.pose;
  total.quat = total.quat + one.quat;
  total.log_scales = total.log_scales + one.log_scales;
  total.opacity_logit += one.opacity_logit;
}

// Adds the gradient of penalty_factor * (opacity_penalty * opacity + scale_penalty * sum of scales).
template <typename T>
LUXEL_HD void penalties_vjp(const luxel_project_gaussians_args& args, const GaussianRow<T>& row, GaussianGradient<T>& g) {
  const T factor = args.penalty_factor ? in<T>(args.penalty_factor)[0] : T(1);
  if (args.opacity_penalty != 0.0f) {
    const T alpha = sigmoid(*row.opacity_logit);
    g.opacity_logit += factor * T(args.opacity_penalty) * alpha * (T(1) - alpha);
  }
  if (args.scale_penalty != 0.0f) {
    const Vec3<T> s = load3(row.log_scales);
    g.log_scales = g.log_scales + factor * T(args.scale_penalty) * Vec3<T>{exp_exact(s.x), exp_exact(s.y), exp_exact(s.z)};
  }
}

// The six parameters as rows of numbers.
constexpr int kGaussianParameters = 6;
template <typename T>
ParameterRows<T, kGaussianParameters> parameter_rows(const luxel_project_gaussians_args& args) {
  const Parameter parameters[kGaussianParameters] = {
      {args.means, args.g_means, 3, 0},
      {args.quats, args.g_quats, 4, 1},
      {args.log_scales, args.g_log_scales, 3, 2},
      {args.opacity_logits, args.g_opacity_logits, 1, 3},
      {args.sh_dc, args.g_sh_dc, 3, 4},
      {args.sh_rest, args.g_sh_rest, 3 * args.sh_stride, 5}};
  return rows_of<T>(args, parameters);
}
// A Gaussian's gradient in the order of these rows, without sh_rest: 14 numbers.
template <typename T> LUXEL_HD void flatten(const GaussianGradient<T>& g, Vec3<T> g_dc, T* row) {
  store3(row, g.mean);
  row[3] = g.quat.w;
  row[4] = g.quat.x;
  row[5] = g.quat.y;
  row[6] = g.quat.z;
  store3(row + 7, g.log_scales);
  row[10] = g.opacity_logit;
  store3(row + 11, g_dc);
}

}  // namespace luxel
