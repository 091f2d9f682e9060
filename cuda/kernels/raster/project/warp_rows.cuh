// Shared by the GPU kernels that project primitives: a warp takes 32 consecutive primitives and copies their rows to shared memory
// together. A row of sh_rest is 12 * sh_stride bytes: if each thread read its own row, every sector would be requested eight
// times.
#pragma once

#include "kernels/raster/stage.h"
#include "device/warp_sum.cuh"

#include <cuda_pipeline.h>

namespace luxel {

constexpr int kWarpRows = 32;

// Integer division by a row's width w: e / w = (e * width_reciprocal(w)) >> 20 for all e < 32 w, w <= 45.
__host__ __device__ __forceinline__ uint32_t width_reciprocal(int width) { return ((1u << 20) + width - 1) / width; }
__device__ __forceinline__ int quotient(int e, uint32_t by_width) { return static_cast<int>((e * by_width) >> 20); }

__host__ __device__ __forceinline__ bool aligned(const void* address) { return (reinterpret_cast<uintptr_t>(address) & 15) == 0; }

// Starts an asynchronous copy of rows first .. first+31 of a tensor [count,width] to `rows` (16-byte aligned), at least the first
// `used` numbers of the rows in `mask`. staged() must be called before they are read.
__device__ __forceinline__ void stage(const void* tensor, int first, int count, int width, int used, uint32_t mask,
                                      float* rows) {
  const float* source = in<float>(tensor) + static_cast<int64_t>(first) * width;
  const uint32_t by_width = width_reciprocal(width);
  const int lane = threadIdx.x & 31;
  if (first + kWarpRows <= count && aligned(tensor)) {
    const bool all = mask == ~0u && used == width;
    for (int e = 4 * lane; e < kWarpRows * width; e += 4 * 32) {
      const int row = quotient(e, by_width), column = e - row * width;
      const uint32_t seen = mask >> row;  // four numbers can end in the next row
      if (all || ((seen & 1) && column < used) || ((seen & 2) && column + 4 > width))
        __pipeline_memcpy_async(rows + e, source + e, 16);
    }
  } else {
#pragma unroll 1
    for (int e = lane; e < min(kWarpRows, count - first) * width; e += 32)
      if (mask >> quotient(e, by_width) & 1) rows[e] = source[e];
  }
}
__device__ __forceinline__ void staged() {
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncwarp();
}

// Adds a warp's gradients by one camera to g_world_to_cam [4,4].
__device__ __forceinline__ void add_pose_of_warp(const PoseGradient<float>& g, float* g_world_to_cam) {
  float pose[12];
  flatten(g, pose);
#pragma unroll
  for (int k = 0; k < 12; ++k) {
    const float sum = warp_sum(pose[k]);
    if ((threadIdx.x & 31) == 0) atomicAdd(g_world_to_cam + k, sum);
  }
}

// The same by the velocities of a rolling shutter, to g_shutter [8].
__device__ __forceinline__ void add_shutter_of_warp(const PoseGradient<float>& g, float* g_shutter) {
  const float velocities[6] = {g.linear.x, g.linear.y, g.linear.z, g.angular.x, g.angular.y, g.angular.z};
#pragma unroll
  for (int k = 0; k < 6; ++k) {
    const float sum = warp_sum(velocities[k]);
    if ((threadIdx.x & 31) == 0) atomicAdd(g_shutter + k, sum);
  }
}

// Adds the visible splats and the tile instances of a block of kWarps warps to the totals of a forward pass. All threads call.
template <int kWarps> __device__ __forceinline__ void add_totals(int tiles, int64_t* totals) {
  const long long sum = warp_sum(static_cast<long long>(tiles));
  const int shown = __popc(__ballot_sync(~0u, tiles > 0)), warp = threadIdx.x >> 5;
  __shared__ long long block_sum[kWarps];
  __shared__ int block_shown[kWarps];
  if ((threadIdx.x & 31) == 0) block_sum[warp] = sum, block_shown[warp] = shown;
  __syncthreads();
  if (threadIdx.x < 2) {
    long long total = 0;
    for (int w = 0; w < kWarps; ++w) total += threadIdx.x == 0 ? block_shown[w] : block_sum[w];
    if (total > 0) atomicAdd(reinterpret_cast<unsigned long long*>(totals) + threadIdx.x, static_cast<unsigned long long>(total));
  }
}

}  // namespace luxel
