// depth_loss on the GPU: one launch for the sums of each view, one for its loss and gradients; a thread takes every (256 Q)th
// pixel of a view.
#include "kernels/train/losses/depth_loss.h"

#include "device/launch.cuh"
#include "device/warp_sum.cuh"

namespace luxel {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;

// The sums of `count` numbers of all threads of the block, in the first threads' `count`; a fixed order.
template <int count> __device__ void block_sums(const double (&values)[count], double (&of_warps)[kWarps][count], double* to) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int k = 0; k < count; ++k) {
    const double sum = warp_sum(values[k]);
    if (lane == 0) of_warps[warp][k] = sum;
  }
  __syncthreads();
  if (threadIdx.x < count) {
    double sum = 0.0;
    for (int w = 0; w < kWarps; ++w) sum += of_warps[w][threadIdx.x];
    to[threadIdx.x] = sum;
  }
}

__global__ void __launch_bounds__(kThreads) depth_sums_kernel(const luxel_depth_loss_args args) {
  __shared__ double of_warps[kWarps][kDepthSums];
  const int b = blockIdx.y;
  const int64_t first = b * args.pixels, stride = static_cast<int64_t>(gridDim.x) * kThreads;
  double sums[kDepthSums] = {};
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < args.pixels; i += stride) {
    const DepthPixel<float> p = depth_pixel<float>(args, first + i);
    add_depth(p.known, p.accumulated, p.cover, p.weight, args.fits != 0, sums);
  }
  block_sums(sums, of_warps, args.sums + (static_cast<int64_t>(b) * gridDim.x + blockIdx.x) * kDepthSums);
}

__global__ void __launch_bounds__(kThreads) depth_loss_kernel(const luxel_depth_loss_args args) {
  __shared__ double of_warps[kWarps][kDepthSums], of_view[kDepthSums], loss_of_warps[kWarps][1];
  const int b = blockIdx.y;
  const double* parts = args.sums + static_cast<int64_t>(b) * gridDim.x * kDepthSums;
  double sums[kDepthSums] = {};
  for (int q = threadIdx.x; q < gridDim.x; q += kThreads)
    for (int k = 0; k < kDepthSums; ++k) sums[k] += parts[q * kDepthSums + k];
  block_sums(sums, of_warps, of_view);
  __syncthreads();
  const DepthFit<float> fit = depth_fit<float>(of_view, args.pixels, args.views, args.fits != 0);
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    out<float>(args.fit)[2 * b] = fit.scale;
    out<float>(args.fit)[2 * b + 1] = fit.shift;
  }
  const float strength = in<float>(args.strength)[0];
  const int64_t first = b * args.pixels, stride = static_cast<int64_t>(gridDim.x) * kThreads;
  double loss[1] = {blockIdx.x == 0 && threadIdx.x == 0 ? strength * fit.loss : 0.0};
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < args.pixels; i += stride)
    loss[0] += depth_of_pixel<float>(args, fit, strength, first + i);
  block_sums(loss, loss_of_warps, args.losses + static_cast<int64_t>(b) * gridDim.x + blockIdx.x);
}

}  // namespace
}  // namespace luxel

extern "C" int luxel_depth_loss(const luxel_depth_loss_args* args) {
  using namespace luxel;
  if (args->dtype != 0) return fail("the GPU kernels take float32");
  LUXEL_CUDA(cudaSetDevice(args->device));
  const dim3 grid(args->parts, args->views);
  if (const int failed = launch("depth_loss sums", depth_sums_kernel, grid, kThreads, 0, args->stream, *args)) return failed;
  return launch("depth_loss", depth_loss_kernel, grid, kThreads, 0, args->stream, *args);
}
