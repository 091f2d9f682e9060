// The loop of a projection stage on the CPU, over cameras and primitives; sums the totals.
#pragma once

#include "kernels/raster/stage.h"

namespace luxel {

// one(cam, camera, n) projects a primitive and returns the number of tiles it touches; threads take `chunk` primitives at a time.
// Camera: the type of the cameras. Args: the argument struct of the stage.
template <typename Camera, typename Args, typename One> void project_each(const Args& args, int chunk, One one) {
  int64_t seen = 0, instances = 0;
  for (int camera = 0; camera < args.cameras; ++camera) {
    const auto cam = load_camera(args, camera, CameraType<Camera>());
    int32_t* counts = args.tile_counts + static_cast<int64_t>(camera) * args.count;
#pragma omp parallel for schedule(dynamic, chunk)
    for (int32_t n = 0; n < args.count; ++n) counts[n] = one(cam, camera, n);
    for (int32_t n = 0; n < args.count; ++n) {
      seen += counts[n] > 0;
      instances += counts[n];
    }
  }
  args.totals[0] = seen;
  args.totals[1] = instances;
}

}  // namespace luxel
