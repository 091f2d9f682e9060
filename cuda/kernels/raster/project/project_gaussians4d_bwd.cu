// project_gaussians4d on the GPU, backward: a thread per Gaussian, over all cameras, so that parameter gradients need no
// atomics. As in project_gaussians_bwd.cu a warp loads the inputs of its 32 Gaussians into shared memory, collects the
// gradients there in the order of each parameter's global memory, and passes them to the sink (row_sink.cuh).
#include "kernels/raster/project/project_gaussians4d.h"

#include "device/launch.cuh"
#include "kernels/raster/project/row_sink.cuh"

namespace luxel {
namespace {

// Tunables: threads per block, and resident blocks per multiprocessor, which limit the registers. With several views a warp needs
// more of both registers and shared memory.
__host__ __device__ constexpr int threads_of(bool general) { return general ? 64 : 128; }
__host__ __device__ constexpr int blocks_of(bool general) { return general ? 6 : 4; }

// Floats of shared memory per warp: gradients, and apart from them the parameters (several views) or the gradients by splats and
// values (one view).
__host__ __device__ __forceinline__ int numbers_of_warp(const luxel_project_gaussians4d_args& args, bool general) {
  const int row = kSmall4d + 3 * args.sh_stride;
  return kWarpRows * (row + (general ? row : kGaussianRow + value_channels(args)));
}

// The parameters without sh_rest: numbers of a row, and where they begin among those of a row.
constexpr int kSmallParameters = kParameters4d - 1;
__host__ __device__ constexpr int width_of(int parameter) {
  constexpr int kWidth[kSmallParameters] = {3, 1, 3, 1, 8, 1, 3};
  return kWidth[parameter];
}
__host__ __device__ constexpr int start_of(int parameter) {
  constexpr int kStart[kSmallParameters] = {0, 3, 4, 7, 8, 16, 17};
  return kStart[parameter];
}

// A lane's row among the parameters that stage_parameters loads; sh_rest follows the small ones.
__device__ __forceinline__ Gaussian4dRow<float> staged_row(const float* numbers, const float* rest, int lane) {
  const float* at[kSmallParameters];
#pragma unroll
  for (int i = 0; i < kSmallParameters; ++i) at[i] = numbers + kWarpRows * start_of(i) + width_of(i) * lane;
  return {at[0], at[1], at[2], at[3], at[4], at[5], at[6], rest};
}

// Starts asynchronous copies of the parameters of a warp's Gaussians to shared memory: the small ones of all 32, then sh_rest of
// the visible ones.
__device__ __forceinline__ void stage_parameters(const luxel_project_gaussians4d_args& args, int first, uint32_t seen,
                                                 float* numbers) {
  const void* const tensors[kSmallParameters] = {args.means,  args.times,          args.log_scales, args.log_scale_t,
                                                 args.rotors, args.opacity_logits, args.sh_dc};
#pragma unroll
  for (int i = 0; i < kSmallParameters; ++i)
    stage(tensors[i], first, args.count, width_of(i), width_of(i), ~0u, numbers + kWarpRows * start_of(i));
  const int width = 3 * args.sh_stride, used = 3 * sh_terms(args);
  if (used > 0) stage(args.sh_rest, first, args.count, width, used, seen, numbers + kWarpRows * kSmall4d);
}
// The same for the gradients by splats and values.
__device__ __forceinline__ void stage_gradients(const luxel_project_gaussians4d_args& args, int first, uint32_t seen,
                                                float* numbers) {
  const int channels = value_channels(args);
  stage(args.g_splats, first, args.count, kGaussianRow, kGaussianRow, seen, numbers);
  stage(args.g_values, first, args.count, channels, channels, ~0u, numbers + kGaussianRow * kWarpRows);
}

// Adds the warp's gradients by one camera and its timestamp to the global ones.
__device__ __forceinline__ void add_view(const luxel_project_gaussians4d_args& args, int camera,
                                         const Gaussian4dTotal<float>& total) {
  if (args.g_world_to_cam) add_pose_of_warp(total.pose, out<float>(args.g_world_to_cam) + 16 * camera);
  if (args.g_shutters) add_shutter_of_warp(total.pose, out<float>(args.g_shutters) + LUXEL_SHUTTER * camera);
  if (args.g_timestamps) {
    const float sum = warp_sum(total.timestamp);
    if ((threadIdx.x & 31) == 0) atomicAdd(out<float>(args.g_timestamps) + camera, sum);
  }
}

// Stores a lane's gradient, without sh_rest, among those of its warp in shared memory.
__device__ __forceinline__ void store_small(const float (&gradient)[kSmall4d], float* numbers, int lane) {
  constexpr int kParameter[kSmall4d] = {0, 0, 0, 1, 2, 2, 2, 3, 4, 4, 4, 4, 4, 4, 4, 4, 5, 6, 6, 6};
#pragma unroll
  for (int k = 0; k < kSmall4d; ++k) {
    const int i = kParameter[k];
    numbers[kWarpRows * start_of(i) + lane * width_of(i) + k - start_of(i)] = gradient[k];
  }
}

// kGeneral: several cameras, or gradients by camera or timestamp. Otherwise there is one camera, and the parameters in shared
// memory are overwritten by their gradients.
template <typename Camera, bool kAdam, bool kGeneral>
__global__ void __launch_bounds__(threads_of(kGeneral), blocks_of(kGeneral))
    project_gaussians4d_bwd_kernel(const __grid_constant__ luxel_project_gaussians4d_args args,
                                   const __grid_constant__ WarpSink<kParameters4d> sink) {
  extern __shared__ float4 shared[];
  const bool skipped = args.skip != nullptr && *args.skip != 0;
  if (kAdam && skipped) return;
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int first = blockIdx.x * threads_of(kGeneral) + warp * kWarpRows, n = first + lane;
  if (first >= args.count) return;  // warps are independent: there is no block-wide barrier
  const int width = 3 * args.sh_stride;
  bool any = false;
  for (int camera = 0; camera < args.cameras; ++camera)
    any |= n < args.count && args.tile_counts[static_cast<int64_t>(camera) * args.count + n] > 0;
  const uint32_t seen = __ballot_sync(~0u, any);

  Writer<kAdam, kParameters4d> writer = {sink, sink.decays, nullptr, ~0u, first};
  if (!writer.begin(args, seen)) return;
  float* numbers = nullptr;  // null stands for zeros
  if (seen != 0 || sink.extra) {
    numbers = reinterpret_cast<float*>(shared) + warp * numbers_of_warp(args, kGeneral);
    float* g_rest = numbers + kWarpRows * kSmall4d + lane * width;
    float* const behind = numbers + kWarpRows * (kSmall4d + width);
    if (seen != 0) stage_parameters(args, first, seen, kGeneral ? behind : numbers);
    if (!kGeneral && seen != 0) stage_gradients(args, first, seen, behind);
    float* statistics = args.statistics && !skipped ? out<float>(args.statistics) + 4 * static_cast<int64_t>(n) : nullptr;
    Gaussian4dTotal<float> total = {};
    float gradient[kSmall4d] = {};
    if (kGeneral) {
      ViewStatistics<float> stats(any ? statistics : nullptr, args.largest_of_views != 0);
      for (int k = 0; k < width; ++k) g_rest[k] = 0.0f;
      staged();
      const Gaussian4dRow<float> row = staged_row(behind, behind + kWarpRows * kSmall4d + lane * width, lane);
      for (int camera = 0; camera < args.cameras; ++camera) {
        total.pose = {};
        total.timestamp = 0.0f;
        const int64_t index = static_cast<int64_t>(camera) * args.count + n;
        const bool here = n < args.count && args.tile_counts[index] > 0;
        if (here) {
          const float* g_splat = in<float>(args.g_splats) + kGaussianRow * index;
          const float* g_value = in<float>(args.g_values) + value_channels(args) * index;
          project_one_vjp<true>(args, load_camera(args, camera, CameraType<Camera>()), row, g_splat, g_value, total, g_rest,
                                stats.of_view());
        }
        stats.end_view(camera == 0);
        if (__any_sync(~0u, here)) add_view(args, camera, total);
      }
      stats.end();
      if (any) flatten(row, total, gradient);
    } else {
      staged();
      const Gaussian4dRow<float> row = staged_row(numbers, g_rest, lane);
      for (int k = any ? 3 * sh_terms(args) : 0; k < width; ++k) g_rest[k] = 0.0f;
      if (any) {
        project_one_vjp<false>(args, load_camera(args, 0, CameraType<Camera>()), row, behind + kGaussianRow * lane,
                               behind + kGaussianRow * kWarpRows + value_channels(args) * lane, total, g_rest, statistics);
        flatten(row, total, gradient);
      }
    }
    store_small(gradient, numbers, lane);
  }
  writer.take(numbers, args.count);
}

template <typename Camera, bool kAdam, bool kGeneral> int run(const luxel_project_gaussians4d_args& args) {
  constexpr int kThreads = threads_of(kGeneral);
  const size_t shared = sizeof(float) * (kThreads / kWarpRows) * numbers_of_warp(args, kGeneral);
  return launch("project_gaussians4d_bwd", project_gaussians4d_bwd_kernel<Camera, kAdam, kGeneral>, blocks_for(args.count, kThreads),
                kThreads, shared, args.stream, args, make_sink(args, parameter_rows<float>(args)));
}

template <typename Camera> int run(const luxel_project_gaussians4d_args& args) {
  const bool general = args.cameras != 1 || args.g_world_to_cam || args.g_timestamps || args.g_shutters;
  if (args.adam_schedule) return general ? run<Camera, true, true>(args) : run<Camera, true, false>(args);
  return general ? run<Camera, false, true>(args) : run<Camera, false, false>(args);
}

}  // namespace
}  // namespace luxel

extern "C" int luxel_project_gaussians4d_bwd(const luxel_project_gaussians4d_args* args) {
  if (args->dtype != 0) return luxel::fail("the GPU kernels take float32");
  if (!luxel::aligned(args->g_splats) || !luxel::aligned(args->statistics))
    return luxel::fail("project_gaussians4d: g_splats and statistics must be aligned to 16 bytes");
  LUXEL_CUDA(cudaSetDevice(args->device));
  using namespace luxel;
  if (args->shutters)
    return args->lens ? run<Timed<float, RollingLens>>(*args) : run<Timed<float, RollingPinhole>>(*args);
  return args->lens ? run<Timed<float, LensCamera>>(*args) : run<Timed<float, Pinhole>>(*args);
}
