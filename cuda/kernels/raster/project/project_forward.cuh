// The forward pass of a stage that projects Gaussians, on the GPU: a thread per (camera, Gaussian). Args: its argument struct. The
// work per Gaussian is in project_geometry, store_splat and so on, whose overloads must be declared before this header.
#pragma once

#include "device/launch.cuh"
#include "kernels/raster/project/project_gaussians.h"
#include "kernels/raster/project/warp_rows.cuh"

namespace luxel {

constexpr int kForwardThreads = 256;
constexpr int kForwardBlocks = 4;  // of a multiprocessor, which the registers are cut to
constexpr int kForwardLensBlocks = 2;  // the same with sigma points, which take more

template <typename Camera, typename Args> __device__ __forceinline__ void project_forward(const Args& args) {
  extern __shared__ float4 shared[];
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, camera = blockIdx.y;
  const int first = blockIdx.x * kForwardThreads + warp * kWarpRows, n = first + lane;
  const auto cam = load_camera(args, camera, CameraType<Camera>());
  auto row = row_of<float>(args, n);
  Projected<float> projected;
  const bool alive = n < args.count && project_geometry(args, cam, row, projected);
  const uint32_t seen = __ballot_sync(~0u, alive);
  int tiles = 0;
  if (seen != 0) {
    const int width = 3 * args.sh_stride, used = 3 * sh_terms(args.sh_degree, args.sh_stride);
    float* rest = reinterpret_cast<float*>(shared) + warp * kWarpRows * width;
    if (used > 0) stage(args.sh_rest, first, args.count, width, used, seen, rest);
    if (alive) tiles = count_tiles(args.width, args.height, projected.splat);  // while the copy is under way
    staged();
    row.sh_rest = rest + lane * width;
    if (tiles > 0 && !store_splat(args, cam, camera, n, row, projected)) tiles = 0;
  }
  if (n < args.count) args.tile_counts[static_cast<int64_t>(camera) * args.count + n] = tiles;
  add_totals<kForwardThreads / 32>(tiles, args.totals);
}

template <typename Args> int launch_forward(const char* stage, void (*kernel)(Args), const Args& args) {
  const dim3 grid(blocks_for(args.count, kForwardThreads), args.cameras);
  const size_t shared = sizeof(float) * kForwardThreads * 3 * args.sh_stride;
  return launch(stage, kernel, grid, kForwardThreads, shared, args.stream, args);
}

}  // namespace luxel
