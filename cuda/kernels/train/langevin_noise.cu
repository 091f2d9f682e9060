// langevin_noise on the GPU: a thread per Gaussian.
#include "kernels/train/langevin_noise.h"

#include "device/launch.cuh"

namespace luxel {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) langevin_noise_kernel(const luxel_langevin_noise_args args) {
  const int n = blockIdx.x * kThreads + threadIdx.x;
  if (n >= args.count || (args.skip && args.skip[0] != 0)) return;
  move_at_random(args, n);
}

}  // namespace
}  // namespace luxel

extern "C" int luxel_langevin_noise(const luxel_langevin_noise_args* args) {
  using namespace luxel;
  if (args->count == 0) return 0;
  LUXEL_CUDA(cudaSetDevice(args->device));
  return launch("langevin_noise", langevin_noise_kernel, blocks_for(args->count, kThreads), kThreads, 0, args->stream, *args);
}
