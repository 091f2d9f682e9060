// project_surfels on the GPU. Forward: a thread per (camera, surfel). Backward: a thread per surfel, over all cameras, so that
// parameter gradients need no atomics. A warp loads the inputs of its 32 surfels into shared memory and collects their gradients
// there, in the order of each parameter's global memory; the sink (row_sink.cuh) consumes them.
#include "kernels/raster/project/project_surfels.h"

#include "device/launch.cuh"
#include "kernels/raster/project/row_sink.cuh"

namespace luxel {
namespace {

// Tunables: threads per block, and resident blocks per multiprocessor, which limit the registers.
constexpr int kForwardThreads = 256, kForwardBlocks = 4, kBackwardThreads = 128, kBackwardBlocks = 4;

__global__ void __launch_bounds__(kForwardThreads, kForwardBlocks)
    project_surfels_fwd_kernel(const __grid_constant__ luxel_project_surfels_args args) {
  extern __shared__ float4 shared[];
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, camera = blockIdx.y;
  const int first = blockIdx.x * kForwardThreads + warp * kWarpRows, n = first + lane;
  const Pinhole<float> cam = load_camera<float>(args, camera);
  SurfelRow<float> row = row_of<float>(args, n);
  ProjectedSurfel<float> projected;
  int tiles = n < args.count ? project_geometry(args, cam, row, projected) : 0;
  const uint32_t seen = __ballot_sync(~0u, tiles > 0);
  if (seen != 0) {
    const int width = 3 * args.sh_stride, used = 3 * sh_terms(args);
    float* rest = reinterpret_cast<float*>(shared) + warp * kWarpRows * width;
    if (used > 0) stage(args.sh_rest, first, args.count, width, used, seen, rest);
    staged();
    row.sh_rest = rest + lane * width;
    if (tiles > 0 && !store_splat(args, cam, camera, n, row, projected)) tiles = 0;
  }
  if (n < args.count) args.tile_counts[static_cast<int64_t>(camera) * args.count + n] = tiles;
  add_totals<kForwardThreads / 32>(tiles, args.totals);
}

// Floats of shared memory per warp in the backward pass.
__host__ __device__ __forceinline__ int numbers_of_warp(const luxel_project_surfels_args& args, bool general) {
  return kWarpRows * (kSurfelNumbers + 3 * args.sh_stride + (general ? 0 : kSurfelRow + value_channels(args)));
}

// Stores a lane's gradient, without sh_rest, among those of its warp in shared memory.
__device__ __forceinline__ void store_small(const SurfelGradient<float>& g, Vec3<float> g_dc, float* gradients, int row) {
  constexpr int kParameter[kSurfelNumbers] = {0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 4, 4, 4};
  constexpr int kStart[5] = {0, 3, 7, 9, 10}, kWidth[5] = {3, 4, 2, 1, 3};
  float numbers[kSurfelNumbers];
  flatten(g, g_dc, numbers);
#pragma unroll
  for (int k = 0; k < kSurfelNumbers; ++k) {
    const int i = kParameter[k];
    gradients[kWarpRows * kStart[i] + row * kWidth[i] + k - kStart[i]] = numbers[k];
  }
}

// Starts asynchronous copies of all inputs of a warp's surfels to shared memory: the small parameters of all 32 to where their
// gradients will be, then sh_rest, then the gradients by splats and values.
__device__ __forceinline__ void stage_inputs(const luxel_project_surfels_args& args, int first, uint32_t seen, float* numbers) {
  const int width = 3 * args.sh_stride, used = 3 * sh_terms(args), channels = value_channels(args);
  stage(args.means, first, args.count, 3, 3, ~0u, numbers);
  stage(args.quats, first, args.count, 4, 4, ~0u, numbers + 3 * kWarpRows);
  stage(args.log_scales, first, args.count, 2, 2, ~0u, numbers + 7 * kWarpRows);
  stage(args.opacity_logits, first, args.count, 1, 1, ~0u, numbers + 9 * kWarpRows);
  stage(args.sh_dc, first, args.count, 3, 3, ~0u, numbers + 10 * kWarpRows);
  if (used > 0) stage(args.sh_rest, first, args.count, width, used, seen, numbers + kSurfelNumbers * kWarpRows);
  numbers += kWarpRows * (kSurfelNumbers + width);
  stage(args.g_splats, first, args.count, kSurfelRow, kSurfelRow, seen, numbers);
  stage(args.g_values, first, args.count, channels, channels, ~0u, numbers + kSurfelRow * kWarpRows);
}

// kGeneral: several cameras, or gradients by the camera. Otherwise there is one camera, and the inputs that stage_inputs loads are
// overwritten by their gradients.
template <bool kAdam, bool kGeneral>
__global__ void __launch_bounds__(kBackwardThreads, kBackwardBlocks)
    project_surfels_bwd_kernel(const __grid_constant__ luxel_project_surfels_args args,
                               const __grid_constant__ WarpSink<kSurfelParameters> sink) {
  extern __shared__ float4 shared[];
  const bool skipped = args.skip != nullptr && *args.skip != 0;
  if (kAdam && skipped) return;
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int first = blockIdx.x * kBackwardThreads + warp * kWarpRows, n = first + lane;
  if (first >= args.count) return;  // warps are independent: there is no block-wide barrier
  const int width = 3 * args.sh_stride;
  bool any = false;
  for (int camera = 0; camera < args.cameras; ++camera)
    any |= n < args.count && args.tile_counts[static_cast<int64_t>(camera) * args.count + n] > 0;
  const uint32_t seen = __ballot_sync(~0u, any);
  const bool penalties = args.opacity_penalty != 0.0f || args.scale_penalty != 0.0f;

  Writer<kAdam, kSurfelParameters> writer = {sink, sink.decays, nullptr, ~0u, first};
  if (!writer.begin(args, seen)) return;
  float* gradients = nullptr;  // null stands for zeros
  if (seen != 0 || penalties || sink.extra) {
    gradients = reinterpret_cast<float*>(shared) + warp * numbers_of_warp(args, kGeneral);
    float* g_rest = gradients + kWarpRows * kSurfelNumbers + lane * width;
    SurfelGradient<float> g = {};
    Vec3<float> g_dc = {0.0f, 0.0f, 0.0f};
    float* statistics = args.statistics && !skipped ? out<float>(args.statistics) + 4 * static_cast<int64_t>(n) : nullptr;
    if (kGeneral) {
      ViewStatistics<float> stats(any ? statistics : nullptr, args.largest_of_views != 0);
      for (int k = 0; k < width; ++k) g_rest[k] = 0.0f;
      for (int camera = 0; camera < args.cameras; ++camera) {
        g.pose = {};
        const int64_t index = static_cast<int64_t>(camera) * args.count + n;
        const bool here = n < args.count && args.tile_counts[index] > 0;
        if (here)
          project_one_vjp<true>(args, load_camera<float>(args, camera), row_of<float>(args, n),
                                in<float>(args.g_splats) + kSurfelRow * index,
                                in<float>(args.g_values) + value_channels(args) * index, g, g_dc, g_rest, stats.of_view());
        stats.end_view(camera == 0);
        if (args.g_world_to_cam && __any_sync(~0u, here)) add_pose_of_warp(g.pose, out<float>(args.g_world_to_cam) + 16 * camera);
      }
      stats.end();
      if (penalties && n < args.count) penalties_vjp(args, row_of<float>(args, n), g);
    } else {
      stage_inputs(args, first, seen, gradients);
      staged();
      const SurfelRow<float> row = {gradients + 3 * lane,
                                    gradients + 3 * kWarpRows + 4 * lane,
                                    gradients + 7 * kWarpRows + 2 * lane,
                                    gradients + 9 * kWarpRows + lane,
                                    gradients + 10 * kWarpRows + 3 * lane,
                                    g_rest};
      const float* g_splats = gradients + kWarpRows * (kSurfelNumbers + width);
      const float* g_values = g_splats + kSurfelRow * kWarpRows;
      for (int k = any ? 3 * sh_terms(args) : 0; k < width; ++k) g_rest[k] = 0.0f;
      if (any)
        project_one_vjp<false>(args, load_camera<float>(args, 0), row, g_splats + kSurfelRow * lane,
                               g_values + value_channels(args) * lane, g, g_dc, g_rest, statistics);
      if (penalties) penalties_vjp(args, row, g);
    }
    store_small(g, g_dc, gradients, lane);
  }
  writer.take(gradients, args.count);
}

template <bool kAdam, bool kGeneral> int run_backward(const luxel_project_surfels_args& args) {
  const size_t shared = sizeof(float) * (kBackwardThreads / kWarpRows) * numbers_of_warp(args, kGeneral);
  return launch("project_surfels_bwd", project_surfels_bwd_kernel<kAdam, kGeneral>, blocks_for(args.count, kBackwardThreads),
                kBackwardThreads, shared, args.stream, args, make_sink(args, parameter_rows<float>(args)));
}

int check(const luxel_project_surfels_args& args) {
  if (args.dtype != 0) return fail("the GPU kernels take float32");
  if (!aligned(args.splats) || !aligned(args.g_splats) || !aligned(args.statistics))
    return fail("project_surfels: splats, g_splats and statistics must be aligned to 16 bytes");
  LUXEL_CUDA(cudaSetDevice(args.device));
  return 0;
}

}  // namespace
}  // namespace luxel

extern "C" {

int luxel_project_surfels_fwd(const luxel_project_surfels_args* args) {
  using namespace luxel;
  if (check(*args)) return -1;
  const dim3 grid(blocks_for(args->count, kForwardThreads), args->cameras);
  const size_t shared = sizeof(float) * kForwardThreads * 3 * args->sh_stride;
  return launch("project_surfels_fwd", project_surfels_fwd_kernel, grid, kForwardThreads, shared, args->stream, *args);
}

int luxel_project_surfels_bwd(const luxel_project_surfels_args* args) {
  using namespace luxel;
  if (check(*args)) return -1;
  const bool general = args->cameras != 1 || args->g_world_to_cam;
  if (args->adam_schedule) return general ? run_backward<true, true>(*args) : run_backward<true, false>(*args);
  return general ? run_backward<false, true>(*args) : run_backward<false, false>(*args);
}
}
