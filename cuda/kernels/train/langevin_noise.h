// One Gaussian of the stage langevin_noise; the loops around it are in the .cpp and .cu of the same name.
#pragma once

#include "abi/train.h"
#include "math/philox.h"
#include "math/quat.h"

namespace luxel {

LUXEL_HD void move_at_random(const luxel_langevin_noise_args& args, int n) {
  const float opacity = 1.0f / (1.0f + std::exp(-args.opacity_logits[n]));
  const float gate = 1.0f / (1.0f + std::exp(100.0f * (opacity - 0.005f)));
  const float size = gate * args.rate[0] * args.strength;
  if (!(size > 0.0f)) return;
  const Random4 random = philox({{static_cast<uint32_t>(n), static_cast<uint32_t>(args.step[0]), 0u, 0u}},
                                static_cast<uint32_t>(args.seed), static_cast<uint32_t>(args.seed >> 32));
  Quat<float> unit;
  float inverse_norm;
  const Mat3<float> axes = quat_to_matrix(args.quats + 4 * static_cast<int64_t>(n), unit, inverse_norm);
  const Vec3<float> noise = normal3(random);
  Vec3<float> local = mul_transposed(axes, noise);
  const float* log_scales = args.log_scales + (args.flat ? 2 : 3) * static_cast<int64_t>(n);
  local = {local.x * std::exp(2.0f * log_scales[0]), local.y * std::exp(2.0f * log_scales[1]),
           args.flat ? 0.0f : local.z * std::exp(2.0f * log_scales[2])};
  const Vec3<float> moved = mul(axes, local);
  float* mean = args.means + 3 * static_cast<int64_t>(n);
  mean[0] += size * moved.x;
  mean[1] += size * moved.y;
  mean[2] += size * moved.z;
}

}  // namespace luxel
