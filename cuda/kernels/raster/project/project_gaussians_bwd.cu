// project_gaussians on the GPU, backward: a thread per Gaussian, over all cameras, so that parameter gradients need no
// atomics. A warp loads the inputs of its 32 Gaussians into shared memory, all at once, because dependent loads would take longer
// than the arithmetic. It collects the gradients there too, in the order of each parameter's global memory, and passes them to
// the sink (row_sink.cuh).
#include "kernels/raster/project/project_gaussians.h"

#include "device/launch.cuh"
#include "kernels/raster/project/row_sink.cuh"

namespace luxel {
namespace {

constexpr int kThreads = 128;
constexpr int kSmall = 14;  // numbers of a Gaussian without sh_rest
// Resident blocks per multiprocessor, which limit the registers; 5 is the fastest of 4, 5, 6. Sigma points take more registers.
template <typename Camera> __host__ __device__ constexpr int blocks_of(bool general) { return general ? 4 : 5; }
template <> __host__ __device__ constexpr int blocks_of<LensCamera<float>>(bool) { return 3; }
template <> __host__ __device__ constexpr int blocks_of<RollingLens<float>>(bool) { return 3; }

// Floats of shared memory per warp.
__host__ __device__ __forceinline__ int numbers_of_warp(const luxel_project_gaussians_args& args, bool general) {
  return kWarpRows * (kSmall + 3 * args.sh_stride + (general ? 0 : kGaussianRow + value_channels(args)));
}

// Stores a lane's gradient, without sh_rest, among those of its warp in shared memory.
__device__ __forceinline__ void store_small(const GaussianGradient<float>& g, Vec3<float> g_dc, float* gradients, int row) {
  constexpr int kParameter[kSmall] = {0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 3, 4, 4, 4};
  constexpr int kStart[5] = {0, 3, 7, 10, 11}, kWidth[5] = {3, 4, 3, 1, 3};
  float numbers[kSmall];
  flatten(g, g_dc, numbers);
#pragma unroll
  for (int k = 0; k < kSmall; ++k) {
    const int i = kParameter[k];
    gradients[kWarpRows * kStart[i] + row * kWidth[i] + k - kStart[i]] = numbers[k];
  }
}

// Starts asynchronous copies of all inputs of a warp's Gaussians to shared memory: the small parameters of all 32 to where their
// gradients will be, then sh_rest, then the gradients by splats and values.
__device__ __forceinline__ void stage_inputs(const luxel_project_gaussians_args& args, int first, uint32_t seen,
                                             float* numbers) {
  const int width = 3 * args.sh_stride, used = 3 * sh_terms(args), channels = value_channels(args);
  stage(args.means, first, args.count, 3, 3, ~0u, numbers);
  stage(args.quats, first, args.count, 4, 4, ~0u, numbers + 3 * kWarpRows);
  stage(args.log_scales, first, args.count, 3, 3, ~0u, numbers + 7 * kWarpRows);
  stage(args.opacity_logits, first, args.count, 1, 1, ~0u, numbers + 10 * kWarpRows);
  stage(args.sh_dc, first, args.count, 3, 3, ~0u, numbers + 11 * kWarpRows);
  if (used > 0) stage(args.sh_rest, first, args.count, width, used, seen, numbers + kSmall * kWarpRows);
  numbers += kWarpRows * (kSmall + width);
  stage(args.g_splats, first, args.count, kGaussianRow, kGaussianRow, seen, numbers);
  stage(args.g_values, first, args.count, channels, channels, ~0u, numbers + kGaussianRow * kWarpRows);
}

// kGeneral: several cameras, or gradients by the camera. Otherwise there is one camera, and the inputs that stage_inputs loads are
// overwritten by their gradients.
template <typename Camera, bool kAdam, bool kGeneral>
__global__ void __launch_bounds__(kThreads, blocks_of<Camera>(kGeneral))
    project_gaussians_bwd_kernel(const __grid_constant__ luxel_project_gaussians_args args,
                                 const __grid_constant__ WarpSink<kGaussianParameters> sink) {
  extern __shared__ float4 shared[];
  const bool skipped = args.skip != nullptr && *args.skip != 0;
  if (kAdam && skipped) return;
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int first = blockIdx.x * kThreads + warp * kWarpRows, n = first + lane;
  if (first >= args.count) return;  // warps are independent: there is no block-wide barrier
  const int width = 3 * args.sh_stride;
  bool any = false;
  for (int camera = 0; camera < args.cameras; ++camera)
    any |= n < args.count && args.tile_counts[static_cast<int64_t>(camera) * args.count + n] > 0;
  const uint32_t seen = __ballot_sync(~0u, any);
  const bool penalties = args.opacity_penalty != 0.0f || args.scale_penalty != 0.0f;

  Writer<kAdam, kGaussianParameters> writer = {sink, sink.decays, nullptr, ~0u, first};
  if (!writer.begin(args, seen)) return;
  float* gradients = nullptr;  // null stands for zeros
  if (seen != 0 || penalties || sink.extra) {
    gradients = reinterpret_cast<float*>(shared) + warp * numbers_of_warp(args, kGeneral);
    float* g_rest = gradients + kWarpRows * kSmall + lane * width;
    GaussianGradient<float> g = {};
    Vec3<float> g_dc = {0.0f, 0.0f, 0.0f};
    float* statistics = args.statistics && !skipped ? out<float>(args.statistics) + 4 * static_cast<int64_t>(n) : nullptr;
    if (kGeneral) {
      ViewStatistics<float> stats(any ? statistics : nullptr, args.largest_of_views != 0);
      for (int k = 0; k < width; ++k) g_rest[k] = 0.0f;
      for (int camera = 0; camera < args.cameras; ++camera) {
        g.pose = {};
        const int64_t index = static_cast<int64_t>(camera) * args.count + n;
        const bool here = n < args.count && args.tile_counts[index] > 0;
        if (here) {
          const float* g_splat = in<float>(args.g_splats) + kGaussianRow * index;
          const float* g_value = in<float>(args.g_values) + value_channels(args) * index;
          project_one_vjp<true>(args, load_camera(args, camera, CameraType<Camera>()), row_of<float>(args, n), g_splat, g_value, g, g_dc,
                                g_rest, stats.of_view());
        }
        stats.end_view(camera == 0);
        if (args.g_world_to_cam && __any_sync(~0u, here))
          add_pose_of_warp(g.pose, out<float>(args.g_world_to_cam) + 16 * camera);
        if (args.g_shutters && __any_sync(~0u, here))
          add_shutter_of_warp(g.pose, out<float>(args.g_shutters) + LUXEL_SHUTTER * camera);
      }
      stats.end();
      if (penalties && n < args.count) penalties_vjp(args, row_of<float>(args, n), g);
    } else {
      stage_inputs(args, first, seen, gradients);
      staged();
      const GaussianRow<float> row = {gradients + 3 * lane,
                                      gradients + 3 * kWarpRows + 4 * lane,
                                      gradients + 7 * kWarpRows + 3 * lane,
                                      gradients + 10 * kWarpRows + lane,
                                      gradients + 11 * kWarpRows + 3 * lane,
                                      g_rest};
      const float* g_splats = gradients + kWarpRows * (kSmall + width);
      const float* g_values = g_splats + kGaussianRow * kWarpRows;
      for (int k = any ? 3 * sh_terms(args) : 0; k < width; ++k) g_rest[k] = 0.0f;
      if (any)
        project_one_vjp<false>(args, load_camera(args, 0, CameraType<Camera>()), row, g_splats + kGaussianRow * lane,
                               g_values + value_channels(args) * lane, g, g_dc, g_rest, statistics);
      if (penalties) penalties_vjp(args, row, g);
    }
    store_small(g, g_dc, gradients, lane);
  }
  writer.take(gradients, args.count);
}

template <typename Camera, bool kAdam, bool kGeneral> int run(const luxel_project_gaussians_args& args) {
  const int grid = (args.count + kThreads - 1) / kThreads;
  const size_t shared = sizeof(float) * (kThreads / kWarpRows) * numbers_of_warp(args, kGeneral);
  return launch("project_gaussians_bwd", project_gaussians_bwd_kernel<Camera, kAdam, kGeneral>, grid, kThreads, shared, args.stream, args,
                make_sink(args, parameter_rows<float>(args)));
}

template <typename Camera> int run(const luxel_project_gaussians_args& args) {
  const bool general = args.cameras != 1 || args.g_world_to_cam || args.g_shutters;
  if (args.adam_schedule) return general ? run<Camera, true, true>(args) : run<Camera, true, false>(args);
  return general ? run<Camera, false, true>(args) : run<Camera, false, false>(args);
}

}  // namespace
}  // namespace luxel

extern "C" int luxel_project_gaussians_bwd(const luxel_project_gaussians_args* args) {
  if (args->dtype != 0) return luxel::fail("the GPU kernels take float32");
  if (!luxel::aligned(args->g_splats) || !luxel::aligned(args->statistics))
    return luxel::fail("project_gaussians: g_splats and statistics must be aligned to 16 bytes");
  LUXEL_CUDA(cudaSetDevice(args->device));
  using namespace luxel;
  if (args->shutters) return args->lens ? run<RollingLens<float>>(*args) : run<RollingPinhole<float>>(*args);
  return args->lens ? run<LensCamera<float>>(*args) : run<Pinhole<float>>(*args);
}
