// CPU twin of project_gaussians.cu and project_gaussians_bwd.cu.
#include "kernels/raster/project/project_gaussians.h"

#include "kernels/raster/project/backward/project_backward.h"
#include "kernels/raster/project/forward/project_forward.h"

extern "C" {

int luxel_project_gaussians_fwd(const luxel_project_gaussians_args* args) {
  return luxel::project_forward<luxel::GaussianStage>(*args);
}

int luxel_project_gaussians_bwd(const luxel_project_gaussians_args* args) {
  return luxel::project_backward<luxel::GaussianStage>(*args);
}
}
