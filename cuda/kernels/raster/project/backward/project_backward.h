// The backward pass of a stage that projects primitives (see projection_stage.h), on the CPU: the loop over primitives and the
// cameras of each. On the GPU: project_backward.cuh.
#pragma once

#include "kernels/raster/project/backward/row_sink.h"
#include "kernels/raster/project/projection_stage.h"

#include <vector>

namespace luxel {

// The gradient by one camera.
template <typename T> struct CameraGradient {
  PoseGradient<T> pose;
  T timestamp;
};

// Primitives go to fixed blocks, and gradients by cameras are summed block after block: the sum does not depend on the number of
// threads.
template <typename Stage, typename T, typename Camera> void project_backward(const typename Stage::Args& args) {
  const bool skipped = args.projection.skip && *args.projection.skip != 0;
  if (skipped && args.projection.adam_schedule) return;
  constexpr int kBlock = Stage::kBlock, kPoints = Stage::kPoints ? 3 * LUXEL_CORNERS : 0;
  const int blocks = (args.projection.count + kBlock - 1) / kBlock;
  std::vector<CameraGradient<T>> sums(static_cast<size_t>(blocks) * args.projection.cameras);
  std::vector<Camera> cameras;
  for (int camera = 0; camera < args.projection.cameras; ++camera) cameras.push_back(load_camera(args, camera, CameraType<Camera>()));
  const Sink<T, Stage::kParameters> sink(args, rows_of<T>(args, parameters_of(args)));
#pragma omp parallel for schedule(dynamic, 1)
  for (int block = 0; block < blocks; ++block) {
    const int32_t end = smaller((block + 1) * kBlock, args.projection.count);
    for (int64_t n = static_cast<int64_t>(block) * kBlock; n < end; ++n) {
      const auto row = row_of<T>(args, n);
      typename Stage::template Gradient<T> gradient = {};
      T numbers[kPoints + Stage::kNumbers] = {}, g_rest[45] = {};
      if constexpr (Stage::kPoints) gradient.points = numbers;
      ViewStatistics<T> statistics(args.projection.statistics && !skipped ? out<T>(args.projection.statistics) + 4 * n : nullptr,
                                   args.projection.largest_of_views != 0);
      bool seen = false;
      for (int camera = 0; camera < args.projection.cameras; ++camera) {
        const int64_t index = static_cast<int64_t>(camera) * args.projection.count + n;
        if (args.projection.tile_counts[index] > 0) {
          seen = true;
          CameraGradient<T>& sum = sums[static_cast<size_t>(block) * args.projection.cameras + camera];
          gradient.pose = sum.pose;
          if constexpr (Stage::kTimestamps) gradient.timestamp = sum.timestamp;
          project_one_vjp<true>(args, cameras[camera], row, in<T>(args.projection.g_splats) + Stage::kSplat * index,
                                in<T>(args.projection.g_values) + value_channels(args) * index, gradient, g_rest, statistics.of_view());
          sum.pose = gradient.pose;
          if constexpr (Stage::kTimestamps) sum.timestamp = gradient.timestamp;
        }
        statistics.end_view(camera == 0);
      }
      statistics.end();
      penalties_vjp(args, row, gradient);
      flatten(args, row, seen, gradient, numbers + points_width<Stage>(args));
      sink.take(n, numbers, g_rest, seen);
    }
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    const size_t camera = i % args.projection.cameras;
    if (args.projection.g_world_to_cam) add_pose(sums[i].pose, out<T>(args.projection.g_world_to_cam) + 16 * camera);
    if constexpr (Stage::kTimestamps)
      if (args.g_timestamps) out<T>(args.g_timestamps)[camera] += sums[i].timestamp;
    if constexpr (Stage::kLenses)
      if (args.g_shutters) add_shutter(sums[i].pose, out<T>(args.g_shutters) + LUXEL_SHUTTER * camera);
  }
}

template <typename Stage, typename T> void project_backward(const typename Stage::Args& args) {
  with_camera_type<Stage, T>(args, [&](auto type) { project_backward<Stage, T, typename decltype(type)::Type>(args); });
}

template <typename Stage> int project_backward(const typename Stage::Args& args) {
  args.dtype ? project_backward<Stage, double>(args) : project_backward<Stage, float>(args);
  return 0;
}

}  // namespace luxel
