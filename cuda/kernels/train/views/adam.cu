// view_adam on the GPU: one block, as the table of all views is small.
#include "kernels/train/views/adam.h"

#include "device/launch.cuh"
#include "device/warp_sum.cuh"

namespace luxel {
namespace {

constexpr int kThreads = 1024, kWarps = kThreads / 32;

// A warp per parameter.
__device__ void take_out_means(const luxel_view_adam_args& args) {
  const int lane = threadIdx.x % 32;
  for (int p = threadIdx.x / 32; p < args.width; p += kWarps) {
    float sum = 0.0f;
    for (int64_t v = lane; v < args.views; v += 32) sum += args.values[v * args.width + p];
    const float mean = warp_sum(sum) / args.views;
    for (int64_t v = lane; v < args.views; v += 32) args.values[v * args.width + p] -= mean;
  }
}

__device__ void take_out_directions(const luxel_view_adam_args& args) {
  __shared__ float of_warps[kWarps][kMaxDirections], along[kMaxDirections];
  const int64_t count = static_cast<int64_t>(args.views) * args.width;
  float sums[kMaxDirections] = {};
  for (int64_t i = threadIdx.x; i < count; i += kThreads) {
    const float value = args.values[i];
#pragma unroll
    for (int g = 0; g < kMaxDirections; ++g)
      if (g < args.directions) sums[g] += args.common[i * args.directions + g] * value;
  }
#pragma unroll
  for (int g = 0; g < kMaxDirections; ++g) {
    const float sum = warp_sum(sums[g]);
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32][g] = sum;
  }
  __syncthreads();
  if (threadIdx.x < kMaxDirections) {
    float sum = 0.0f;
    for (int w = 0; w < kWarps; ++w) sum += of_warps[w][threadIdx.x];
    along[threadIdx.x] = sum;
  }
  __syncthreads();
  for (int64_t i = threadIdx.x; i < count; i += kThreads) {
    float shared = 0.0f;
    for (int g = 0; g < args.directions; ++g) shared += along[g] * args.common[i * args.directions + g];
    args.values[i] -= shared;
  }
}

__global__ void __launch_bounds__(kThreads) view_adam_kernel(const luxel_view_adam_args args) {
  if (args.skip[0] != 0) return;
  for (int i = threadIdx.x; i < args.views_of_step * args.width; i += kThreads) move_parameter(args, i / args.width, i % args.width);
  __syncthreads();
  args.common ? take_out_directions(args) : take_out_means(args);
}

}  // namespace
}  // namespace luxel

extern "C" int luxel_view_adam(const luxel_view_adam_args* args) {
  using namespace luxel;
  if (args->directions > kMaxDirections) return fail("view_adam: %d directions, at most %d", args->directions, kMaxDirections);
  LUXEL_CUDA(cudaSetDevice(args->device));
  return launch("view_adam", view_adam_kernel, 1, kThreads, 0, args->stream, *args);
}
