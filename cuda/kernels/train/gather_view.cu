// gather_view on the GPU: a thread per pixel of each view; count_step: one thread.
#include "kernels/train/gather_view.h"

#include "device/launch.cuh"

namespace luxel {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) gather_view_kernel(const luxel_gather_view_args args) {
  const int view = blockIdx.y;
  const int32_t* row = present_row(args, view);
  const int64_t pixel = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (pixel < static_cast<int64_t>(args.width) * args.height) gather_pixel(args, view, row, pixel);
  if (blockIdx.x == 0 && threadIdx.x < kRowNumbers) gather_number(args, view, row, threadIdx.x);
}

__global__ void count_step_kernel(const luxel_count_step_args args) {
  count_one_step(args);
}

}  // namespace
}  // namespace luxel

extern "C" int luxel_gather_view(const luxel_gather_view_args* args) {
  using namespace luxel;
  LUXEL_CUDA(cudaSetDevice(args->device));
  const int64_t pixels = static_cast<int64_t>(args->width) * args->height;
  const dim3 grid(blocks_for(pixels, kThreads), args->views);
  return launch("gather_view", gather_view_kernel, grid, kThreads, 0, args->stream, *args);
}

extern "C" int luxel_count_step(const luxel_count_step_args* args) {
  using namespace luxel;
  LUXEL_CUDA(cudaSetDevice(args->device));
  return launch("count_step", count_step_kernel, 1, 1, 0, args->stream, *args);
}
