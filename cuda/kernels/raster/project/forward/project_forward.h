// The forward pass of a stage that projects primitives (see projection_stage.h), on the CPU: the loop over cameras and primitives.
// On the GPU: project_forward.cuh.
#pragma once

#include "kernels/raster/project/projection_stage.h"

namespace luxel {

template <typename Stage, typename T, typename Camera> void project_forward(const typename Stage::Args& args) {
  int64_t seen = 0, instances = 0;
  for (int camera = 0; camera < args.projection.cameras; ++camera) {
    const Camera cam = load_camera(args, camera, CameraType<Camera>());
    int32_t* counts = args.projection.tile_counts + static_cast<int64_t>(camera) * args.projection.count;
#pragma omp parallel for schedule(dynamic, Stage::kChunk)
    for (int32_t n = 0; n < args.projection.count; ++n) {
      typename Stage::template Projected<T> projected = {};
      const auto row = row_of<T>(args, n);
      int tiles = project_geometry(args, cam, row, projected) ? count_tiles(args, projected) : 0;
      if (tiles > 0 && !store_splat(args, cam, camera, n, row, projected)) tiles = 0;
      counts[n] = tiles;
    }
    for (int32_t n = 0; n < args.projection.count; ++n) {
      seen += counts[n] > 0;
      instances += counts[n];
    }
  }
  args.projection.totals[0] = seen;
  args.projection.totals[1] = instances;
}

template <typename Stage, typename T> void project_forward(const typename Stage::Args& args) {
  with_camera_type<Stage, T>(args, [&](auto type) { project_forward<Stage, T, typename decltype(type)::Type>(args); });
}

template <typename Stage> int project_forward(const typename Stage::Args& args) {
  args.dtype ? project_forward<Stage, double>(args) : project_forward<Stage, float>(args);
  return 0;
}

}  // namespace luxel
