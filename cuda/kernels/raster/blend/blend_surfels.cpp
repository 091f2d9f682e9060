// blend_surfels on the CPU: the tile rasterizer with the policy of surfels.
#include "math/raster/surfel_policy.h"
#include "kernels/raster/blend/blend.h"

extern "C" {

int64_t luxel_blend_surfels_workspace(const luxel_blend_args* args) {
  return luxel::blend_workspace(*args, luxel::SurfelPolicy<float>::kRow);
}

int luxel_blend_surfels_fwd(const luxel_blend_args* args) { return luxel::blend<luxel::SurfelPolicy>(*args, false); }

int luxel_blend_surfels_bwd(const luxel_blend_args* args) { return luxel::blend<luxel::SurfelPolicy>(*args, true); }
}
