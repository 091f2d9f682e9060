// blend_gaussians on the CPU: the tile rasterizer with the Gaussian policy.
#include "math/raster/gaussian_policy.h"
#include "kernels/raster/blend/blend.h"

extern "C" {

int64_t luxel_blend_gaussians_workspace(const luxel_blend_args* args) {
  return luxel::blend_workspace(*args, luxel::GaussianPolicy<float>::kRow);
}

int luxel_blend_gaussians_fwd(const luxel_blend_args* args) { return luxel::blend<luxel::GaussianPolicy>(*args, false); }

int luxel_blend_gaussians_bwd(const luxel_blend_args* args) { return luxel::blend<luxel::GaussianPolicy>(*args, true); }
}
