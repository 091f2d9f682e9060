// One disc of the stage project_discs, for one camera: a ball of radius R at depth z is a disc of radius fx R / z.
#pragma once

#include "abi/discs.h"
#include "math/raster/disc_policy.h"
#include "kernels/raster/project/projection_stage.h"
#include "kernels/raster/project/sh_values.h"

namespace luxel {

template <typename T> struct DiscRow {
  const T *mean, *log_radius, *opacity_logit, *sh_dc, *sh_rest;
};
template <typename T> DiscRow<T> row_of(const luxel_project_discs_args& args, int64_t n) {
  return {in<T>(args.means) + 3 * n, in<T>(args.log_radii) + n, in<T>(args.opacity_logits) + n, in<T>(args.sh_dc) + 3 * n,
          in<T>(args.sh_rest) + 3 * n * args.projection.sh_stride};
}
inline int value_channels(const luxel_project_discs_args& args) { return value_channels(args.projection.with_depth, 0); }

template <typename T> struct ProjectedDisc {
  T row[8];
};
template <typename T>
bool project_geometry(const luxel_project_discs_args&, const Pinhole<T>& cam, const DiscRow<T>& row, ProjectedDisc<T>& projected) {
  const Vec3<T> m = mul(cam.rotation, load3(row.mean)) + cam.translation;
  if (!(m.z > cam.near_plane && m.z < cam.far_plane)) return false;
  const T opacity = sigmoid(*row.opacity_logit), scale = T(1) / m.z;
  projected = {{cam.fx * m.x * scale + cam.cx, cam.fy * m.y * scale + cam.cy, opacity, m.z,
                cam.fx * exp_exact(*row.log_radius) * scale}};
  return opacity >= T(kMinAlpha) && finite(projected.row[0] + projected.row[1] + projected.row[4]);
}
template <typename T> int count_tiles(const luxel_project_discs_args& args, const ProjectedDisc<T>& projected) {
  return touched_tiles(DiscBounds<T>::of(projected.row), args.projection);
}
template <typename T>
bool store_splat(const luxel_project_discs_args& args, const Pinhole<T>& cam, int camera, int64_t n, const DiscRow<T>& row,
                 const ProjectedDisc<T>& projected) {
  const Vec3<T> rgb = seen_colour(sh_view(args, row), cam, load3(row.mean));
  if (!finite(rgb.x + rgb.y + rgb.z)) return false;
  const int64_t index = static_cast<int64_t>(camera) * args.projection.count + n;
  for (int k = 0; k < 8; ++k) out<T>(args.projection.splats)[8 * index + k] = projected.row[k];
  store_values(out<T>(args.projection.values) + value_channels(args) * index, rgb, args.projection.with_depth, projected.row[3], 0, {});
  return true;
}

template <typename T> struct DiscGradient {
  Vec3<T> mean, dc;
  T log_radius, opacity_logit;
  PoseGradient<T> pose;
};
template <bool kAdd, typename T>
void project_one_vjp(const luxel_project_discs_args& args, const Pinhole<T>& cam, const DiscRow<T>& row, const T* g, const T* g_value,
                     DiscGradient<T>& total, T* g_rest, T*) {
  const Vec3<T> mean = load3(row.mean), m = mul(cam.rotation, mean) + cam.translation;
  const T opacity = sigmoid(*row.opacity_logit), scale = T(1) / m.z;
  const T radius = cam.fx * exp_exact(*row.log_radius) * scale, g_x = g[0] * cam.fx, g_y = g[1] * cam.fy;
  const T g_z = -scale * (scale * (g_x * m.x + g_y * m.y) + g[4] * radius) + (args.projection.with_depth ? g_value[3] : T(0));
  const Vec3<T> g_camera = {g_x * scale, g_y * scale, g_z};
  const Vec3<T> g_seen = seen_colour_vjp<kAdd>(sh_view(args, row), cam, mean, g_value, total.dc, g_rest);
  total.pose.add_point(g_camera, mean);
  total.pose.add_seen(cam, g_seen);
  total.mean = total.mean + mul_transposed(cam.rotation, g_camera) + g_seen;
  total.log_radius += g[4] * radius;
  total.opacity_logit += g[2] * opacity * (T(1) - opacity);
}
template <typename T> void penalties_vjp(const luxel_project_discs_args&, const DiscRow<T>&, DiscGradient<T>&) {}

inline ParameterList<5> parameters_of(const luxel_project_discs_args& args) {
  return {{{args.means, args.g_means, 3, 0},
           {args.log_radii, args.g_log_radii, 1, 1},
           {args.opacity_logits, args.g_opacity_logits, 1, 2},
           {args.sh_dc, args.g_sh_dc, 3, 3},
           {args.sh_rest, args.g_sh_rest, 3 * args.projection.sh_stride, 4}}};
}
template <typename T>
void flatten(const luxel_project_discs_args&, const DiscRow<T>&, bool, const DiscGradient<T>& total, T* numbers) {
  store3(numbers, total.mean);
  numbers[3] = total.log_radius;
  numbers[4] = total.opacity_logit;
  store3(numbers + 5, total.dc);
}

struct DiscStage {
  using Args = luxel_project_discs_args;
  template <typename T, template <typename> typename Optics> using Camera = Optics<T>;
  template <typename T> using Row = DiscRow<T>;
  template <typename T> using Projected = ProjectedDisc<T>;
  template <typename T> using Gradient = DiscGradient<T>;
  static constexpr int kSplat = 8, kParameters = 5, kNumbers = 8, kChunk = 128, kBlock = 1024;
  static constexpr bool kPoints = false, kLenses = false, kTimestamps = false;
};

}  // namespace luxel
