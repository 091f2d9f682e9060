// alpha_slope on the GPU: a thread per pixel.
#include "kernels/train/losses/alpha_slope.h"

#include "device/launch.cuh"

namespace luxel {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) alpha_slope_kernel(const luxel_alpha_slope_args args) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < args.pixels) slope_of_pixel(args, i);
}

}  // namespace
}  // namespace luxel

extern "C" int luxel_alpha_slope(const luxel_alpha_slope_args* args) {
  using namespace luxel;
  if (args->pixels == 0) return 0;
  LUXEL_CUDA(cudaSetDevice(args->device));
  return launch("alpha_slope", alpha_slope_kernel, blocks_for(args->pixels, kThreads), kThreads, 0, args->stream, *args);
}
