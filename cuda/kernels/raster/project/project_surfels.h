// One surfel of the stage project_surfels, for one camera: its geometry, its colour, and the vjp of both. The loops around these are
// in forward/ and backward/.
#pragma once

#include "abi/surfels.h"
#include "math/raster/surfel_policy.h"
#include "math/raster/surfel.h"
#include "kernels/raster/project/gaussian_row.h"
#include "kernels/raster/project/sh_values.h"

namespace luxel {

// Whether the square of the depth is among the values.
LUXEL_HD bool with_square(const luxel_project_surfels_args& args) { return args.projection.with_depth && args.with_normals; }
LUXEL_HD int value_channels(const luxel_project_surfels_args& args) {
  return value_channels(args.projection.with_depth, args.with_normals) + (with_square(args) ? 1 : 0);
}
template <typename T> LUXEL_HD GaussianRow<T> row_of(const luxel_project_surfels_args& args, int64_t n) {
  return gaussian_row<2, T>(args, n);
}

template <typename T> LUXEL_HD void store_row(T* row, const SurfelSplat<T>& s) {
  const T splat[kSurfelRow] = {s.x, s.y, s.opacity, s.depth, s.a, s.b, s.c, s.inverse_conic, s.g_x, s.g_y, s.h_x, s.h_y};
LUXEL_UNROLL
  for (int k = 0; k < kSurfelRow; k += 4) store4(row + k, splat + k);
}

// Geometry of a projected surfel, input of store_splat().
template <typename T> struct ProjectedSurfel {
  Vec3<T> mean, normal;  // normal: with_normals only
  SurfelSplat<T> splat;
  int tiles;
};

// False if the surfel is not visible.
template <typename T>
LUXEL_HD bool project_geometry(const luxel_project_surfels_args& args, const Pinhole<T>& cam, const GaussianRow<T>& row,
                              ProjectedSurfel<T>& projected) {
  projected.mean = load3(row.mean);
  SurfelProjection<T> p;
  SurfelSplat<T>& s = projected.splat;
  if (!project_surfel(cam, projected.mean, row.quat, row.log_scales, *row.opacity_logit, p, s)) return false;
  if (args.with_normals) {
    T sign;
    projected.normal = surfel_normal(p, projected.mean, camera_position(cam), sign);
  }
  alignas(16) T splat[kSurfelRow];
  store_row(splat, s);
  const SurfelBounds<T> bounds = SurfelBounds<T>::of(splat);
  if (!bounds.usable()) return false;
  if (!(bounds.right() > T(0) && bounds.left() < cam.width && bounds.bottom() > T(0) && bounds.top() < cam.height)) return false;
  projected.tiles = touched_tiles(bounds, args.projection);
  return projected.tiles > 0;
}
template <typename T> LUXEL_HD int count_tiles(const luxel_project_surfels_args&, const ProjectedSurfel<T>& projected) {
  return projected.tiles;
}

// Writes splat and values of a surfel that touches tiles. Returns false and writes nothing if its colour is not finite.
template <typename T>
LUXEL_HD bool store_splat(const luxel_project_surfels_args& args, const Pinhole<T>& cam, int camera, int64_t n,
                          const GaussianRow<T>& row, const ProjectedSurfel<T>& projected) {
  const Vec3<T> rgb = seen_colour(sh_view(args, row), cam, projected.mean);
  if (!finite(rgb.x + rgb.y + rgb.z)) return false;
  const int64_t index = static_cast<int64_t>(camera) * args.projection.count + n;
  const T depth = projected.splat.depth;
  store_row(out<T>(args.projection.splats) + kSurfelRow * index, projected.splat);
  T* value = out<T>(args.projection.values) + value_channels(args) * index;
  store_values(value, rgb, args.projection.with_depth, depth, 0, {});
  if (with_square(args)) value[4] = depth * depth;
  if (args.with_normals) store3(value + value_channels(args) - 3, projected.normal);
  return true;
}

// Adds a view to the statistics [4] of a surfel, see project_gaussians.
template <typename T>
LUXEL_HD void add_statistics(const Pinhole<T>& cam, const SurfelSplat<T>& s, const T* g_splat, T* statistics) {
  const T half_x = T(0.5) * cam.width, half_y = T(0.5) * cam.height;
  alignas(16) T row[4], splat[kSurfelRow];
  store_row(splat, s);
  const SurfelBounds<T> bounds = SurfelBounds<T>::of(splat);
  load4(statistics, row);
  row[0] += root(square(g_splat[0] * half_x) + square(g_splat[1] * half_y));
  row[1] += root(square(g_splat[3] * half_x) + square(g_splat[7] * half_y));
  row[2] += T(1);
  row[3] = larger(row[3], larger(bounds.extent_x, bounds.extent_y) / larger(cam.width, cam.height));
  store4(statistics, row);
}

// Adds the gradients of a surfel through one camera in which it is visible, given those by its splat and values; g_rest and kAdd
// as in seen_colour_vjp.
template <bool kAdd, typename T>
LUXEL_HD void project_one_vjp(const luxel_project_surfels_args& args, const Pinhole<T>& cam, const GaussianRow<T>& row,
                              const T* g_splat, const T* g_value, WithColour<T, SurfelGradient>& total, T* g_rest, T* statistics) {
  const Vec3<T> mean = load3(row.mean);
  SurfelProjection<T> p;
  SurfelSplat<T> s;
  const bool visible = project_surfel(cam, mean, row.quat, row.log_scales, *row.opacity_logit, p, s);
  const Vec3<T> g_seen = seen_colour_vjp<kAdd>(sh_view(args, row), cam, mean, g_value, total.dc, g_rest);
  if (!visible) return;  // does not happen: it was visible in the forward pass
  T gs[kSurfelRow];
LUXEL_UNROLL
  for (int k = 0; k < kSurfelRow; k += 4) load4(g_splat + k, gs + k);
  if (statistics != nullptr) add_statistics(cam, s, gs, statistics);
  const SurfelSplat<T> g = {gs[0], gs[1], gs[2], T(0), gs[4], gs[5], gs[6], T(0), gs[8], gs[9], T(0), T(0)};
  T g_depth = args.projection.with_depth ? g_value[3] : T(0);
  if (with_square(args)) g_depth += 2 * s.depth * g_value[4];
  Vec3<T> g_normal = {T(0), T(0), T(0)};
  if (args.with_normals) {
    T sign;
    surfel_normal(p, mean, camera_position(cam), sign);
    g_normal = sign * load3(g_value + value_channels(args) - 3);
  }
  SurfelGradient<T> one;
  one.mean = total.mean + g_seen;
  one.pose = total.pose;
  project_surfel_vjp(cam, mean, p, s, g, g_depth, g_normal, one);
  total.mean = one.mean;
  one.pose.add_seen(cam, g_seen);
  total.pose = one.pose;
  total.quat = total.quat + one.quat;
  total.log_scale_u += one.log_scale_u;
  total.log_scale_v += one.log_scale_v;
  total.opacity_logit += one.opacity_logit;
}

LUXEL_HD bool has_penalties(const luxel_project_surfels_args& args) { return gaussian_penalties(args); }
template <typename T>
LUXEL_HD void penalties_vjp(const luxel_project_surfels_args& args, const GaussianRow<T>& row, SurfelGradient<T>& g) {
  gaussian_penalties_vjp(args, row, g.opacity_logit, [&](T factor) {
    g.log_scale_u += factor * exp_exact(row.log_scales[0]);
    g.log_scale_v += factor * exp_exact(row.log_scales[1]);
  });
}

LUXEL_HD ParameterList<6> parameters_of(const luxel_project_surfels_args& args) { return gaussian_parameters<2>(args); }

template <typename T>
LUXEL_HD void flatten(const luxel_project_surfels_args&, const GaussianRow<T>&, bool, const WithColour<T, SurfelGradient>& g,
                      T* numbers) {
  flatten_frame(g.mean, g.quat, numbers);
  numbers[7] = g.log_scale_u;
  numbers[8] = g.log_scale_v;
  numbers[9] = g.opacity_logit;
  store3(numbers + 10, g.dc);
}

struct SurfelStage {
  using Args = luxel_project_surfels_args;
  template <typename T, template <typename> typename Optics> using Camera = Optics<T>;
  template <typename T> using Row = GaussianRow<T>;
  template <typename T> using Projected = ProjectedSurfel<T>;
  template <typename T> using Gradient = WithColour<T, SurfelGradient>;
  static constexpr int kSplat = kSurfelRow, kParameters = 6, kNumbers = 13, kChunk = 512, kBlock = 1024;
  static constexpr bool kPoints = false, kLenses = false, kTimestamps = false;
  static constexpr int width(int i) { return i == 1 ? 4 : (i == 2 ? 2 : (i == 3 ? 1 : 3)); }
};

}  // namespace luxel
