// project_discs on the CPU.
#include "kernels/raster/project/project_discs.h"

#include "kernels/raster/project/backward/project_backward.h"
#include "kernels/raster/project/forward/project_forward.h"

extern "C" {

int luxel_project_discs_fwd(const luxel_project_discs_args* args) { return luxel::project_forward<luxel::DiscStage>(*args); }

int luxel_project_discs_bwd(const luxel_project_discs_args* args) { return luxel::project_backward<luxel::DiscStage>(*args); }
}
