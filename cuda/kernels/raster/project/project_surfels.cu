// project_surfels on the GPU.
#include "kernels/raster/project/project_surfels.h"

#include "kernels/raster/project/backward/project_backward.cuh"
#include "kernels/raster/project/forward/project_forward.cuh"

namespace luxel {
namespace {

struct Tunables {
  static constexpr int threads(bool) { return 128; }
  template <typename Camera> static constexpr int blocks(bool) { return 4; }
  template <bool kGeneral> using Inputs = WarpInputs<SurfelStage, kGeneral>;
};

int check(const luxel_project_surfels_args& args) {
  if (args.dtype != 0) return fail("the GPU kernels take float32");
  if (!aligned(args.projection.splats) || !aligned(args.projection.g_splats) || !aligned(args.projection.statistics))
    return fail("project_surfels: splats, g_splats and statistics must be aligned to 16 bytes");
  LUXEL_CUDA(cudaSetDevice(args.device));
  return 0;
}

}  // namespace
}  // namespace luxel

extern "C" {

int luxel_project_surfels_fwd(const luxel_project_surfels_args* args) {
  if (luxel::check(*args)) return -1;
  return luxel::project_forward<luxel::SurfelStage>("project_surfels_fwd", *args);
}

int luxel_project_surfels_bwd(const luxel_project_surfels_args* args) {
  if (luxel::check(*args)) return -1;
  return luxel::project_backward<luxel::SurfelStage, luxel::Tunables>("project_surfels_bwd", *args);
}
}
