// project_gaussians on the GPU, forward: a thread per (camera, Gaussian). The backward pass is in project_gaussians_bwd.cu.
#include "kernels/raster/project/project_forward.cuh"

namespace luxel {
namespace {

__global__ void __launch_bounds__(kForwardThreads, kForwardBlocks)
    project_gaussians_fwd_kernel(const __grid_constant__ luxel_project_gaussians_args args) {
  project_forward<Pinhole<float>>(args);
}
__global__ void __launch_bounds__(kForwardThreads, kForwardLensBlocks)
    project_gaussians_fwd_lens_kernel(const __grid_constant__ luxel_project_gaussians_args args) {
  project_forward<LensCamera<float>>(args);
}
__global__ void __launch_bounds__(kForwardThreads, kForwardBlocks)
    project_gaussians_fwd_rolling_kernel(const __grid_constant__ luxel_project_gaussians_args args) {
  project_forward<RollingPinhole<float>>(args);
}
__global__ void __launch_bounds__(kForwardThreads, kForwardLensBlocks)
    project_gaussians_fwd_rolling_lens_kernel(const __grid_constant__ luxel_project_gaussians_args args) {
  project_forward<RollingLens<float>>(args);
}

}  // namespace
}  // namespace luxel

extern "C" {

int luxel_project_gaussians_fwd(const luxel_project_gaussians_args* args) {
  if (args->dtype != 0) return luxel::fail("the GPU kernels take float32");
  if (!luxel::aligned(args->splats)) return luxel::fail("project_gaussians: splats must be aligned to 16 bytes");
  LUXEL_CUDA(cudaSetDevice(args->device));
  using namespace luxel;
  const auto global = args->lens ? project_gaussians_fwd_lens_kernel : project_gaussians_fwd_kernel;
  const auto rolling = args->lens ? project_gaussians_fwd_rolling_lens_kernel : project_gaussians_fwd_rolling_kernel;
  return launch_forward("project_gaussians_fwd", args->shutters ? rolling : global, *args);
}
}
