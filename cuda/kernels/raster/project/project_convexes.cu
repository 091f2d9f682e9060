// project_convexes on the GPU. Forward: a thread per (camera, convex). Backward: a thread per convex, over all cameras, so
// that parameter gradients need no atomics; a warp collects those of its 32 convexes in shared memory, in the order of each
// parameter's global memory, and passes them to the sink (row_sink.cuh).
#include "kernels/raster/project/project_convexes.h"

#include "device/launch.cuh"
#include "kernels/raster/project/row_sink.cuh"

namespace luxel {
namespace {

// Tunables: threads per block, and resident blocks per multiprocessor, which limit the registers.
constexpr int kForwardThreads = 64, kForwardBlocks = 12, kBackwardThreads = 64, kBackwardBlocks = 10;

// Floats of shared memory per convex in the forward pass: its points and SH coefficients.
__host__ __device__ __forceinline__ int numbers_forward(const luxel_project_convexes_args& args) {
  return 3 * (args.points_each + args.sh_stride);
}

__global__ void __launch_bounds__(kForwardThreads, kForwardBlocks)
    project_convexes_fwd_kernel(const __grid_constant__ luxel_project_convexes_args args) {
  extern __shared__ float4 shared[];
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, camera = blockIdx.y;
  const int first = blockIdx.x * kForwardThreads + warp * kWarpRows, n = first + lane;
  const int width = 3 * args.points_each, rest_width = 3 * args.sh_stride;
  float* points = reinterpret_cast<float*>(shared) + warp * kWarpRows * numbers_forward(args);
  float* rest = points + kWarpRows * width;
  stage(args.points, first, args.count, width, width, ~0u, points);
  staged();
  const Pinhole<float> cam = load_camera<float>(args, camera);
  ConvexRow<float> row;
  ConvexProjection<float> p;
  float splat[kConvexRow];
  int tiles = 0;
  if (n < args.count) {
    row = row_of<float>(args, n);
    row.points = points + width * lane;
    row.sh.sh_rest = rest + rest_width * lane;
    tiles = project_polygon(args, cam, row, p, splat);
  }
  const uint32_t seen = __ballot_sync(~0u, tiles > 0);
  if (seen != 0) {
    const int used = 3 * sh_terms(args.sh_degree, args.sh_stride);
    if (used > 0) stage(args.sh_rest, first, args.count, rest_width, used, seen, rest);
    staged();
    if (tiles > 0 && !store_splat(args, cam, camera, n, row.sh, p, splat)) tiles = 0;
  }
  if (n < args.count) args.tile_counts[static_cast<int64_t>(camera) * args.count + n] = tiles;
  add_totals<kForwardThreads / 32>(tiles, args.totals);
}

// Floats of shared memory per convex in the backward pass: its gradient, and for several cameras its points.
template <bool kGeneral> __host__ __device__ __forceinline__ int numbers_backward(const luxel_project_convexes_args& args) {
  return 3 * args.points_each + 7 + 3 * args.sh_stride + (kGeneral ? 3 * args.points_each : 0);
}

// Stores a lane's gradient, without points and sh_rest, among those of its warp in shared memory.
__device__ __forceinline__ void store_small(const ConvexGradient<float>& g, Vec3<float> g_dc, float* numbers, int lane) {
  float row[7];
  flatten(g, g_dc, row);
#pragma unroll
  for (int k = 0; k < 3; ++k) numbers[kWarpRows * k + lane] = row[k];
  store3(numbers + kWarpRows * 3 + 3 * lane, load3(row + 3));
  numbers[kWarpRows * 6 + lane] = row[6];
}

// kGeneral: several cameras, or gradients by the camera. Otherwise there is one camera, and the points and SH coefficients, loaded
// into shared memory together, are overwritten by their gradients.
template <bool kAdam, bool kGeneral>
__global__ void __launch_bounds__(kBackwardThreads, kBackwardBlocks)
    project_convexes_bwd_kernel(const __grid_constant__ luxel_project_convexes_args args,
                                const __grid_constant__ WarpSink<kConvexParameters> sink) {
  extern __shared__ float4 shared[];
  const bool skipped = args.skip != nullptr && *args.skip != 0;
  if (kAdam && skipped) return;
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int first = blockIdx.x * kBackwardThreads + warp * kWarpRows, n = first + lane;
  if (first >= args.count) return;  // warps are independent: there is no block-wide barrier
  bool any = false;
  for (int camera = 0; camera < args.cameras; ++camera)
    any |= n < args.count && args.tile_counts[static_cast<int64_t>(camera) * args.count + n] > 0;
  const uint32_t seen = __ballot_sync(~0u, any);

  Writer<kAdam, kConvexParameters> writer = {sink, sink.decays, nullptr, ~0u, first};
  if (!writer.begin(args, seen)) return;
  float* numbers = nullptr;  // null stands for zeros
  if (seen != 0 || args.mask_penalty != 0.0f || sink.extra) {
    numbers = reinterpret_cast<float*>(shared) + warp * kWarpRows * numbers_backward<kGeneral>(args);
    const int width = 3 * args.points_each, rest_width = 3 * args.sh_stride;
    const int used = 3 * sh_terms(args.sh_degree, args.sh_stride);
    float* const g_points = numbers + lane * width;
    float* const rest = numbers + sink.start[kConvexParameters - 1];
    float* const g_rest = rest + lane * rest_width;
    float* const points = kGeneral ? rest + kWarpRows * rest_width : numbers;
    if (seen != 0) stage(args.points, first, args.count, width, width, ~0u, points);
    if (!kGeneral && seen != 0 && used > 0) stage(args.sh_rest, first, args.count, rest_width, used, seen, rest);
    ConvexRow<float> row = {};
    if (n < args.count) row = row_of<float>(args, n);  // before the wait
    row.points = points + width * lane;
    if (!kGeneral) row.sh.sh_rest = g_rest;
    for (int k = 0; kGeneral && k < width; ++k) g_points[k] = 0.0f;
    staged();
    for (int k = any ? width : 0; !kGeneral && k < width; ++k) g_points[k] = 0.0f;
    for (int k = !kGeneral && any ? used : 0; k < rest_width; ++k) g_rest[k] = 0.0f;
    ConvexGradient<float> g = {};
    Vec3<float> g_dc = {0.0f, 0.0f, 0.0f};
    float* statistics = args.statistics && !skipped ? out<float>(args.statistics) + 4 * static_cast<int64_t>(n) : nullptr;
    if (kGeneral) {
      ViewStatistics<float> stats(any ? statistics : nullptr, args.largest_of_views != 0);
      for (int camera = 0; camera < args.cameras; ++camera) {
        g.pose = {};
        const int64_t index = static_cast<int64_t>(camera) * args.count + n;
        const bool here = n < args.count && args.tile_counts[index] > 0;
        if (here)
          project_one_vjp<true>(args, load_camera<float>(args, camera), row,
                                in<float>(args.g_splats) + kConvexRow * index,
                                in<float>(args.g_values) + value_channels(args) * index, g, g_dc, g_points, g_rest,
                                stats.of_view());
        stats.end_view(camera == 0);
        if (args.g_world_to_cam && __any_sync(~0u, here))
          add_pose_of_warp(g.pose, out<float>(args.g_world_to_cam) + 16 * camera);
      }
      stats.end();
    } else if (any) {
      const int64_t index = n;
      project_one_vjp<false>(args, load_camera<float>(args, 0), row, in<float>(args.g_splats) + kConvexRow * index,
                             in<float>(args.g_values) + value_channels(args) * index, g, g_dc, g_points, g_rest, statistics);
    }
    if (args.mask_penalty != 0.0f && n < args.count) penalty_vjp(args, row.shape, g);
    spread_over_points(g.centroid, args.points_each, g_points);
    store_small(g, g_dc, numbers + kWarpRows * width, lane);
  }
  writer.take(numbers, args.count);
}

template <bool kAdam, bool kGeneral> int run_backward(const luxel_project_convexes_args& args) {
  const size_t shared = sizeof(float) * kBackwardThreads * numbers_backward<kGeneral>(args);
  return launch("project_convexes_bwd", project_convexes_bwd_kernel<kAdam, kGeneral>, blocks_for(args.count, kBackwardThreads),
                kBackwardThreads, shared, args.stream, args, make_sink(args, parameter_rows<float>(args)));
}

int check(const luxel_project_convexes_args& args) {
  if (args.dtype != 0) return fail("the GPU kernels take float32");
  if (args.points_each < 3 || args.points_each > LUXEL_CORNERS)
    return fail("project_convexes: %d points of a convex, 3 to %d can be", args.points_each, LUXEL_CORNERS);
  if (!aligned(args.splats) || !aligned(args.g_splats) || !aligned(args.statistics))
    return fail("project_convexes: splats, g_splats and statistics must be aligned to 16 bytes");
  LUXEL_CUDA(cudaSetDevice(args.device));
  return 0;
}

}  // namespace
}  // namespace luxel

extern "C" {

int luxel_project_convexes_fwd(const luxel_project_convexes_args* args) {
  using namespace luxel;
  if (check(*args)) return -1;
  const dim3 grid(blocks_for(args->count, kForwardThreads), args->cameras);
  const size_t shared = sizeof(float) * kForwardThreads * numbers_forward(*args);
  return launch("project_convexes_fwd", project_convexes_fwd_kernel, grid, kForwardThreads, shared, args->stream, *args);
}

int luxel_project_convexes_bwd(const luxel_project_convexes_args* args) {
  using namespace luxel;
  if (check(*args)) return -1;
  const bool general = args->cameras != 1 || args->g_world_to_cam;
  if (args->adam_schedule) return general ? run_backward<true, true>(*args) : run_backward<true, false>(*args);
  return general ? run_backward<false, true>(*args) : run_backward<false, false>(*args);
}
}
