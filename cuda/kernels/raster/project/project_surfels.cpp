// CPU twin of project_surfels.cu.
#include "kernels/raster/project/project_surfels.h"

#include "kernels/raster/project/backward/project_backward.h"
#include "kernels/raster/project/forward/project_forward.h"

extern "C" {

int luxel_project_surfels_fwd(const luxel_project_surfels_args* args) { return luxel::project_forward<luxel::SurfelStage>(*args); }

int luxel_project_surfels_bwd(const luxel_project_surfels_args* args) { return luxel::project_backward<luxel::SurfelStage>(*args); }
}
