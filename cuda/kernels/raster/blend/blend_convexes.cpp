// blend_convexes on the CPU: the tile rasterizer with the policy of convexes.
#include "math/raster/convex_policy.h"
#include "kernels/raster/blend/blend.h"

extern "C" {

int64_t luxel_blend_convexes_workspace(const luxel_blend_args* args) {
  return luxel::blend_workspace(*args, luxel::ConvexPolicy<float>::kRow);
}

int luxel_blend_convexes_fwd(const luxel_blend_args* args) { return luxel::blend<luxel::ConvexPolicy>(*args, false); }

int luxel_blend_convexes_bwd(const luxel_blend_args* args) { return luxel::blend<luxel::ConvexPolicy>(*args, true); }
}
