// project_convexes on the GPU. Forward: a thread per (camera, convex). Backward: a thread per convex, over all cameras, so
// that parameter gradients need no atomics; a warp gathers those of its 32 in shared memory, in the order in which each
// parameter lies in global memory.
#include "project_convexes.h"

#include "launch.cuh"
#include "warp_rows.cuh"

namespace luxel {
namespace {

// Tunables: threads of a block, and blocks of a multiprocessor, which the registers are cut to.
constexpr int kForwardThreads = 128, kForwardBlocks = 4, kBackwardThreads = 64, kBackwardBlocks = 8;

// Numbers in shared memory that a convex needs in the forward pass: its points, and its coefficients of colour.
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
  float splat[LUXEL_CONVEX];
  int tiles = 0;
  if (n < args.count) {
    row = row_of<float>(args, n);
    row.points = points + width * lane;
    row.sh.sh_rest = rest + rest_width * lane;
    tiles = project_polygon(args, cam, row, p, splat);
  }
  const uint32_t seen = __ballot_sync(~0u, tiles > 0);
  if (seen != 0) {
    const int wanted = 3 * sh_terms(args.sh_degree, args.sh_stride);
    if (wanted > 0) stage(args.sh_rest, first, args.count, rest_width, wanted, seen, rest);
    staged();
    if (tiles > 0 && !store_splat(args, cam, camera, n, row.sh, p, splat)) tiles = 0;
  }
  if (n < args.count) args.tile_counts[static_cast<int64_t>(camera) * args.count + n] = tiles;
  add_totals<kForwardThreads / 32>(tiles, args.totals);
}

// Numbers of a convex's gradient.
__host__ __device__ __forceinline__ int numbers_backward(const luxel_project_convexes_args& args) {
  return 3 * args.points_each + 7 + 3 * args.sh_stride;
}

__global__ void __launch_bounds__(kBackwardThreads, kBackwardBlocks)
    project_convexes_bwd_kernel(const __grid_constant__ luxel_project_convexes_args args) {
  extern __shared__ float4 shared[];
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int first = blockIdx.x * kBackwardThreads + warp * kWarpRows, n = first + lane;
  if (first >= args.count) return;  // warps are on their own: there is no barrier of the block
  const ConvexParameterRows<float> rows = parameter_rows<float>(args);
  // Of this warp: all rows of the first parameter, then of the next.
  float* const numbers = reinterpret_cast<float*>(shared) + warp * kWarpRows * numbers_backward(args);
  for (int k = lane; k < kWarpRows * numbers_backward(args); k += 32) numbers[k] = 0.0f;
  __syncwarp();
  float* mine[kConvexParameters];
  float* next = numbers;
#pragma unroll
  for (int i = 0; i < kConvexParameters; ++i) {
    mine[i] = next + lane * rows.width[i];
    next += kWarpRows * rows.width[i];
  }
  ConvexGradient<float> g = {};
  Vec3<float> g_dc = {0.0f, 0.0f, 0.0f};
  const bool skipped = args.skip != nullptr && *args.skip != 0;
  float* statistics = args.statistics && !skipped ? out<float>(args.statistics) + 4 * static_cast<int64_t>(n) : nullptr;
  for (int camera = 0; camera < args.cameras; ++camera) {
    g.pose = {};
    const int64_t index = static_cast<int64_t>(camera) * args.count + n;
    const bool here = n < args.count && args.tile_counts[index] > 0;
    if (here) {
      const float* g_splat = in<float>(args.g_splats) + LUXEL_CONVEX * index;
      const float* g_value = in<float>(args.g_values) + value_channels(args) * index;
      project_one_vjp(args, load_camera<float>(args, camera), row_of<float>(args, n), g_splat, g_value, g, g_dc, mine[0], mine[6],
                      statistics);
    }
    if (args.g_world_to_cam && __any_sync(~0u, here))
      add_pose_of_warp(g.pose, out<float>(args.g_world_to_cam) + 16 * camera);
  }
  spread_over_points(g.centroid, args.points_each, mine[0]);
  *mine[1] = g.log_delta;
  *mine[2] = g.log_sigma;
  *mine[3] = g.opacity_logit;
  store3(mine[4], g_dc);
  *mine[5] = g.mask_logit;
  __syncwarp();
  const int count = min(kWarpRows, args.count - first);
  const float* from = numbers;
#pragma unroll
  for (int i = 0; i < kConvexParameters; ++i) {
    float* target = rows.target[i] + static_cast<int64_t>(first) * rows.width[i];
    for (int k = lane; k < count * rows.width[i]; k += 32) target[k] = from[k];
    from += kWarpRows * rows.width[i];
  }
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
  const size_t shared = sizeof(float) * kBackwardThreads * numbers_backward(*args);
  const unsigned grid = blocks_for(args->count, kBackwardThreads);
  return launch("project_convexes_bwd", project_convexes_bwd_kernel, grid, kBackwardThreads, shared, args->stream, *args);
}
}
