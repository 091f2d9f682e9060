// project_gaussians on the GPU: a thread per (camera, Gaussian) forward; a thread per Gaussian, over all cameras,
// backward, so that parameter gradients need no atomics.
#include "project_gaussians.h"

#include "error.h"

namespace luxel {
namespace {

constexpr int kForwardThreads = 256;
constexpr int kBackwardThreads = 128;

template <typename X> __device__ __forceinline__ X warp_sum(X x) {
  for (int offset = 16; offset > 0; offset >>= 1) x += __shfl_xor_sync(~0u, x, offset);
  return x;
}

__global__ void __launch_bounds__(kForwardThreads) project_gaussians_fwd_kernel(const luxel_project_gaussians_args args) {
  const int n = blockIdx.x * kForwardThreads + threadIdx.x;
  const int camera = blockIdx.y;
  int tiles = 0;
  if (n < args.count) {
    const Pinhole<float> cam = load_camera<float>(args, camera);
    tiles = project_one(args, cam, camera, n);
    args.tile_counts[static_cast<int64_t>(camera) * args.count + n] = tiles;
  }
  // Compaction: one atomic per block for the list of visible splats and one for the number of instances.
  __shared__ int warp_seen[kForwardThreads / 32], warp_tiles[kForwardThreads / 32];
  __shared__ int64_t block_start;
  const unsigned ballot = __ballot_sync(~0u, tiles > 0);
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int in_warp = warp_sum(tiles);
  if (lane == 0) {
    warp_seen[warp] = __popc(ballot);
    warp_tiles[warp] = in_warp;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    int seen = 0;
    int64_t instances = 0;
    for (int w = 0; w < kForwardThreads / 32; ++w) {
      const int mine = warp_seen[w];
      warp_seen[w] = seen;
      seen += mine;
      instances += warp_tiles[w];
    }
    if (seen > 0) {
      auto* totals = reinterpret_cast<unsigned long long*>(args.totals);
      block_start = static_cast<int64_t>(atomicAdd(totals, static_cast<unsigned long long>(seen)));
      atomicAdd(totals + 1, static_cast<unsigned long long>(instances));
    }
  }
  __syncthreads();
  if (tiles > 0) {
    const int64_t slot = block_start + warp_seen[warp] + __popc(ballot & ((1u << lane) - 1));
    args.visible[slot] = static_cast<int32_t>(static_cast<int64_t>(camera) * args.count + n);
  }
}

// sh_rest's gradient passes through shared memory: a row is 12 * sh_stride bytes, and rows written by single
// threads would touch every sector eight times.
__global__ void __launch_bounds__(kBackwardThreads) project_gaussians_bwd_kernel(const luxel_project_gaussians_args args) {
  extern __shared__ float rest_rows[];
  const int first = blockIdx.x * kBackwardThreads;
  const int n = first + threadIdx.x;
  const int width = 3 * args.sh_stride;
  float* g_rest = rest_rows + threadIdx.x * (width | 1);  // odd stride: no bank conflicts
  for (int k = 0; k < width; ++k) g_rest[k] = 0.0f;
  GaussianGradient<float> g = {};
  Vec3<float> g_dc = {0.0f, 0.0f, 0.0f};
  for (int camera = 0; camera < args.cameras; ++camera) {
    g.camera_rotation = {};
    g.camera_translation = {};
    const bool seen = n < args.count && args.tile_counts[static_cast<int64_t>(camera) * args.count + n] > 0;
    if (seen) {
      const Pinhole<float> cam = load_camera<float>(args, camera);
      float* statistics = args.statistics ? out<float>(args.statistics) + 4 * static_cast<int64_t>(n) : nullptr;
      project_one_vjp(args, cam, camera, n, g, g_dc, g_rest, statistics);
    }
    if (args.g_world_to_cam && __any_sync(~0u, seen)) {
      const float pose[12] = {g.camera_rotation.r0.x, g.camera_rotation.r0.y, g.camera_rotation.r0.z, g.camera_translation.x,
                              g.camera_rotation.r1.x, g.camera_rotation.r1.y, g.camera_rotation.r1.z, g.camera_translation.y,
                              g.camera_rotation.r2.x, g.camera_rotation.r2.y, g.camera_rotation.r2.z, g.camera_translation.z};
#pragma unroll
      for (int k = 0; k < 12; ++k) {
        const float sum = warp_sum(pose[k]);
        if ((threadIdx.x & 31) == 0) atomicAdd(out<float>(args.g_world_to_cam) + 16 * camera + k, sum);
      }
    }
  }
  if (n < args.count) store_gradient(args, n, g, g_dc);
  if (width == 0) return;
  __syncthreads();
  const int rows = min(kBackwardThreads, args.count - first);
  float* target = out<float>(args.g_sh_rest) + static_cast<int64_t>(first) * width;
  for (int i = threadIdx.x; i < rows * width; i += kBackwardThreads)
    target[i] = rest_rows[i / width * (width | 1) + i % width];
}

}  // namespace
}  // namespace luxel

extern "C" {

int luxel_project_gaussians_fwd(const luxel_project_gaussians_args* args) {
  if (args->dtype != 0) return luxel::fail("the GPU kernels take float32");
  LUXEL_CUDA(cudaSetDevice(args->device));
  const dim3 grid((args->count + luxel::kForwardThreads - 1) / luxel::kForwardThreads, args->cameras);
  luxel::project_gaussians_fwd_kernel<<<grid, luxel::kForwardThreads, 0, static_cast<cudaStream_t>(args->stream)>>>(*args);
  LUXEL_LAUNCHED("project_gaussians_fwd");
  return 0;
}

int luxel_project_gaussians_bwd(const luxel_project_gaussians_args* args) {
  if (args->dtype != 0) return luxel::fail("the GPU kernels take float32");
  LUXEL_CUDA(cudaSetDevice(args->device));
  const int grid = (args->count + luxel::kBackwardThreads - 1) / luxel::kBackwardThreads;
  const size_t shared = sizeof(float) * luxel::kBackwardThreads * ((3 * args->sh_stride) | 1);
  luxel::project_gaussians_bwd_kernel<<<grid, luxel::kBackwardThreads, shared, static_cast<cudaStream_t>(args->stream)>>>(*args);
  LUXEL_LAUNCHED("project_gaussians_bwd");
  return 0;
}
}
