// One pixel of the stage alpha_slope.
#pragma once

#include "abi/train.h"
#include "math/hd.h"

namespace luxel {

LUXEL_HD void slope_of_pixel(const luxel_alpha_slope_args& args, int64_t i) {
  const float off = args.transmittance[i] - (1.0f - args.target[i]);
  const float sign = static_cast<float>(off > 0.0f) - static_cast<float>(off < 0.0f);
  args.g_transmittance[i] = args.weight ? args.scale * sign * args.weight[i] : args.scale * sign;
}

}  // namespace luxel
