// One Gaussian of the stage project_gaussians4d, for one camera and its time: slice, geometry, colour, and the vjp of all.
// The loops around these are in forward/ and backward/.
#pragma once

#include "math/raster/gaussian4d.h"
#include "kernels/raster/project/project_gaussians.h"

namespace luxel {

LUXEL_HD int value_channels(const luxel_project_gaussians4d_args& args) {
  return value_channels(args.projection.with_depth, args.with_normals);
}

// A camera with a timestamp; T: its numbers, Base: Pinhole<T> or LensCamera<T>.
template <typename T, template <typename> typename Base> struct Timed : Base<T> {
  T timestamp;
};
template <typename T, template <typename> typename Base>
LUXEL_HD Timed<T, Base> load_camera(const luxel_project_gaussians4d_args& args, int camera, CameraType<Timed<T, Base>>) {
  return {load_camera(args, camera, CameraType<Base<T>>()), in<T>(args.timestamps)[camera]};
}

// Pointers to the parameters of one Gaussian, in global or shared memory.
template <typename T> struct Gaussian4dRow {
  const T *mean, *time, *log_scales, *log_scale_t, *rotor, *opacity_logit, *sh_dc, *sh_rest;
};
template <typename T> LUXEL_HD Gaussian4dRow<T> row_of(const luxel_project_gaussians4d_args& args, int64_t n) {
  return {in<T>(args.means) + 3 * n,  in<T>(args.times) + n,          in<T>(args.log_scales) + 3 * n,
          in<T>(args.log_scale_t) + n, in<T>(args.rotors) + 8 * n,     in<T>(args.opacity_logits) + n,
          in<T>(args.sh_dc) + 3 * n,  in<T>(args.sh_rest) + 3 * n * args.projection.sh_stride};
}

template <typename T, typename Camera>
LUXEL_HD bool load_projection(const luxel_project_gaussians4d_args& args, const Camera& cam, const Gaussian4dRow<T>& row,
                              Gaussian4dProjection<T>& p, Splat<T>& s) {
  const ProjectionOptions<T> options = {T(args.dilation), args.antialiased != 0};
  return project_gaussian4d(cam, options, cam.timestamp, row.mean, *row.time, row.log_scales, *row.log_scale_t, row.rotor,
                            *row.opacity_logit, p, s);
}

// False if the Gaussian is not visible.
template <typename T, typename Camera>
LUXEL_HD bool project_geometry(const luxel_project_gaussians4d_args& args, const Camera& cam, const Gaussian4dRow<T>& row,
                               Projected<T>& projected) {
  Gaussian4dProjection<T> p;
  if (!load_projection(args, cam, row, p, projected.splat)) return false;
  projected.mean = p.mean;
  if (args.with_normals) {
    const Vec3<T> n = shortest_axis(p.root);
    projected.normal = (dot(n, camera_position(cam) - p.mean) < T(0) ? T(-1) : T(1)) * n;
  }
  return true;
}

// Gradients of one Gaussian summed over views; those by pose and timestamp are of the current view only.
template <typename T> struct Gaussian4dTotal {
  Gaussian4dGradient<T> parameters;
  Vec3<T> dc;
  PoseGradient<T> pose;
  T timestamp;
};

// Adds the gradients of a Gaussian through one camera in which it is visible, given those by its splat and values; g_rest and kAdd
// as in seen_colour_vjp.
template <bool kAdd, typename T, typename Camera>
LUXEL_HD void project_one_vjp(const luxel_project_gaussians4d_args& args, const Camera& cam, const Gaussian4dRow<T>& row,
                              const T* g_splat, const T* g_value, Gaussian4dTotal<T>& total, T* g_rest, T* statistics) {
  Gaussian4dProjection<T> p;
  Splat<T> s;
  if (!load_projection(args, cam, row, p, s)) return;  // does not happen: it was visible in the forward pass
  const Vec3<T> g_seen = seen_colour_vjp<kAdd>(sh_view(args, row), cam, p.mean, g_value, total.dc, g_rest);
  T gs[kGaussianRow];
  load4(g_splat, gs);
  load4(g_splat + 4, gs + 4);
  const Splat<T> g = {gs[0], gs[1], gs[2], T(0), gs[4], gs[5], gs[6], T(0)};
  const ProjectionOptions<T> options = {T(args.dilation), args.antialiased != 0};
  const T g_timestamp = project_gaussian4d_vjp(cam, options, p, s, g, args.projection.with_depth ? g_value[3] : T(0), g_seen,
                                            total.parameters, total.pose);
  total.pose.add_seen(cam, g_seen);
  total.timestamp += g_timestamp;
  if (statistics != nullptr)
    add_statistics(cam, s, screen_norm(cam, g.x, g.y), g_timestamp < T(0) ? -g_timestamp : g_timestamp, statistics);
}

LUXEL_HD bool has_penalties(const luxel_project_gaussians4d_args&) { return false; }
template <typename T>
LUXEL_HD void penalties_vjp(const luxel_project_gaussians4d_args&, const Gaussian4dRow<T>&, Gaussian4dTotal<T>&) {}

LUXEL_HD ParameterList<8> parameters_of(const luxel_project_gaussians4d_args& args) {
  return {{{args.means, args.g_means, 3, 0},
           {args.times, args.g_times, 1, 1},
           {args.log_scales, args.g_log_scales, 3, 2},
           {args.log_scale_t, args.g_log_scale_t, 1, 3},
           {args.rotors, args.g_rotors, 8, 4},
           {args.opacity_logits, args.g_opacity_logits, 1, 5},
           {args.sh_dc, args.g_sh_dc, 3, 6},
           {args.sh_rest, args.g_sh_rest, 3 * args.projection.sh_stride, 7}}};
}

template <typename T>
LUXEL_HD void flatten(const luxel_project_gaussians4d_args&, const Gaussian4dRow<T>& row, bool seen, const Gaussian4dTotal<T>& total,
                      T* numbers) {
  if (!seen) return;
  const Quat<T> scales = scales4d(load3(row.log_scales), *row.log_scale_t);
  const Quat<T> g_log_scales = shape_vjp(row.rotor, scales, total.parameters, numbers + 8);
  store3(numbers, total.parameters.mean);
  numbers[3] = total.parameters.time;
  store3(numbers + 4, Vec3<T>{g_log_scales.x, g_log_scales.y, g_log_scales.z});
  numbers[7] = g_log_scales.w;
  numbers[16] = total.parameters.opacity_logit;
  store3(numbers + 17, total.dc);
}

struct Gaussian4dStage {
  using Args = luxel_project_gaussians4d_args;
  template <typename T, template <typename> typename Optics> using Camera = Timed<T, Optics>;
  template <typename T> using Row = Gaussian4dRow<T>;
  template <typename T> using Projected = luxel::Projected<T>;
  template <typename T> using Gradient = Gaussian4dTotal<T>;
  static constexpr int kSplat = kGaussianRow, kParameters = 8, kNumbers = 20, kChunk = 512, kBlock = 1024;
  static constexpr bool kPoints = false, kLenses = true, kTimestamps = true;
  static constexpr int width(int i) { return i == 4 ? 8 : (i % 2 == 0 ? 3 : 1); }
};

}  // namespace luxel
