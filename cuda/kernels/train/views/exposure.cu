// view_exposure on the GPU: a thread takes every (256 Q)th pixel of a view.
#include "kernels/train/views/exposure.h"

#include "device/launch.cuh"
#include "device/warp_sum.cuh"

namespace luxel {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;

template <int P> __global__ void __launch_bounds__(kThreads) exposure_kernel(const luxel_view_exposure_args args) {
  const int b = blockIdx.y;
  const int64_t pixels = static_cast<int64_t>(args.width) * args.height, stride = static_cast<int64_t>(gridDim.x) * kThreads;
  const ViewExposure<float, P> view = exposure_of<float, P>(args, b);
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < pixels; i += stride)
    expose_pixel<float, P>(args, view, b * pixels + i);
}

template <int P> __global__ void __launch_bounds__(kThreads) exposure_bwd_kernel(const luxel_view_exposure_args args) {
  __shared__ float of_warps[kWarps][P];
  const int b = blockIdx.y, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t pixels = static_cast<int64_t>(args.width) * args.height, stride = static_cast<int64_t>(gridDim.x) * kThreads;
  const ViewExposure<float, P> view = exposure_of<float, P>(args, b);
  float sums[P] = {};
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < pixels; i += stride)
    exposure_gradient<float, P>(args, view, b * pixels + i, sums);
#pragma unroll
  for (int i = 0; i < P; ++i) {
    const float sum = warp_sum(sums[i]);
    if (lane == 0) of_warps[warp][i] = sum;
  }
  __syncthreads();
  if (threadIdx.x >= P) return;
  float sum = 0.0f;
  for (int w = 0; w < kWarps; ++w) sum += of_warps[w][threadIdx.x];
  static_cast<float*>(args.g_parts)[(static_cast<int64_t>(b) * gridDim.x + blockIdx.x) * P + threadIdx.x] = sum;
}

}  // namespace
}  // namespace luxel

extern "C" {

int luxel_view_exposure_fwd(const luxel_view_exposure_args* args) {
  using namespace luxel;
  if (args->dtype != 0) return fail("the GPU kernels take float32");
  LUXEL_CUDA(cudaSetDevice(args->device));
  const dim3 grid(blocks_for(static_cast<int64_t>(args->width) * args->height, kThreads), args->views);
  switch (args->width_of_view) {
    case kGain: return launch("view_exposure", exposure_kernel<kGain>, grid, kThreads, 0, args->stream, *args);
    case kCamera: return launch("view_exposure", exposure_kernel<kCamera>, grid, kThreads, 0, args->stream, *args);
    case kAffine: return launch("view_exposure", exposure_kernel<kAffine>, grid, kThreads, 0, args->stream, *args);
    default: return fail("view_exposure: %d parameters of a view", args->width_of_view);
  }
}

int luxel_view_exposure_bwd(const luxel_view_exposure_args* args) {
  using namespace luxel;
  if (args->dtype != 0) return fail("the GPU kernels take float32");
  LUXEL_CUDA(cudaSetDevice(args->device));
  const dim3 grid(args->parts, args->views);
  switch (args->width_of_view) {
    case kGain: return launch("view_exposure_bwd", exposure_bwd_kernel<kGain>, grid, kThreads, 0, args->stream, *args);
    case kCamera: return launch("view_exposure_bwd", exposure_bwd_kernel<kCamera>, grid, kThreads, 0, args->stream, *args);
    case kAffine: return launch("view_exposure_bwd", exposure_bwd_kernel<kAffine>, grid, kThreads, 0, args->stream, *args);
    default: return fail("view_exposure: %d parameters of a view", args->width_of_view);
  }
}
}
