// blend_gaussians on the CPU: the tile rasterizer with the Gaussian policy.
#include "blend.h"

extern "C" {

int64_t luxel_blend_gaussians_workspace(const luxel_blend_args* args) { return luxel::blend_workspace(*args); }

int luxel_blend_gaussians_fwd(const luxel_blend_args* args) {
  return args->dtype ? luxel::blend<luxel::GaussianPolicy, double>(*args, false)
                     : luxel::blend<luxel::GaussianPolicy, float>(*args, false);
}

int luxel_blend_gaussians_bwd(const luxel_blend_args* args) {
  if (args->workspace_bytes < luxel_blend_gaussians_workspace(args)) return luxel::fail("workspace too small");
  return args->dtype ? luxel::blend<luxel::GaussianPolicy, double>(*args, true)
                     : luxel::blend<luxel::GaussianPolicy, float>(*args, true);
}
}
