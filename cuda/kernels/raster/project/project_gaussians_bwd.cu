// project_gaussians on the GPU, backward.
#include "kernels/raster/project/project_gaussians.h"

#include "kernels/raster/project/backward/project_backward.cuh"

namespace luxel {
namespace {

// 5 blocks are the fastest of 4, 5, 6. Sigma points take more registers.
struct Tunables {
  static constexpr int threads(bool) { return 128; }
  template <typename Camera> static constexpr int blocks(bool general) { return kHasLens<Camera, float> ? 3 : (general ? 4 : 5); }
  template <bool kGeneral> using Inputs = WarpInputs<GaussianStage, kGeneral>;
};

}  // namespace
}  // namespace luxel

extern "C" int luxel_project_gaussians_bwd(const luxel_project_gaussians_args* args) {
  if (args->dtype != 0) return luxel::fail("the GPU kernels take float32");
  if (!luxel::aligned(args->projection.g_splats) || !luxel::aligned(args->projection.statistics))
    return luxel::fail("project_gaussians: g_splats and statistics must be aligned to 16 bytes");
  LUXEL_CUDA(cudaSetDevice(args->device));
  return luxel::project_backward<luxel::GaussianStage, luxel::Tunables>("project_gaussians_bwd", *args);
}
