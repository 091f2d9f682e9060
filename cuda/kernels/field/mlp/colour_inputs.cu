// colour_inputs on the GPU: a thread per four numbers, so that a warp's accesses are contiguous.
#include "kernels/field/mlp/colour_inputs.h"

#include "device/launch.cuh"

namespace luxel {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) colour_inputs_kernel(const luxel_colour_inputs_args args) {
  const int64_t four = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (four < fours_of_inputs(args)) write_four_inputs<float>(args, four);
}

__global__ void __launch_bounds__(kThreads) colour_inputs_bwd_kernel(const luxel_colour_inputs_args args) {
  const int64_t four = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (four < fours_of_features(args)) write_four_gradients<float>(args, four);
}

}  // namespace
}  // namespace luxel

extern "C" {

int luxel_colour_inputs_fwd(const luxel_colour_inputs_args* args) {
  using namespace luxel;
  if (args->dtype != 0) return fail("the GPU kernels take float32");
  LUXEL_CUDA(cudaSetDevice(args->device));
  luxel_colour_inputs_args whole = *args;
  whole.live = nullptr;  // on the device
  const unsigned blocks = blocks_for(fours_of_inputs(whole), kThreads);
  return launch("colour_inputs", colour_inputs_kernel, blocks, kThreads, 0, args->stream, *args);
}

int luxel_colour_inputs_bwd(const luxel_colour_inputs_args* args) {
  using namespace luxel;
  if (args->dtype != 0) return fail("the GPU kernels take float32");
  LUXEL_CUDA(cudaSetDevice(args->device));
  const unsigned blocks = blocks_for(fours_of_features(*args), kThreads);
  return launch("colour_inputs_bwd", colour_inputs_bwd_kernel, blocks, kThreads, 0, args->stream, *args);
}
}
