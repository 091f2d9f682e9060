// The forward pass of a stage that projects Gaussians, on the CPU (on the GPU: project_forward.cuh). Args: its argument struct. The
// work per Gaussian is in project_geometry, store_splat and so on, whose overloads must be declared before this header.
#pragma once

#include "kernels/raster/project/project_each.h"
#include "kernels/raster/project/project_gaussians.h"

namespace luxel {
namespace {

template <typename T, typename Args, typename Camera> int project_one(const Args& args, const Camera& cam, int camera, int64_t n) {
  Projected<T> projected = {};
  const auto row = row_of<T>(args, n);
  if (!project_geometry(args, cam, row, projected)) return 0;
  const int tiles = count_tiles(args.width, args.height, projected.splat);
  return tiles > 0 && store_splat(args, cam, camera, n, row, projected) ? tiles : 0;
}

template <typename T, typename Camera, typename Args> void project_forward(const Args& args) {
  project_each<Camera>(args, 512, [&](const auto& cam, int camera, int64_t n) { return project_one<T>(args, cam, camera, n); });
}

}  // namespace
}  // namespace luxel
