// One Gaussian of the stage project_gaussians, for one camera (forward) or all of them (backward).
// The CPU loop and the CUDA kernel around these are in the .cpp and .cu of the same name.
#pragma once

#include "../abi.h"
#include "../math/gaussian.h"
#include "../math/splat.h"

namespace luxel {

template <typename T> LUXEL_HD const T* in(const void* p) { return static_cast<const T*>(p); }
template <typename T> LUXEL_HD T* out(void* p) { return static_cast<T*>(p); }

LUXEL_HD int tiles_along(int pixels) { return (pixels + LUXEL_TILE - 1) / LUXEL_TILE; }
LUXEL_HD int value_channels(const luxel_project_gaussians_args& args) {
  return 3 + (args.with_depth ? 1 : 0) + (args.with_normals ? 3 : 0);
}

template <typename T> LUXEL_HD Pinhole<T> load_camera(const luxel_project_gaussians_args& args, int camera) {
  return load_pinhole(in<T>(args.world_to_cam) + 16 * camera, in<T>(args.intrinsics) + 4 * camera, args.width,
                      args.height, args.near_plane, args.far_plane);
}

// Unclamped colour of Gaussian n seen along the unit direction; basis is left filled for the vjp.
template <typename T>
LUXEL_HD Vec3<T> sh_colour(const luxel_project_gaussians_args& args, int64_t n, Vec3<T> direction, T* basis) {
  const int terms = smaller((args.sh_degree + 1) * (args.sh_degree + 1) - 1, args.sh_stride);
  Vec3<T> rgb = sh_c0<T>() * load3(in<T>(args.sh_dc) + 3 * n) + Vec3<T>{T(0.5), T(0.5), T(0.5)};
  if (terms == 0) return rgb;
  sh_basis(args.sh_degree, direction, basis);
  const T* rest = in<T>(args.sh_rest) + 3 * n * args.sh_stride;
LUXEL_UNROLL
  for (int k = 0; k < 15; ++k)
    if (k < terms) rgb = rgb + basis[k] * load3(rest + 3 * k);
  return rgb;
}

// Projects Gaussian n into `camera`, writes its splat and values, and returns the number of tiles it touches.
template <typename T>
LUXEL_HD int project_one(const luxel_project_gaussians_args& args, const Pinhole<T>& cam, int camera, int64_t n) {
  const ProjectionOptions<T> options = {T(args.dilation), args.antialiased != 0};
  const Vec3<T> mean = load3(in<T>(args.means) + 3 * n);
  GaussianProjection<T> p;
  Splat<T> s;
  if (!project_gaussian(cam, options, mean, in<T>(args.quats) + 4 * n, load3(in<T>(args.log_scales) + 3 * n),
                        in<T>(args.opacity_logits)[n], p, s))
    return 0;
  const T splat[LUXEL_SPLAT] = {s.x, s.y, s.opacity, s.depth, s.a, s.b, s.c, s.radius};
  int tiles = 0;
  const int tiles_y = tiles_along(args.height);
  for_tile_rows(splat, tiles_along(args.width), tiles_y, 0, tiles_y, [&](int, int first, int end) { tiles += end - first; });
  if (tiles == 0) return 0;

  const Vec3<T> position = T(-1) * mul_transposed(cam.rotation, cam.translation);
  T inverse_length, basis[15] = {};
  const Vec3<T> direction = normalized(mean - position, inverse_length);
  const Vec3<T> rgb = sh_colour(args, n, direction, basis);
  if (!finite(rgb.x + rgb.y + rgb.z)) return 0;

  const int64_t index = static_cast<int64_t>(camera) * args.count + n;
  T* splat_out = out<T>(args.splats) + LUXEL_SPLAT * index;
  for (int i = 0; i < LUXEL_SPLAT; ++i) splat_out[i] = splat[i];
  T* value = out<T>(args.values) + value_channels(args) * index;
  store3(value, Vec3<T>{larger(rgb.x, T(0)), larger(rgb.y, T(0)), larger(rgb.z, T(0))});
  value += 3;
  if (args.with_depth) *value++ = s.depth;
  if (args.with_normals) {
    int axis;
    T sign;
    store3(value, gaussian_normal(p, mean, position, axis, sign));
  }
  return tiles;
}


// Adds the gradients of Gaussian n through one camera; returns those of the camera. Does nothing where culled.
// g_rest receives (adds) the gradient of sh_rest, [sh_stride,3].
template <typename T>
LUXEL_HD void project_one_vjp(const luxel_project_gaussians_args& args, const Pinhole<T>& cam, int camera, int64_t n,
                              GaussianGradient<T>& total, Vec3<T>& g_dc, T* g_rest, T* statistics) {
  const int64_t index = static_cast<int64_t>(camera) * args.count + n;
  const ProjectionOptions<T> options = {T(args.dilation), args.antialiased != 0};
  const Vec3<T> mean = load3(in<T>(args.means) + 3 * n);
  GaussianProjection<T> p;
  Splat<T> s;
  if (!project_gaussian(cam, options, mean, in<T>(args.quats) + 4 * n, load3(in<T>(args.log_scales) + 3 * n),
                        in<T>(args.opacity_logits)[n], p, s))
    return;
  const T* gs = in<T>(args.g_splats) + LUXEL_SPLAT * index;
  const T* g_value = in<T>(args.g_values) + value_channels(args) * index;
  const Splat<T> g = {gs[0], gs[1], gs[2], T(0), gs[4], gs[5], gs[6], T(0)};

  if (statistics != nullptr) {
    const T half_w = T(0.5) * cam.width, half_h = T(0.5) * cam.height;
    statistics[0] += root(square(g.x * half_w) + square(g.y * half_h));
    statistics[1] += root(square(gs[3] * half_w) + square(gs[7] * half_h));
    statistics[2] += T(1);
    statistics[3] = larger(statistics[3], s.radius / larger(cam.width, cam.height));
  }

  const Vec3<T> position = T(-1) * mul_transposed(cam.rotation, cam.translation);
  T inverse_length, basis[15] = {};
  const Vec3<T> direction = normalized(mean - position, inverse_length);
  const Vec3<T> rgb = sh_colour(args, n, direction, basis);
  const Vec3<T> g_rgb = {rgb.x > T(0) ? g_value[0] : T(0), rgb.y > T(0) ? g_value[1] : T(0),
                         rgb.z > T(0) ? g_value[2] : T(0)};
  g_dc = g_dc + sh_c0<T>() * g_rgb;
  const int terms = smaller((args.sh_degree + 1) * (args.sh_degree + 1) - 1, args.sh_stride);
  Vec3<T> g_position = {T(0), T(0), T(0)};
  if (terms > 0) {
    T g_basis[15] = {};
    const T* rest = in<T>(args.sh_rest) + 3 * n * args.sh_stride;
LUXEL_UNROLL
    for (int k = 0; k < 15; ++k)
      if (k < terms) {
        g_basis[k] = dot(g_rgb, load3(rest + 3 * k));
        g_rest[3 * k] += basis[k] * g_rgb.x;
        g_rest[3 * k + 1] += basis[k] * g_rgb.y;
        g_rest[3 * k + 2] += basis[k] * g_rgb.z;
      }
    const Vec3<T> g_direction = sh_basis_vjp(args.sh_degree, direction, g_basis);
    const Vec3<T> g_mean = normalized_vjp(direction, inverse_length, g_direction);
    total.mean = total.mean + g_mean;
    g_position = T(-1) * g_mean;
  }
  g_value += 3;
  T g_depth = T(0);
  if (args.with_depth) g_depth = *g_value++;
  Mat3<T> g_axes = {{T(0), T(0), T(0)}, {T(0), T(0), T(0)}, {T(0), T(0), T(0)}};
  if (args.with_normals) {
    int axis;
    T sign;
    gaussian_normal(p, mean, position, axis, sign);
    g_axes = gaussian_normal_vjp(axis, sign, load3(g_value));
  }
  GaussianGradient<T> one;
  one.mean = total.mean;
  one.camera_rotation = total.camera_rotation;
  one.camera_translation = total.camera_translation;
  project_gaussian_vjp(cam, options, mean, p, s, g, g_depth, g_axes, one);
  total.mean = one.mean;
  // position = -R^T t
  const Vec3<T> t = cam.translation;
  total.camera_rotation = {one.camera_rotation.r0 - t.x * g_position, one.camera_rotation.r1 - t.y * g_position,
                           one.camera_rotation.r2 - t.z * g_position};
  total.camera_translation = one.camera_translation - mul(cam.rotation, g_position);
  total.quat = {total.quat.w + one.quat.w, total.quat.x + one.quat.x, total.quat.y + one.quat.y, total.quat.z + one.quat.z};
  total.log_scales = total.log_scales + one.log_scales;
  total.opacity_logit += one.opacity_logit;
}

template <typename T>
LUXEL_HD void store_gradient(const luxel_project_gaussians_args& args, int64_t n, const GaussianGradient<T>& g, Vec3<T> g_dc) {
  store3(out<T>(args.g_means) + 3 * n, g.mean);
  T* quat = out<T>(args.g_quats) + 4 * n;
  quat[0] = g.quat.w;
  quat[1] = g.quat.x;
  quat[2] = g.quat.y;
  quat[3] = g.quat.z;
  store3(out<T>(args.g_log_scales) + 3 * n, g.log_scales);
  out<T>(args.g_opacity_logits)[n] = g.opacity_logit;
  store3(out<T>(args.g_sh_dc) + 3 * n, g_dc);
}

}  // namespace luxel
