// draw_pixels on the GPU: a thread per row.
#include "kernels/field/rays/draw_pixels.h"

#include "device/launch.cuh"

namespace luxel {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) draw_pixels_kernel(const luxel_draw_pixels_args args) {
  const int64_t r = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (r < args.count) draw_pixel(args, r);
}

}  // namespace
}  // namespace luxel

extern "C" int luxel_draw_pixels(const luxel_draw_pixels_args* args) {
  using namespace luxel;
  LUXEL_CUDA(cudaSetDevice(args->device));
  return launch("draw_pixels", draw_pixels_kernel, blocks_for(args->count, kThreads), kThreads, 0, args->stream, *args);
}
