// alpha_slope on the GPU: a thread per pixel.
#include "alpha_slope.h"

#include "error.h"

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
  alpha_slope_kernel<<<static_cast<unsigned>((args->pixels + kThreads - 1) / kThreads), kThreads, 0,
                       static_cast<cudaStream_t>(args->stream)>>>(*args);
  LUXEL_LAUNCHED("alpha_slope");
  return 0;
}
