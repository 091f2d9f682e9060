// CPU twin of project_gaussians.cu.
#include "project_gaussians.h"

#include "error.h"

#include <cstring>
#include <omp.h>
#include <vector>

namespace luxel {
namespace {

template <typename T> void forward(const luxel_project_gaussians_args& args) {
  int64_t seen = 0, instances = 0;
  for (int camera = 0; camera < args.cameras; ++camera) {
    const Pinhole<T> cam = load_camera<T>(args, camera);
    int32_t* counts = args.tile_counts + static_cast<int64_t>(camera) * args.count;
#pragma omp parallel for schedule(dynamic, 512)
    for (int32_t n = 0; n < args.count; ++n) counts[n] = project_one(args, cam, camera, n);
    for (int32_t n = 0; n < args.count; ++n) {  // in order, so that the result does not depend on the threads
      if (counts[n] == 0) continue;
      args.visible[seen++] = static_cast<int32_t>(static_cast<int64_t>(camera) * args.count + n);
      instances += counts[n];
    }
  }
  args.totals[0] = seen;
  args.totals[1] = instances;
}

// Gaussians go to fixed blocks, and camera gradients are summed block after block: the sum does not depend on the
// number of threads.
constexpr int kBlock = 1024;

template <typename T> void backward(const luxel_project_gaussians_args& args) {
  struct Pose {
    Mat3<T> rotation;
    Vec3<T> translation;
  };
  const int blocks = (args.count + kBlock - 1) / kBlock;
  std::vector<Pose> poses(blocks);
  for (int camera = 0; camera < args.cameras; ++camera) {
    const Pinhole<T> cam = load_camera<T>(args, camera);
    const int32_t* counts = args.tile_counts + static_cast<int64_t>(camera) * args.count;
    T* g_camera = args.g_world_to_cam ? out<T>(args.g_world_to_cam) + 16 * camera : nullptr;
#pragma omp parallel for schedule(dynamic, 1)
    for (int block = 0; block < blocks; ++block) {
      GaussianGradient<T> g;
      std::memset(&g, 0, sizeof g);
      const int32_t end = smaller((block + 1) * kBlock, args.count);
      for (int32_t n = block * kBlock; n < end; ++n) {
        T* g_rest = args.g_sh_rest ? out<T>(args.g_sh_rest) + 3 * static_cast<int64_t>(n) * args.sh_stride : nullptr;
        T* g_quat = out<T>(args.g_quats) + 4 * static_cast<int64_t>(n);
        if (camera == 0) {
          g.mean = g.log_scales = {T(0), T(0), T(0)};
          g.quat = {T(0), T(0), T(0), T(0)};
          g.opacity_logit = T(0);
          if (g_rest) std::memset(g_rest, 0, sizeof(T) * 3 * args.sh_stride);
        } else {
          g.mean = load3(out<T>(args.g_means) + 3 * n);
          g.quat = {g_quat[0], g_quat[1], g_quat[2], g_quat[3]};
          g.log_scales = load3(out<T>(args.g_log_scales) + 3 * n);
          g.opacity_logit = out<T>(args.g_opacity_logits)[n];
        }
        Vec3<T> g_dc = {T(0), T(0), T(0)};
        if (camera > 0) g_dc = load3(out<T>(args.g_sh_dc) + 3 * n);
        if (counts[n] > 0) {
          T* statistics = args.statistics ? out<T>(args.statistics) + 4 * static_cast<int64_t>(n) : nullptr;
          project_one_vjp(args, cam, camera, n, g, g_dc, g_rest, statistics);
        }
        store_gradient(args, n, g, g_dc);
      }
      poses[block] = {g.camera_rotation, g.camera_translation};
    }
    if (!g_camera) continue;
    for (const Pose& pose : poses) {
      const Vec3<T> rows[3] = {pose.rotation.r0, pose.rotation.r1, pose.rotation.r2};
      const T translation[3] = {pose.translation.x, pose.translation.y, pose.translation.z};
      for (int i = 0; i < 3; ++i) {
        g_camera[4 * i] += rows[i].x;
        g_camera[4 * i + 1] += rows[i].y;
        g_camera[4 * i + 2] += rows[i].z;
        g_camera[4 * i + 3] += translation[i];
      }
    }
  }
}

}  // namespace
}  // namespace luxel

extern "C" {

int64_t luxel_project_gaussians_workspace(const luxel_project_gaussians_args*) { return 0; }

int luxel_project_gaussians_fwd(const luxel_project_gaussians_args* args) {
  args->dtype ? luxel::forward<double>(*args) : luxel::forward<float>(*args);
  return 0;
}

int luxel_project_gaussians_bwd(const luxel_project_gaussians_args* args) {
  args->dtype ? luxel::backward<double>(*args) : luxel::backward<float>(*args);
  return 0;
}
}
