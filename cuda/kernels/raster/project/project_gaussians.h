// One Gaussian of the stage project_gaussians, for one camera: its geometry, its colour, and the vjp of both.
// The loops around these are in forward/ and backward/.
#pragma once

#include "abi/raster.h"
#include "math/raster/gaussian.h"
#include "math/raster/gaussian_policy.h"
#include "kernels/raster/project/gaussian_row.h"
#include "kernels/raster/project/sh_values.h"

namespace luxel {

LUXEL_HD int value_channels(const luxel_project_gaussians_args& args) {
  return value_channels(args.projection.with_depth, args.with_normals);
}
template <typename T> LUXEL_HD GaussianRow<T> row_of(const luxel_project_gaussians_args& args, int64_t n) {
  return gaussian_row<3, T>(args, n);
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

template <typename T, typename Args> LUXEL_HD int count_tiles(const Args& args, const Projected<T>& projected) {
  const Splat<T>& s = projected.splat;
  const T splat[kGaussianRow] = {s.x, s.y, s.opacity, s.depth, s.a, s.b, s.c, s.radius};
  return touched_tiles(SplatEllipse<T>::of(splat), args.projection);
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
  const int64_t index = static_cast<int64_t>(camera) * args.projection.count + n;
  const Splat<T>& s = projected.splat;
  store_row(out<T>(args.projection.splats) + kGaussianRow * index, s);
  const int with_depth = args.projection.with_depth;
  store_values(out<T>(args.projection.values) + value_channels(with_depth, args.with_normals) * index, rgb, with_depth, s.depth,
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
                              const T* g_splat, const T* g_value, WithColour<T, GaussianGradient>& total, T* g_rest, T* statistics) {
  const Vec3<T> mean = load3(row.mean);
  const Vec3<T> g_seen = seen_colour_vjp<kAdd>(sh_view(args, row), cam, mean, g_value, total.dc, g_rest);
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
  if (args.projection.with_depth) g_depth = *g_value++;
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

LUXEL_HD bool has_penalties(const luxel_project_gaussians_args& args) { return gaussian_penalties(args); }
template <typename T>
LUXEL_HD void penalties_vjp(const luxel_project_gaussians_args& args, const GaussianRow<T>& row, GaussianGradient<T>& g) {
  gaussian_penalties_vjp(args, row, g.opacity_logit, [&](T factor) {
    const Vec3<T> s = load3(row.log_scales);
    g.log_scales = g.log_scales + factor * Vec3<T>{exp_exact(s.x), exp_exact(s.y), exp_exact(s.z)};
  });
}

LUXEL_HD ParameterList<6> parameters_of(const luxel_project_gaussians_args& args) { return gaussian_parameters<3>(args); }

template <typename T>
LUXEL_HD void flatten(const luxel_project_gaussians_args&, const GaussianRow<T>&, bool, const WithColour<T, GaussianGradient>& g,
                      T* numbers) {
  flatten_frame(g.mean, g.quat, numbers);
  store3(numbers + 7, g.log_scales);
  numbers[10] = g.opacity_logit;
  store3(numbers + 11, g.dc);
}

struct GaussianStage {
  using Args = luxel_project_gaussians_args;
  template <typename T, template <typename> typename Optics> using Camera = Optics<T>;
  template <typename T> using Row = GaussianRow<T>;
  template <typename T> using Projected = luxel::Projected<T>;
  template <typename T> using Gradient = WithColour<T, GaussianGradient>;
  static constexpr int kSplat = kGaussianRow, kParameters = 6, kNumbers = 14, kChunk = 512, kBlock = 1024;
  static constexpr bool kPoints = false, kLenses = true, kTimestamps = false;
  static constexpr int width(int i) { return i == 1 ? 4 : (i == 3 ? 1 : 3); }
};

}  // namespace luxel
