// The forward pass of a stage that projects Gaussians, on the CPU (on the GPU: project_forward.cuh). Args: its arguments;
// what it does with one Gaussian is in project_geometry, store_splat and the like, whose overloads come before this.
#pragma once

#include "project_gaussians.h"

namespace luxel {
namespace {

template <typename T, typename Args, typename Camera> int project_one(const Args& args, const Camera& cam, int camera, int64_t n) {
  Projected<T> projected = {};
  const auto row = row_of<T>(args, n);
  if (!project_geometry(args, cam, row, projected)) return 0;
  const int tiles = count_tiles(args.width, args.height, projected.splat);
  return tiles > 0 && store_splat(args, cam, camera, n, row, projected) ? tiles : 0;
}

template <typename T, typename Args> void project_forward(const Args& args) {
  int64_t seen = 0, instances = 0;
  for (int camera = 0; camera < args.cameras; ++camera) {
    const auto cam = load_camera<T>(args, camera);
    int32_t* counts = args.tile_counts + static_cast<int64_t>(camera) * args.count;
#pragma omp parallel for schedule(dynamic, 512)
    for (int32_t n = 0; n < args.count; ++n) counts[n] = project_one<T>(args, cam, camera, n);
    for (int32_t n = 0; n < args.count; ++n) {
      seen += counts[n] > 0;
      instances += counts[n];
    }
  }
  args.totals[0] = seen;
  args.totals[1] = instances;
}

}  // namespace
}  // namespace luxel
