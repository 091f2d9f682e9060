// project_gaussians on the GPU, forward. The backward pass is in project_gaussians_bwd.cu.
#include "kernels/raster/project/project_gaussians.h"

#include "kernels/raster/project/forward/project_forward.cuh"

extern "C" int luxel_project_gaussians_fwd(const luxel_project_gaussians_args* args) {
  if (args->dtype != 0) return luxel::fail("the GPU kernels take float32");
  if (!luxel::aligned(args->projection.splats)) return luxel::fail("project_gaussians: splats must be aligned to 16 bytes");
  LUXEL_CUDA(cudaSetDevice(args->device));
  return luxel::project_forward<luxel::GaussianStage>("project_gaussians_fwd", *args);
}
