// Shared by the projections of Gaussians and of surfels, whose parameters differ in the number of scales. Args: the argument struct.
#pragma once

#include "kernels/raster/project/projection_stage.h"

namespace luxel {

// Pointers to the parameters of one primitive, in global or shared memory.
template <typename T> struct GaussianRow {
  const T *mean, *quat, *log_scales, *opacity_logit, *sh_dc, *sh_rest;
};
template <int kScales, typename T, typename Args> LUXEL_HD GaussianRow<T> gaussian_row(const Args& args, int64_t n) {
  return {in<T>(args.means) + 3 * n,      in<T>(args.quats) + 4 * n, in<T>(args.log_scales) + kScales * n,
          in<T>(args.opacity_logits) + n, in<T>(args.sh_dc) + 3 * n, in<T>(args.sh_rest) + 3 * n * args.projection.sh_stride};
}

template <int kScales, typename Args> LUXEL_HD ParameterList<6> gaussian_parameters(const Args& args) {
  return {{{args.means, args.g_means, 3, 0},
           {args.quats, args.g_quats, 4, 1},
           {args.log_scales, args.g_log_scales, kScales, 2},
           {args.opacity_logits, args.g_opacity_logits, 1, 3},
           {args.sh_dc, args.g_sh_dc, 3, 4},
           {args.sh_rest, args.g_sh_rest, 3 * args.projection.sh_stride, 5}}};
}

template <typename Args> LUXEL_HD bool gaussian_penalties(const Args& args) {
  return args.opacity_penalty != 0.0f || args.scale_penalty != 0.0f;
}
// Adds the gradient of penalty_factor * (opacity_penalty * opacity + scale_penalty * sum of scales); scales(factor) adds that by the
// log_scales, of a factor of exp(log_scales).
template <typename T, typename Args, typename Scales>
LUXEL_HD void gaussian_penalties_vjp(const Args& args, const GaussianRow<T>& row, T& g_opacity_logit, Scales scales) {
  const T factor = args.penalty_factor ? in<T>(args.penalty_factor)[0] : T(1);
  if (args.opacity_penalty != 0.0f) {
    const T alpha = sigmoid(*row.opacity_logit);
    g_opacity_logit += factor * T(args.opacity_penalty) * alpha * (T(1) - alpha);
  }
  if (args.scale_penalty != 0.0f) scales(factor * T(args.scale_penalty));
}

// The first seven numbers of a gradient's row.
template <typename T> LUXEL_HD void flatten_frame(Vec3<T> g_mean, Quat<T> g_quat, T* numbers) {
  store3(numbers, g_mean);
  numbers[3] = g_quat.w;
  numbers[4] = g_quat.x;
  numbers[5] = g_quat.y;
  numbers[6] = g_quat.z;
}

}  // namespace luxel
