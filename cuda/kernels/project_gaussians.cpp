// CPU twin of project_gaussians.cu and project_gaussians_bwd.cu.
#include "project_forward.h"

#include "../math/adam.h"

#include <cstring>
#include <omp.h>
#include <vector>

namespace luxel {
namespace {

// What becomes of a finished gradient: written, or spent on a step of Adam.
template <typename T> struct Sink {
  ParameterRows<T> rows;
  bool adam, visible_only;
  AdamConstants<T> constants[6];

  explicit Sink(const luxel_project_gaussians_args& args)
      : rows(parameter_rows<T>(args)), adam(args.adam_schedule != nullptr), visible_only(args.adam_visible_only != 0) {
    if (!adam) return;
    const T* schedule = in<T>(args.adam_schedule);
    const auto decays = AdamConstants<T>::decays(args.adam_beta1, args.adam_beta2, args.adam_eps);
    for (int i = 0; i < 6; ++i) constants[i] = decays.at(schedule[i], schedule[6], schedule[7]);
  }

  void take(int64_t n, const T* gradient, const T* g_rest, bool seen) const {
    if (adam && visible_only && !seen) return;
    for (int i = 0; i < 6; ++i) {
      const T* g = i < 5 ? gradient : g_rest;
      const int64_t at = n * rows.width[i];
      T* target = rows.target[i] + at;
      if (adam) {
        T *m = rows.exp_avg[i] + at, *v = rows.exp_avg_sq[i] + at;
#pragma omp simd
        for (int k = 0; k < rows.active[i]; ++k) adam_update(constants[i], g[k], target[k], m[k], v[k]);
      } else {
        std::memcpy(target, g, sizeof(T) * rows.width[i]);
      }
      gradient += rows.width[i];
    }
  }
};

// Gaussians go to fixed blocks, and camera gradients are summed block after block: the sum does not depend on the
// number of threads.
constexpr int kBlock = 1024;

template <typename T> void backward(const luxel_project_gaussians_args& args) {
  const bool skipped = args.skip && *args.skip != 0;
  if (skipped && args.adam_schedule) return;
  const int blocks = (args.count + kBlock - 1) / kBlock;
  std::vector<PoseGradient<T>> poses(static_cast<size_t>(blocks) * args.cameras);
  std::vector<Pinhole<T>> cameras;
  for (int camera = 0; camera < args.cameras; ++camera) cameras.push_back(load_camera<T>(args, camera));
  const Sink<T> sink(args);
#pragma omp parallel for schedule(dynamic, 1)
  for (int block = 0; block < blocks; ++block) {
    const int32_t end = smaller((block + 1) * kBlock, args.count);
    for (int64_t n = static_cast<int64_t>(block) * kBlock; n < end; ++n) {
      GaussianGradient<T> g = {};
      Vec3<T> g_dc = {};
      T gradient[14], g_rest[45] = {};
      T* statistics = args.statistics && !skipped ? out<T>(args.statistics) + 4 * n : nullptr;
      bool seen = false;
      for (int camera = 0; camera < args.cameras; ++camera) {
        const int64_t index = static_cast<int64_t>(camera) * args.count + n;
        if (args.tile_counts[index] == 0) continue;
        seen = true;
        PoseGradient<T>& pose = poses[static_cast<size_t>(block) * args.cameras + camera];
        g.pose = pose;
        const T* g_splat = in<T>(args.g_splats) + LUXEL_SPLAT * index;
        const T* g_value = in<T>(args.g_values) + value_channels(args) * index;
        project_one_vjp<true>(args, cameras[camera], row_of<T>(args, n), g_splat, g_value, g, g_dc, g_rest, statistics);
        pose = g.pose;
      }
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

int luxel_project_gaussians_fwd(const luxel_project_gaussians_args* args) {
  args->dtype ? luxel::project_forward<double>(*args) : luxel::project_forward<float>(*args);
  return 0;
}

int luxel_project_gaussians_bwd(const luxel_project_gaussians_args* args) {
  args->dtype ? luxel::backward<double>(*args) : luxel::backward<float>(*args);
  return 0;
}
}
