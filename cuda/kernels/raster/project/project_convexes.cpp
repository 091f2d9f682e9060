// CPU twin of project_convexes.cu.
#include "kernels/raster/project/project_convexes.h"

#include "kernels/error.h"
#include "kernels/raster/project/project_each.h"

#include <vector>

namespace luxel {
namespace {

template <typename T> int project_one(const luxel_project_convexes_args& args, const Pinhole<T>& cam, int camera, int64_t n) {
  ConvexProjection<T> p;
  T splat[kConvexRow];
  const ConvexRow<T> row = row_of<T>(args, n);
  const int tiles = project_polygon(args, cam, row, p, splat);
  return tiles > 0 && store_splat(args, cam, camera, n, row.sh, p, splat) ? tiles : 0;
}

template <typename T> void forward(const luxel_project_convexes_args& args) {
  project_each<Pinhole<T>>(args, 128,
                  [&](const Pinhole<T>& cam, int camera, int64_t n) { return project_one(args, cam, camera, n); });
}

// Convexes go to fixed blocks, and camera gradients are summed block after block: the sum does not depend on the number of
// threads.
constexpr int kBlock = 256;

template <typename T> void backward(const luxel_project_convexes_args& args) {
  const bool skipped = args.skip && *args.skip != 0;
  if (skipped && args.adam_schedule) return;
  const int blocks = (args.count + kBlock - 1) / kBlock, k = args.points_each;
  std::vector<PoseGradient<T>> poses(static_cast<size_t>(blocks) * args.cameras);
  std::vector<Pinhole<T>> cameras;
  for (int camera = 0; camera < args.cameras; ++camera) cameras.push_back(load_camera<T>(args, camera));
  const Sink<T, kConvexParameters> sink(args, parameter_rows<T>(args));
#pragma omp parallel for schedule(dynamic, 1)
  for (int block = 0; block < blocks; ++block) {
    const int32_t end = smaller((block + 1) * kBlock, args.count);
    for (int64_t n = static_cast<int64_t>(block) * kBlock; n < end; ++n) {
      const ConvexRow<T> row = row_of<T>(args, n);
      ConvexGradient<T> g = {};
      Vec3<T> g_dc = {};
      T numbers[3 * LUXEL_CORNERS + 7] = {}, g_rest[45] = {};  // the points first
      ViewStatistics<T> statistics(args.statistics && !skipped ? out<T>(args.statistics) + 4 * n : nullptr,
                                   args.largest_of_views != 0);
      bool seen = false;
      for (int camera = 0; camera < args.cameras; ++camera) {
        const int64_t index = static_cast<int64_t>(camera) * args.count + n;
        if (args.tile_counts[index] > 0) {
          seen = true;
          PoseGradient<T>& pose = poses[static_cast<size_t>(block) * args.cameras + camera];
          g.pose = pose;
          project_one_vjp<true>(args, cameras[camera], row, in<T>(args.g_splats) + kConvexRow * index,
                                in<T>(args.g_values) + value_channels(args) * index, g, g_dc, numbers, g_rest,
                                statistics.of_view());
          pose = g.pose;
        }
        statistics.end_view(camera == 0);
      }
      statistics.end();
      penalty_vjp(args, row.shape, g);
      spread_over_points(g.centroid, k, numbers);
      flatten(g, g_dc, numbers + 3 * k);
      sink.take(n, numbers, g_rest, seen);
    }
  }
  if (!args.g_world_to_cam) return;
  for (size_t i = 0; i < poses.size(); ++i) add_pose(poses[i], out<T>(args.g_world_to_cam) + 16 * (i % args.cameras));
}

int check(const luxel_project_convexes_args& args) {
  if (args.points_each >= 3 && args.points_each <= LUXEL_CORNERS) return 0;
  return fail("project_convexes: %d points of a convex, 3 to %d can be", args.points_each, LUXEL_CORNERS);
}

}  // namespace
}  // namespace luxel

extern "C" {

int luxel_project_convexes_fwd(const luxel_project_convexes_args* args) {
  if (luxel::check(*args)) return -1;
  args->dtype ? luxel::forward<double>(*args) : luxel::forward<float>(*args);
  return 0;
}

int luxel_project_convexes_bwd(const luxel_project_convexes_args* args) {
  if (luxel::check(*args)) return -1;
  if (args->raw_moments) return luxel::fail("raw moments are for the GPU only");
  args->dtype ? luxel::backward<double>(*args) : luxel::backward<float>(*args);
  return 0;
}
}
