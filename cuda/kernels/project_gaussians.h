// One Gaussian of the stage project_gaussians, for one camera: its geometry, its colour, and the vjp of both.
// The CPU loops and the CUDA kernels around these are in the .cpp and .cu of the same name (backward: _bwd.cu).
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
// Coefficients above degree 0 that are evaluated.
LUXEL_HD int sh_terms(const luxel_project_gaussians_args& args) {
  return smaller((args.sh_degree + 1) * (args.sh_degree + 1) - 1, args.sh_stride);
}

template <typename T> LUXEL_HD Pinhole<T> load_camera(const luxel_project_gaussians_args& args, int camera) {
  return load_pinhole(in<T>(args.world_to_cam) + 16 * camera, in<T>(args.intrinsics) + 4 * camera, args.width,
                      args.height, args.near_plane, args.far_plane);
}
template <typename T> LUXEL_HD Vec3<T> camera_position(const Pinhole<T>& cam) {
  return T(-1) * mul_transposed(cam.rotation, cam.translation);
}

template <typename T>
LUXEL_HD bool load_projection(const luxel_project_gaussians_args& args, const Pinhole<T>& cam, int64_t n, Vec3<T> mean,
                              GaussianProjection<T>& p, Splat<T>& s) {
  const ProjectionOptions<T> options = {T(args.dilation), args.antialiased != 0};
  return project_gaussian(cam, options, mean, in<T>(args.quats) + 4 * n, load3(in<T>(args.log_scales) + 3 * n),
                          in<T>(args.opacity_logits)[n], p, s);
}

// Projects Gaussian n and returns the number of tiles its splat touches; where that is 0 nothing else is filled.
// normal is filled with_normals only.
template <typename T>
LUXEL_HD int project_geometry(const luxel_project_gaussians_args& args, const Pinhole<T>& cam, int64_t n, Vec3<T>& mean,
                              Splat<T>& s, Vec3<T>& normal) {
  mean = load3(in<T>(args.means) + 3 * n);
  if (!in_depth_range(cam, mean)) return 0;  // before anything else is loaded: half of a large scene ends here
  GaussianProjection<T> p;
  if (!load_projection(args, cam, n, mean, p, s)) return 0;
  const T splat[LUXEL_SPLAT] = {s.x, s.y, s.opacity, s.depth, s.a, s.b, s.c, s.radius};
  int tiles = 0;
  const int tiles_y = tiles_along(args.height);
  for_tile_rows(splat, tiles_along(args.width), tiles_y, 0, tiles_y, [&](int, int first, int end) { tiles += end - first; });
  if (tiles > 0 && args.with_normals) {
    int axis;
    T sign;
    normal = gaussian_normal(p, mean, camera_position(cam), axis, sign);
  }
  return tiles;
}

// Unclamped colour of Gaussian n seen along the unit direction; basis is left filled for the vjp.
// rest: its row of sh_rest, wherever that is at hand.
template <typename T>
LUXEL_HD Vec3<T> sh_colour(const luxel_project_gaussians_args& args, int64_t n, Vec3<T> direction, const T* rest, T* basis) {
  const int terms = sh_terms(args);
  Vec3<T> rgb = sh_c0<T>() * load3(in<T>(args.sh_dc) + 3 * n) + Vec3<T>{T(0.5), T(0.5), T(0.5)};
  if (terms == 0) return rgb;
  sh_basis(args.sh_degree, direction, basis);
LUXEL_UNROLL
  for (int k = 0; k < 15; ++k)
    if (k < terms) rgb = rgb + basis[k] * load3(rest + 3 * k);
  return rgb;
}

// Writes splat and values of a Gaussian that touches tiles; false, and nothing written, where its colour is not finite.
template <typename T>
LUXEL_HD bool store_splat(const luxel_project_gaussians_args& args, const Pinhole<T>& cam, int camera, int64_t n, Vec3<T> mean,
                          const Splat<T>& s, Vec3<T> normal, const T* rest) {
  T inverse_length, basis[15] = {};
  const Vec3<T> direction = normalized(mean - camera_position(cam), inverse_length);
  const Vec3<T> rgb = sh_colour(args, n, direction, rest, basis);
  if (!finite(rgb.x + rgb.y + rgb.z)) return false;

  const int64_t index = static_cast<int64_t>(camera) * args.count + n;
  const T splat[LUXEL_SPLAT] = {s.x, s.y, s.opacity, s.depth, s.a, s.b, s.c, s.radius};
  store4(out<T>(args.splats) + LUXEL_SPLAT * index, splat);
  store4(out<T>(args.splats) + LUXEL_SPLAT * index + 4, splat + 4);
  T* value = out<T>(args.values) + value_channels(args) * index;
  store3(value, Vec3<T>{larger(rgb.x, T(0)), larger(rgb.y, T(0)), larger(rgb.z, T(0))});
  value += 3;
  if (args.with_depth) *value++ = s.depth;
  if (args.with_normals) store3(value, normal);
  return true;
}

// The gradient of a mean through the direction in which its colour is seen. Adds to g_dc; g_rest, the gradient of the row
// `rest`, is added to or (kAdd false) overwritten up to the active terms, and may then be the same memory as rest.
template <bool kAdd, typename T>
LUXEL_HD Vec3<T> colour_vjp(const luxel_project_gaussians_args& args, const Pinhole<T>& cam, int64_t n, Vec3<T> mean,
                            const T* g_value, const T* rest, Vec3<T>& g_dc, T* g_rest) {
  T inverse_length, basis[15] = {};
  const Vec3<T> direction = normalized(mean - camera_position(cam), inverse_length);
  const Vec3<T> rgb = sh_colour(args, n, direction, rest, basis);
  const Vec3<T> g_rgb = {rgb.x > T(0) ? g_value[0] : T(0), rgb.y > T(0) ? g_value[1] : T(0),
                         rgb.z > T(0) ? g_value[2] : T(0)};
  g_dc = g_dc + sh_c0<T>() * g_rgb;
  const int terms = sh_terms(args);
  if (terms == 0) return {T(0), T(0), T(0)};
  T g_basis[15] = {};
LUXEL_UNROLL
  for (int k = 0; k < 15; ++k)
    if (k < terms) {
      g_basis[k] = dot(g_rgb, load3(rest + 3 * k));
      const Vec3<T> g = basis[k] * g_rgb;
      store3(g_rest + 3 * k, kAdd ? load3(g_rest + 3 * k) + g : g);
    }
  return normalized_vjp(direction, inverse_length, sh_basis_vjp(args.sh_degree, direction, g_basis));
}

// Adds the gradients of Gaussian n through one camera that sees it; rest, g_rest and kAdd as above.
template <bool kAdd, typename T>
LUXEL_HD void project_one_vjp(const luxel_project_gaussians_args& args, const Pinhole<T>& cam, int camera, int64_t n,
                              const T* rest, GaussianGradient<T>& total, Vec3<T>& g_dc, T* g_rest, T* statistics) {
  const int64_t index = static_cast<int64_t>(camera) * args.count + n;
  const T* g_value = in<T>(args.g_values) + value_channels(args) * index;
  const Vec3<T> mean = load3(in<T>(args.means) + 3 * n);
  const Vec3<T> g_seen = colour_vjp<kAdd>(args, cam, n, mean, g_value, rest, g_dc, g_rest);
  total.mean = total.mean + g_seen;

  GaussianProjection<T> p;
  Splat<T> s;
  if (!load_projection(args, cam, n, mean, p, s)) return;  // cannot be: the forward pass saw it
  T gs[LUXEL_SPLAT];
  load4(in<T>(args.g_splats) + LUXEL_SPLAT * index, gs);
  load4(in<T>(args.g_splats) + LUXEL_SPLAT * index + 4, gs + 4);
  const Splat<T> g = {gs[0], gs[1], gs[2], T(0), gs[4], gs[5], gs[6], T(0)};

  if (statistics != nullptr) {
    const T half_w = T(0.5) * cam.width, half_h = T(0.5) * cam.height;
    T row[4];
    load4(statistics, row);
    row[0] += root(square(g.x * half_w) + square(g.y * half_h));
    row[1] += root(square(gs[3] * half_w) + square(gs[7] * half_h));
    row[2] += T(1);
    row[3] = larger(row[3], s.radius / larger(cam.width, cam.height));
    store4(statistics, row);
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
  one.camera_rotation = total.camera_rotation;
  one.camera_translation = total.camera_translation;
  project_gaussian_vjp(cam, options, mean, p, s, g, g_depth, g_axes, one);
  total.mean = one.mean;
  // position = -R^T t moves against the mean
  const Vec3<T> t = cam.translation;
  total.camera_rotation = {one.camera_rotation.r0 + t.x * g_seen, one.camera_rotation.r1 + t.y * g_seen,
                           one.camera_rotation.r2 + t.z * g_seen};
  total.camera_translation = one.camera_translation + mul(cam.rotation, g_seen);
  total.quat = {total.quat.w + one.quat.w, total.quat.x + one.quat.x, total.quat.y + one.quat.y, total.quat.z + one.quat.z};
  total.log_scales = total.log_scales + one.log_scales;
  total.opacity_logit += one.opacity_logit;
}

// Adds the gradient of opacity_penalty * opacity + scale_penalty * (sum of scales).
template <typename T>
LUXEL_HD void penalties_vjp(const luxel_project_gaussians_args& args, int64_t n, GaussianGradient<T>& g) {
  if (args.opacity_penalty != 0.0f) {
    const T alpha = sigmoid(in<T>(args.opacity_logits)[n]);
    g.opacity_logit += T(args.opacity_penalty) * alpha * (T(1) - alpha);
  }
  if (args.scale_penalty != 0.0f) {
    const Vec3<T> s = load3(in<T>(args.log_scales) + 3 * n);
    g.log_scales = g.log_scales + T(args.scale_penalty) * Vec3<T>{exp_exact(s.x), exp_exact(s.y), exp_exact(s.z)};
  }
}

// The six parameters as rows of numbers: what the backward pass writes, gradients or, with Adam, the parameters.
template <typename T> struct ParameterRows {
  T *target[6], *exp_avg[6], *exp_avg_sq[6];  // moments: with Adam only
  int width[6];                               // numbers of a row
  int active[6];                              // of these, the first ones that Adam moves
};
template <typename T> ParameterRows<T> parameter_rows(const luxel_project_gaussians_args& args) {
  const bool adam = args.adam_schedule != nullptr;
  const int rest = 3 * args.sh_stride;
  return {{out<T>(adam ? const_cast<void*>(args.means) : args.g_means),
           out<T>(adam ? const_cast<void*>(args.quats) : args.g_quats),
           out<T>(adam ? const_cast<void*>(args.log_scales) : args.g_log_scales),
           out<T>(adam ? const_cast<void*>(args.opacity_logits) : args.g_opacity_logits),
           out<T>(adam ? const_cast<void*>(args.sh_dc) : args.g_sh_dc),
           out<T>(adam ? const_cast<void*>(args.sh_rest) : args.g_sh_rest)},
          {out<T>(args.m_means), out<T>(args.m_quats), out<T>(args.m_log_scales), out<T>(args.m_opacity_logits),
           out<T>(args.m_sh_dc), out<T>(args.m_sh_rest)},
          {out<T>(args.v_means), out<T>(args.v_quats), out<T>(args.v_log_scales), out<T>(args.v_opacity_logits),
           out<T>(args.v_sh_dc), out<T>(args.v_sh_rest)},
          {3, 4, 3, 1, 3, rest},
          {3, 4, 3, 1, 3, args.adam_active_sh_only ? 3 * sh_terms(args) : rest}};
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
