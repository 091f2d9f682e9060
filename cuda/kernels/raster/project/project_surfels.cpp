// CPU twin of project_surfels.cu.
#include "kernels/raster/project/project_surfels.h"

#include "kernels/raster/project/project_each.h"

#include <vector>

namespace luxel {
namespace {

template <typename T> void forward(const luxel_project_surfels_args& args) {
  project_each<Pinhole<T>>(args, 512, [&](const Pinhole<T>& cam, int camera, int64_t n) {
    ProjectedSurfel<T> projected = {};
    const SurfelRow<T> row = row_of<T>(args, n);
    const int tiles = project_geometry(args, cam, row, projected);
    return tiles > 0 && store_splat(args, cam, camera, n, row, projected) ? tiles : 0;
  });
}

// Surfels go to fixed blocks, and camera gradients are summed block after block: the sum does not depend on the number of threads.
constexpr int kBlock = 1024;

template <typename T> void backward(const luxel_project_surfels_args& args) {
  const bool skipped = args.skip && *args.skip != 0;
  if (skipped && args.adam_schedule) return;
  const int blocks = (args.count + kBlock - 1) / kBlock;
  std::vector<PoseGradient<T>> poses(static_cast<size_t>(blocks) * args.cameras);
  std::vector<Pinhole<T>> cameras;
  for (int camera = 0; camera < args.cameras; ++camera) cameras.push_back(load_camera<T>(args, camera));
  const Sink<T, kSurfelParameters> sink(args, parameter_rows<T>(args));
#pragma omp parallel for schedule(dynamic, 1)
  for (int block = 0; block < blocks; ++block) {
    const int32_t end = smaller((block + 1) * kBlock, args.count);
    for (int64_t n = static_cast<int64_t>(block) * kBlock; n < end; ++n) {
      SurfelGradient<T> g = {};
      Vec3<T> g_dc = {};
      T gradient[kSurfelNumbers], g_rest[45] = {};
      ViewStatistics<T> statistics(args.statistics && !skipped ? out<T>(args.statistics) + 4 * n : nullptr,
                                   args.largest_of_views != 0);
      bool seen = false;
      for (int camera = 0; camera < args.cameras; ++camera) {
        const int64_t index = static_cast<int64_t>(camera) * args.count + n;
        if (args.tile_counts[index] > 0) {
          seen = true;
          PoseGradient<T>& pose = poses[static_cast<size_t>(block) * args.cameras + camera];
          g.pose = pose;
          project_one_vjp<true>(args, cameras[camera], row_of<T>(args, n), in<T>(args.g_splats) + kSurfelRow * index,
                                in<T>(args.g_values) + value_channels(args) * index, g, g_dc, g_rest, statistics.of_view());
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
  if (!args.g_world_to_cam) return;
  for (size_t i = 0; i < poses.size(); ++i) add_pose(poses[i], out<T>(args.g_world_to_cam) + 16 * (i % args.cameras));
}

}  // namespace
}  // namespace luxel

extern "C" {

int luxel_project_surfels_fwd(const luxel_project_surfels_args* args) {
  args->dtype ? luxel::forward<double>(*args) : luxel::forward<float>(*args);
  return 0;
}

int luxel_project_surfels_bwd(const luxel_project_surfels_args* args) {
  args->dtype ? luxel::backward<double>(*args) : luxel::backward<float>(*args);
  return 0;
}
}
