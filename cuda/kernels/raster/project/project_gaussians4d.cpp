// CPU twin of project_gaussians4d.cu and project_gaussians4d_bwd.cu.
#include "kernels/raster/project/project_gaussians4d.h"

#include "kernels/raster/project/backward/project_backward.h"
#include "kernels/raster/project/forward/project_forward.h"

extern "C" {

int luxel_project_gaussians4d_fwd(const luxel_project_gaussians4d_args* args) {
  return luxel::project_forward<luxel::Gaussian4dStage>(*args);
}

int luxel_project_gaussians4d_bwd(const luxel_project_gaussians4d_args* args) {
  return luxel::project_backward<luxel::Gaussian4dStage>(*args);
}
}
