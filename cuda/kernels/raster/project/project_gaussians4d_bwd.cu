// project_gaussians4d on the GPU, backward.
#include "kernels/raster/project/project_gaussians4d.h"

#include "kernels/raster/project/backward/project_backward.cuh"

namespace luxel {
namespace {

// With several views a warp needs more of both registers and shared memory.
struct Tunables {
  static constexpr int threads(bool general) { return general ? 64 : 128; }
  template <typename Camera> static constexpr int blocks(bool general) { return general ? 6 : 4; }
  template <bool kGeneral> using Inputs = WarpInputs<Gaussian4dStage, kGeneral, true>;
};

}  // namespace
}  // namespace luxel

extern "C" int luxel_project_gaussians4d_bwd(const luxel_project_gaussians4d_args* args) {
  if (args->dtype != 0) return luxel::fail("the GPU kernels take float32");
  if (!luxel::aligned(args->projection.g_splats) || !luxel::aligned(args->projection.statistics))
    return luxel::fail("project_gaussians4d: g_splats and statistics must be aligned to 16 bytes");
  LUXEL_CUDA(cudaSetDevice(args->device));
  return luxel::project_backward<luxel::Gaussian4dStage, luxel::Tunables>("project_gaussians4d_bwd", *args);
}
