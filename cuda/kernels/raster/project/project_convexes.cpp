// CPU twin of project_convexes.cu.
#include "kernels/raster/project/project_convexes.h"

#include "kernels/error.h"
#include "kernels/raster/project/backward/project_backward.h"
#include "kernels/raster/project/forward/project_forward.h"

namespace luxel {
namespace {

int check(const luxel_project_convexes_args& args) {
  if (args.points_each >= 3 && args.points_each <= LUXEL_CORNERS) return 0;
  return fail("project_convexes: %d points of a convex, 3 to %d can be", args.points_each, LUXEL_CORNERS);
}

}  // namespace
}  // namespace luxel

extern "C" {

int luxel_project_convexes_fwd(const luxel_project_convexes_args* args) {
  if (luxel::check(*args)) return -1;
  return luxel::project_forward<luxel::ConvexStage>(*args);
}

int luxel_project_convexes_bwd(const luxel_project_convexes_args* args) {
  if (luxel::check(*args)) return -1;
  if (args->raw_moments) return luxel::fail("raw moments are for the GPU only");
  return luxel::project_backward<luxel::ConvexStage>(*args);
}
}
