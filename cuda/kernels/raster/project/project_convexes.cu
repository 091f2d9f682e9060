// project_convexes on the GPU.
#include "kernels/raster/project/project_convexes.h"

#include "kernels/raster/project/backward/project_backward.cuh"
#include "kernels/raster/project/forward/project_forward.cuh"

namespace luxel {
namespace {

// The inputs of a warp's convexes in the backward pass, see WarpInputs: the points, and the SH coefficients of the only camera.
template <bool kGeneral> struct ConvexInputs {
  const luxel_project_convexes_args& args;
  int n;
  ConvexRow<float> convex = {};

  static __host__ __device__ __forceinline__ int numbers(const luxel_project_convexes_args& args) {
    return kGeneral ? points_width<ConvexStage>(args) : 0;
  }

  __device__ __forceinline__ ConvexInputs(const luxel_project_convexes_args& args, int first, uint32_t seen, bool any, float* gradients)
      : args(args), n(first + (threadIdx.x & 31)) {
    const int lane = threadIdx.x & 31, width = points_width<ConvexStage>(args);
    const int rest_width = 3 * args.projection.sh_stride, used = 3 * sh_terms(args);
    float* const g_points = gradients + lane * width;
    float* const rest = gradients + kWarpRows * (width + ConvexStage::kNumbers);
    float* const g_rest = rest + lane * rest_width;
    float* const points = kGeneral ? rest + kWarpRows * rest_width : gradients;
    if (seen != 0) stage(args.points, first, args.projection.count, width, width, ~0u, points);
    if (!kGeneral && seen != 0 && used > 0) stage(args.sh_rest, first, args.projection.count, rest_width, used, seen, rest);
    if (n < args.projection.count) convex = row_of<float>(args, n);  // before the wait
    convex.points = points + width * lane;
    if (!kGeneral) convex.sh_rest = g_rest;
    for (int k = 0; kGeneral && k < width; ++k) g_points[k] = 0.0f;
    staged();
    for (int k = any ? width : 0; !kGeneral && k < width; ++k) g_points[k] = 0.0f;
    for (int k = !kGeneral && any ? used : 0; k < rest_width; ++k) g_rest[k] = 0.0f;
  }

  __device__ __forceinline__ const ConvexRow<float>& row() const { return convex; }
  __device__ __forceinline__ const float* g_splat() const {
    return in<float>(args.projection.g_splats) + kConvexRow * static_cast<int64_t>(n);
  }
  __device__ __forceinline__ const float* g_value() const {
    return in<float>(args.projection.g_values) + value_channels(args) * static_cast<int64_t>(n);
  }
};

struct Forward {
  static constexpr int kThreads = 64;
  template <typename Camera> static constexpr int blocks() { return 12; }
};
struct Backward {
  static constexpr int threads(bool) { return 64; }
  template <typename Camera> static constexpr int blocks(bool) { return 10; }
  template <bool kGeneral> using Inputs = ConvexInputs<kGeneral>;
};

int check(const luxel_project_convexes_args& args) {
  if (args.dtype != 0) return fail("the GPU kernels take float32");
  if (args.points_each < 3 || args.points_each > LUXEL_CORNERS)
    return fail("project_convexes: %d points of a convex, 3 to %d can be", args.points_each, LUXEL_CORNERS);
  if (!aligned(args.projection.splats) || !aligned(args.projection.g_splats) || !aligned(args.projection.statistics))
    return fail("project_convexes: splats, g_splats and statistics must be aligned to 16 bytes");
  LUXEL_CUDA(cudaSetDevice(args.device));
  return 0;
}

}  // namespace
}  // namespace luxel

extern "C" {

int luxel_project_convexes_fwd(const luxel_project_convexes_args* args) {
  if (luxel::check(*args)) return -1;
  return luxel::project_forward<luxel::ConvexStage, luxel::Forward>("project_convexes_fwd", *args);
}

int luxel_project_convexes_bwd(const luxel_project_convexes_args* args) {
  if (luxel::check(*args)) return -1;
  return luxel::project_backward<luxel::ConvexStage, luxel::Backward>("project_convexes_bwd", *args);
}
}
