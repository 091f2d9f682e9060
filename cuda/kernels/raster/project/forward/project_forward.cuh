// The forward pass of a stage that projects primitives (see projection_stage.h), on the GPU: a thread per (camera, primitive). Twin
// of project_forward.h.
#pragma once

#include "device/launch.cuh"
#include "kernels/raster/project/projection_stage.h"
#include "kernels/raster/project/sh_values.h"
#include "kernels/raster/project/warp_rows.cuh"

namespace luxel {

// Tunables of a stage, where it has no others: threads per block, and blocks of a multiprocessor, which the registers are cut to;
// sigma points take more of these.
struct ForwardTunables {
  static constexpr int kThreads = 256;
  template <typename Camera> static constexpr int blocks() { return kHasLens<Camera, float> ? 2 : 4; }
};

// Floats of shared memory per primitive.
template <typename Stage> __host__ __device__ __forceinline__ int numbers_forward(const typename Stage::Args& args) {
  return points_width<Stage>(args) + 3 * args.projection.sh_stride;
}

template <typename Stage, typename Tunables, typename Camera>
__global__ void __launch_bounds__(Tunables::kThreads, Tunables::template blocks<Camera>())
    project_fwd_kernel(const __grid_constant__ typename Stage::Args args) {
  extern __shared__ float4 shared[];
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, camera = blockIdx.y;
  const int first = blockIdx.x * Tunables::kThreads + warp * kWarpRows, n = first + lane;
  const int points = points_width<Stage>(args);
  float* const own = reinterpret_cast<float*>(shared) + warp * kWarpRows * numbers_forward<Stage>(args);
  typename Stage::template Row<float> row;
  if constexpr (Stage::kPoints) {
    stage(args.points, first, args.projection.count, points, points, ~0u, own);
    staged();
    if (n < args.projection.count) row = row_of<float>(args, n);
    row.points = own + points * lane;
  } else {
    row = row_of<float>(args, n);
  }
  const Camera cam = load_camera(args, camera, CameraType<Camera>());
  typename Stage::template Projected<float> projected;
  const bool alive = n < args.projection.count && project_geometry(args, cam, row, projected);
  const uint32_t seen = __ballot_sync(~0u, alive);
  int tiles = 0;
  if (seen != 0) {
    const int width = 3 * args.projection.sh_stride, used = 3 * sh_terms(args);
    float* const rest = own + kWarpRows * points;
    if (used > 0) stage(args.sh_rest, first, args.projection.count, width, used, seen, rest);
    if (alive) tiles = count_tiles(args, projected);  // while the copy is under way
    staged();
    row.sh_rest = rest + width * lane;
    if (tiles > 0 && !store_splat(args, cam, camera, n, row, projected)) tiles = 0;
  }
  if (n < args.projection.count) args.projection.tile_counts[static_cast<int64_t>(camera) * args.projection.count + n] = tiles;
  add_totals<Tunables::kThreads / 32>(tiles, args.projection.totals);
}

// name: of the stage, for messages.
template <typename Stage, typename Tunables = ForwardTunables> int project_forward(const char* name, const typename Stage::Args& args) {
  const dim3 grid(blocks_for(args.projection.count, Tunables::kThreads), args.projection.cameras);
  const size_t shared = sizeof(float) * Tunables::kThreads * numbers_forward<Stage>(args);
  return with_camera_type<Stage, float>(args, [&](auto type) {
    const auto kernel = project_fwd_kernel<Stage, Tunables, typename decltype(type)::Type>;
    return launch(name, kernel, grid, Tunables::kThreads, shared, args.stream, args);
  });
}

}  // namespace luxel
