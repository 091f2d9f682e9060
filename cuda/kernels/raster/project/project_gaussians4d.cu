// project_gaussians4d on the GPU, forward. The backward pass is in project_gaussians4d_bwd.cu.
#include "kernels/raster/project/project_gaussians4d.h"

#include "kernels/raster/project/forward/project_forward.cuh"

extern "C" int luxel_project_gaussians4d_fwd(const luxel_project_gaussians4d_args* args) {
  if (args->dtype != 0) return luxel::fail("the GPU kernels take float32");
  if (!luxel::aligned(args->projection.splats)) return luxel::fail("project_gaussians4d: splats must be aligned to 16 bytes");
  LUXEL_CUDA(cudaSetDevice(args->device));
  return luxel::project_forward<luxel::Gaussian4dStage>("project_gaussians4d_fwd", *args);
}
