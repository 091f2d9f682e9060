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

}  // namespace
}  // namespace luxel

extern "C" {

int luxel_project_gaussians_fwd(const luxel_project_gaussians_args* args) {
  if (args->dtype != 0) return luxel::fail("the GPU kernels take float32");
  if (!luxel::aligned(args->splats)) return luxel::fail("project_gaussians: splats must be aligned to 16 bytes");
  LUXEL_CUDA(cudaSetDevice(args->device));
  const auto kernel = args->lens ? luxel::project_gaussians_fwd_lens_kernel : luxel::project_gaussians_fwd_kernel;
  return luxel::launch_forward("project_gaussians_fwd", kernel, *args);
}
}
