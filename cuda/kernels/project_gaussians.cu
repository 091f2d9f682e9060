// project_gaussians on the GPU: a thread per (camera, Gaussian) forward; a thread per Gaussian, over all cameras,
// backward, so that parameter gradients need no atomics.
#include "project_gaussians.h"

#include "error.h"

#include <cub/device/device_select.cuh>
#include <thrust/iterator/counting_iterator.h>

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
  const long long sum = warp_sum(static_cast<long long>(tiles));
  __shared__ long long block_sum[kForwardThreads / 32];
  if ((threadIdx.x & 31) == 0) block_sum[threadIdx.x >> 5] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    long long instances = 0;
    for (const long long part : block_sum) instances += part;
    if (instances > 0) atomicAdd(reinterpret_cast<unsigned long long*>(args.totals) + 1, static_cast<unsigned long long>(instances));
  }
}

struct Visible {
  const int32_t* tile_counts;
  __host__ __device__ bool operator()(int32_t index) const { return tile_counts[index] > 0; }
};

// Ascending indices of what is seen: splats of equal depth keep their order from run to run.
cudaError_t compact(const luxel_project_gaussians_args& args, void* storage, size_t& bytes) {
  return cub::DeviceSelect::If(storage, bytes, thrust::counting_iterator<int32_t>(0), args.visible, args.totals,
                               args.count * args.cameras, Visible{args.tile_counts}, static_cast<cudaStream_t>(args.stream));
}

__device__ __forceinline__ void zero_rows(void* tensor, int first, int rows, int width) {
  float* start = out<float>(tensor) + static_cast<int64_t>(first) * width;  // 16-byte aligned: first is a multiple of 128
  const int count = rows * width;
  for (int i = threadIdx.x; i < count / 4; i += kBackwardThreads) reinterpret_cast<float4*>(start)[i] = {0.0f, 0.0f, 0.0f, 0.0f};
  for (int i = count / 4 * 4 + threadIdx.x; i < count; i += kBackwardThreads) start[i] = 0.0f;
}

// sh_rest's gradient passes through shared memory: a row is 12 * sh_stride bytes, and rows written by single
// threads would touch every sector eight times.
__global__ void __launch_bounds__(kBackwardThreads) project_gaussians_bwd_kernel(const luxel_project_gaussians_args args) {
  extern __shared__ float rest_rows[];
  const int first = blockIdx.x * kBackwardThreads;
  const int n = first + threadIdx.x;
  const int width = 3 * args.sh_stride, rows = min(kBackwardThreads, args.count - first);
  bool visible = false;
  for (int camera = 0; camera < args.cameras; ++camera)
    visible |= n < args.count && args.tile_counts[static_cast<int64_t>(camera) * args.count + n] > 0;
  if (!__syncthreads_or(visible)) {  // most blocks of a large scene: nothing but zeros to write
    zero_rows(args.g_means, first, rows, 3);
    zero_rows(args.g_quats, first, rows, 4);
    zero_rows(args.g_log_scales, first, rows, 3);
    zero_rows(args.g_opacity_logits, first, rows, 1);
    zero_rows(args.g_sh_dc, first, rows, 3);
    if (width > 0) zero_rows(args.g_sh_rest, first, rows, width);
    return;
  }
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
  float* target = out<float>(args.g_sh_rest) + static_cast<int64_t>(first) * width;
  for (int i = threadIdx.x; i < rows * width; i += kBackwardThreads)
    target[i] = rest_rows[i / width * (width | 1) + i % width];
}

}  // namespace
}  // namespace luxel

extern "C" {

int64_t luxel_project_gaussians_workspace(const luxel_project_gaussians_args* args) {
  size_t bytes = 0;
  LUXEL_CUDA(luxel::compact(*args, nullptr, bytes));
  return static_cast<int64_t>(bytes);
}

int luxel_project_gaussians_fwd(const luxel_project_gaussians_args* args) {
  if (args->dtype != 0) return luxel::fail("the GPU kernels take float32");
  LUXEL_CUDA(cudaSetDevice(args->device));
  const dim3 grid((args->count + luxel::kForwardThreads - 1) / luxel::kForwardThreads, args->cameras);
  luxel::project_gaussians_fwd_kernel<<<grid, luxel::kForwardThreads, 0, static_cast<cudaStream_t>(args->stream)>>>(*args);
  LUXEL_LAUNCHED("project_gaussians_fwd");
  size_t bytes = static_cast<size_t>(args->workspace_bytes);
  LUXEL_CUDA(luxel::compact(*args, args->workspace, bytes));
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
