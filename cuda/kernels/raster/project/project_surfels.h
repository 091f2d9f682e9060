// One surfel of the stage project_surfels, for one camera: its geometry, its colour, and the vjp of both. The CPU loops and the
// CUDA kernels around these are in the .cpp and .cu of the same name.
#pragma once

#include "abi/surfels.h"
#include "math/raster/surfel_policy.h"
#include "math/raster/surfel.h"
#include "kernels/raster/project/row_sink.h"
#include "kernels/raster/project/sh_values.h"

namespace luxel {

// Whether the square of the depth is among the values.
LUXEL_HD bool with_square(const luxel_project_surfels_args& args) { return args.with_depth && args.with_normals; }
LUXEL_HD int value_channels(const luxel_project_surfels_args& args) {
  return value_channels(args.with_depth, args.with_normals) + (with_square(args) ? 1 : 0);
}
LUXEL_HD int sh_terms(const luxel_project_surfels_args& args) { return sh_terms(args.sh_degree, args.sh_stride); }

// Pointers to the parameters of one surfel, in global or shared memory.
template <typename T> struct SurfelRow {
  const T *mean, *quat, *log_scales, *opacity_logit, *sh_dc, *sh_rest;
};
template <typename T> LUXEL_HD SurfelRow<T> row_of(const luxel_project_surfels_args& args, int64_t n) {
  return {in<T>(args.means) + 3 * n,          in<T>(args.quats) + 4 * n, in<T>(args.log_scales) + 2 * n,
          in<T>(args.opacity_logits) + n, in<T>(args.sh_dc) + 3 * n, in<T>(args.sh_rest) + 3 * n * args.sh_stride};
}
template <typename T> LUXEL_HD ShView<T> sh_view(const luxel_project_surfels_args& args, const SurfelRow<T>& row) {
  return {row.sh_dc, row.sh_rest, args.sh_stride, args.sh_degree};
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
};

// The number of tiles that a surfel touches; 0 if it is not visible.
template <typename T>
LUXEL_HD int project_geometry(const luxel_project_surfels_args& args, const Pinhole<T>& cam, const SurfelRow<T>& row,
                              ProjectedSurfel<T>& projected) {
  projected.mean = load3(row.mean);
  SurfelProjection<T> p;
  SurfelSplat<T>& s = projected.splat;
  if (!project_surfel(cam, projected.mean, row.quat, row.log_scales, *row.opacity_logit, p, s)) return 0;
  if (args.with_normals) {
    T sign;
    projected.normal = surfel_normal(p, projected.mean, camera_position(cam), sign);
  }
  alignas(16) T splat[kSurfelRow];
  store_row(splat, s);
  const SurfelBounds<T> bounds = SurfelBounds<T>::of(splat);
  if (!bounds.usable()) return 0;
  if (!(bounds.right() > T(0) && bounds.left() < cam.width && bounds.bottom() > T(0) && bounds.top() < cam.height)) return 0;
  int tiles = 0;
  const int tiles_y = tiles_along(args.height);
  for_tile_rows(bounds, tiles_along(args.width), tiles_y, 0, tiles_y, [&](int, int first, int end) { tiles += end - first; });
  return tiles;
}

// Writes splat and values of a surfel that touches tiles. Returns false and writes nothing if its colour is not finite.
template <typename T>
LUXEL_HD bool store_splat(const luxel_project_surfels_args& args, const Pinhole<T>& cam, int camera, int64_t n,
                          const SurfelRow<T>& row, const ProjectedSurfel<T>& projected) {
  const Vec3<T> rgb = seen_colour(sh_view(args, row), cam, projected.mean);
  if (!finite(rgb.x + rgb.y + rgb.z)) return false;
  const int64_t index = static_cast<int64_t>(camera) * args.count + n;
  const T depth = projected.splat.depth;
  store_row(out<T>(args.splats) + kSurfelRow * index, projected.splat);
  T* value = out<T>(args.values) + value_channels(args) * index;
  store_values(value, rgb, args.with_depth, depth, 0, {});
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
LUXEL_HD void project_one_vjp(const luxel_project_surfels_args& args, const Pinhole<T>& cam, const SurfelRow<T>& row,
                              const T* g_splat, const T* g_value, SurfelGradient<T>& total, Vec3<T>& g_dc, T* g_rest,
                              T* statistics) {
  const Vec3<T> mean = load3(row.mean);
  SurfelProjection<T> p;
  SurfelSplat<T> s;
  const bool visible = project_surfel(cam, mean, row.quat, row.log_scales, *row.opacity_logit, p, s);
  const Vec3<T> g_seen = seen_colour_vjp<kAdd>(sh_view(args, row), cam, mean, g_value, g_dc, g_rest);
  if (!visible) return;  // does not happen: it was visible in the forward pass
  T gs[kSurfelRow];
LUXEL_UNROLL
  for (int k = 0; k < kSurfelRow; k += 4) load4(g_splat + k, gs + k);
  if (statistics != nullptr) add_statistics(cam, s, gs, statistics);
  const SurfelSplat<T> g = {gs[0], gs[1], gs[2], T(0), gs[4], gs[5], gs[6], T(0), gs[8], gs[9], T(0), T(0)};
  T g_depth = args.with_depth ? g_value[3] : T(0);
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

// Adds the gradient of penalty_factor * (opacity_penalty * opacity + scale_penalty * sum of scales).
template <typename T>
LUXEL_HD void penalties_vjp(const luxel_project_surfels_args& args, const SurfelRow<T>& row, SurfelGradient<T>& g) {
  const T factor = args.penalty_factor ? in<T>(args.penalty_factor)[0] : T(1);
  if (args.opacity_penalty != 0.0f) {
    const T alpha = sigmoid(*row.opacity_logit);
    g.opacity_logit += factor * T(args.opacity_penalty) * alpha * (T(1) - alpha);
  }
  if (args.scale_penalty != 0.0f) {
    g.log_scale_u += factor * T(args.scale_penalty) * exp_exact(row.log_scales[0]);
    g.log_scale_v += factor * T(args.scale_penalty) * exp_exact(row.log_scales[1]);
  }
}

// The six parameters as rows of numbers.
constexpr int kSurfelParameters = 6;
template <typename T> ParameterRows<T, kSurfelParameters> parameter_rows(const luxel_project_surfels_args& args) {
  const Parameter parameters[kSurfelParameters] = {
      {args.means, args.g_means, 3, 0},
      {args.quats, args.g_quats, 4, 1},
      {args.log_scales, args.g_log_scales, 2, 2},
      {args.opacity_logits, args.g_opacity_logits, 1, 3},
      {args.sh_dc, args.g_sh_dc, 3, 4},
      {args.sh_rest, args.g_sh_rest, 3 * args.sh_stride, 5}};
  return rows_of<T>(args, parameters);
}
// A surfel's gradient in the order of these rows, without sh_rest: 13 numbers.
constexpr int kSurfelNumbers = 13;
template <typename T> LUXEL_HD void flatten(const SurfelGradient<T>& g, Vec3<T> g_dc, T* row) {
  store3(row, g.mean);
  row[3] = g.quat.w;
  row[4] = g.quat.x;
  row[5] = g.quat.y;
  row[6] = g.quat.z;
  row[7] = g.log_scale_u;
  row[8] = g.log_scale_v;
  row[9] = g.opacity_logit;
  store3(row + 10, g_dc);
}

}  // namespace luxel
