// CPU twin of project_gaussians.cu and project_gaussians_bwd.cu.
#include "kernels/raster/project/project_forward.h"

#include <vector>

namespace luxel {
namespace {

// Gaussians go to fixed blocks, and camera gradients are summed block after block: the sum does not depend on the
// number of threads.
constexpr int kBlock = 1024;

template <typename T, typename Camera> void backward(const luxel_project_gaussians_args& args) {
  const bool skipped = args.skip && *args.skip != 0;
  if (skipped && args.adam_schedule) return;
  const int blocks = (args.count + kBlock - 1) / kBlock;
  std::vector<PoseGradient<T>> poses(static_cast<size_t>(blocks) * args.cameras);
  std::vector<Camera> cameras;
  for (int camera = 0; camera < args.cameras; ++camera) cameras.push_back(load_camera(args, camera, CameraType<Camera>()));
  const Sink<T, kGaussianParameters> sink(args, parameter_rows<T>(args));
#pragma omp parallel for schedule(dynamic, 1)
  for (int block = 0; block < blocks; ++block) {
    const int32_t end = smaller((block + 1) * kBlock, args.count);
    for (int64_t n = static_cast<int64_t>(block) * kBlock; n < end; ++n) {
      GaussianGradient<T> g = {};
      Vec3<T> g_dc = {};
      T gradient[14], g_rest[45] = {};
      ViewStatistics<T> statistics(args.statistics && !skipped ? out<T>(args.statistics) + 4 * n : nullptr,
                                   args.largest_of_views != 0);
      bool seen = false;
      for (int camera = 0; camera < args.cameras; ++camera) {
        const int64_t index = static_cast<int64_t>(camera) * args.count + n;
        if (args.tile_counts[index] > 0) {
          seen = true;
          PoseGradient<T>& pose = poses[static_cast<size_t>(block) * args.cameras + camera];
          g.pose = pose;
          const T* g_splat = in<T>(args.g_splats) + kGaussianRow * index;
          const T* g_value = in<T>(args.g_values) + value_channels(args) * index;
          project_one_vjp<true>(args, cameras[camera], row_of<T>(args, n), g_splat, g_value, g, g_dc, g_rest,
                                statistics.of_view());
          pose = g.pose;
        }
        statistics.end_view(camera == 0);
      }
      statistics.end();
      penalties_vjp(args, row_of<T>(args, n), g);
      flatten(g, g_dc, gradient);
      sink.take(n, gradient, g_rest, seen);
    }
  }
  for (size_t i = 0; i < poses.size(); ++i) {
    const size_t camera = i % args.cameras;
    if (args.g_world_to_cam) add_pose(poses[i], out<T>(args.g_world_to_cam) + 16 * camera);
    if (args.g_shutters) add_shutter(poses[i], out<T>(args.g_shutters) + LUXEL_SHUTTER * camera);
  }
}

template <typename T> void run_forward(const luxel_project_gaussians_args& args) {
  if (args.shutters) {
    args.lens ? project_forward<T, RollingLens<T>>(args) : project_forward<T, RollingPinhole<T>>(args);
  } else {
    args.lens ? project_forward<T, LensCamera<T>>(args) : project_forward<T, Pinhole<T>>(args);
  }
}
template <typename T> void run_backward(const luxel_project_gaussians_args& args) {
  if (args.shutters) {
    args.lens ? backward<T, RollingLens<T>>(args) : backward<T, RollingPinhole<T>>(args);
  } else {
    args.lens ? backward<T, LensCamera<T>>(args) : backward<T, Pinhole<T>>(args);
  }
}

}  // namespace
}  // namespace luxel

extern "C" {

int luxel_project_gaussians_fwd(const luxel_project_gaussians_args* args) {
  args->dtype ? luxel::run_forward<double>(*args) : luxel::run_forward<float>(*args);
  return 0;
}

int luxel_project_gaussians_bwd(const luxel_project_gaussians_args* args) {
  args->dtype ? luxel::run_backward<double>(*args) : luxel::run_backward<float>(*args);
  return 0;
}
}
