// project_gaussians on the GPU, forward: a thread per (camera, Gaussian). The backward pass is in project_gaussians_bwd.cu.
#include "project_gaussians.h"

#include "launch.cuh"
#include "warp_rows.cuh"

namespace luxel {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 4;  // of a multiprocessor, which the registers are cut to

__global__ void __launch_bounds__(kThreads, kBlocks)
    project_gaussians_fwd_kernel(const __grid_constant__ luxel_project_gaussians_args args) {
  extern __shared__ float4 shared[];
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, camera = blockIdx.y;
  const int first = blockIdx.x * kThreads + warp * kWarpRows, n = first + lane;
  const Pinhole<float> cam = load_camera<float>(args, camera);
  GaussianRow<float> row = row_of<float>(args, n);
  Projected<float> projected;
  const bool alive = n < args.count && project_geometry(args, cam, row, projected);
  const uint32_t seen = __ballot_sync(~0u, alive);
  int tiles = 0;
  if (seen != 0) {
    const int width = 3 * args.sh_stride, wanted = 3 * sh_terms(args);
    float* rest = reinterpret_cast<float*>(shared) + warp * kWarpRows * width;
    if (wanted > 0) stage(args.sh_rest, first, args.count, width, wanted, seen, rest);
    if (alive) tiles = count_tiles(args, projected.splat);  // while the copy is under way
    staged();
    row.sh_rest = rest + lane * width;
    if (tiles > 0 && !store_splat(args, cam, camera, n, row, projected)) tiles = 0;
  }
  if (n < args.count) args.tile_counts[static_cast<int64_t>(camera) * args.count + n] = tiles;
  add_totals<kThreads / 32>(tiles, args.totals);
}

}  // namespace
}  // namespace luxel

extern "C" {

int luxel_project_gaussians_fwd(const luxel_project_gaussians_args* args) {
  if (args->dtype != 0) return luxel::fail("the GPU kernels take float32");
  if (!luxel::aligned(args->splats)) return luxel::fail("project_gaussians: splats must be aligned to 16 bytes");
  LUXEL_CUDA(cudaSetDevice(args->device));
  const dim3 grid(luxel::blocks_for(args->count, luxel::kThreads), args->cameras);
  const size_t shared = sizeof(float) * luxel::kThreads * 3 * args->sh_stride;
  return luxel::launch("project_gaussians_fwd", luxel::project_gaussians_fwd_kernel, grid, luxel::kThreads, shared, args->stream, *args);
}
}
