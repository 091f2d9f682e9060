// project_gaussians4d on the GPU, forward: a thread per (camera, Gaussian). The backward pass is in
// project_gaussians4d_bwd.cu.
#include "kernels/raster/project/project_gaussians4d.h"

#include "kernels/raster/project/project_forward.cuh"

namespace luxel {
namespace {

__global__ void __launch_bounds__(kForwardThreads, kForwardBlocks)
    project_gaussians4d_fwd_kernel(const __grid_constant__ luxel_project_gaussians4d_args args) {
  project_forward<Timed<float, Pinhole>>(args);
}
__global__ void __launch_bounds__(kForwardThreads, kForwardLensBlocks)
    project_gaussians4d_fwd_lens_kernel(const __grid_constant__ luxel_project_gaussians4d_args args) {
  project_forward<Timed<float, LensCamera>>(args);
}
__global__ void __launch_bounds__(kForwardThreads, kForwardBlocks)
    project_gaussians4d_fwd_rolling_kernel(const __grid_constant__ luxel_project_gaussians4d_args args) {
  project_forward<Timed<float, RollingPinhole>>(args);
}
__global__ void __launch_bounds__(kForwardThreads, kForwardLensBlocks)
    project_gaussians4d_fwd_rolling_lens_kernel(const __grid_constant__ luxel_project_gaussians4d_args args) {
  project_forward<Timed<float, RollingLens>>(args);
}

}  // namespace
}  // namespace luxel

extern "C" int luxel_project_gaussians4d_fwd(const luxel_project_gaussians4d_args* args) {
  if (args->dtype != 0) return luxel::fail("the GPU kernels take float32");
  if (!luxel::aligned(args->splats)) return luxel::fail("project_gaussians4d: splats must be aligned to 16 bytes");
  LUXEL_CUDA(cudaSetDevice(args->device));
  using namespace luxel;
  const auto global = args->lens ? project_gaussians4d_fwd_lens_kernel : project_gaussians4d_fwd_kernel;
  const auto rolling = args->lens ? project_gaussians4d_fwd_rolling_lens_kernel : project_gaussians4d_fwd_rolling_kernel;
  return launch_forward("project_gaussians4d_fwd", args->shutters ? rolling : global, *args);
}
