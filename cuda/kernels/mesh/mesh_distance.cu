// mesh_distance on the GPU: a thread per point, each with its own walk through the tree.
#include "kernels/mesh/mesh_distance.h"

#include "device/launch.cuh"

namespace luxel {
namespace {

constexpr int kThreads = 128;

__global__ void __launch_bounds__(kThreads) mesh_distance_kernel(const luxel_mesh_distance_args args) {
  const int64_t n = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (n < args.count) measure_point<float>(args, n);
}

}  // namespace
}  // namespace luxel

extern "C" int luxel_mesh_distance(const luxel_mesh_distance_args* args) {
  using namespace luxel;
  if (check(*args) < 0) return -1;
  if (args->dtype != 0) return fail("the GPU kernels take float32");
  if (reinterpret_cast<uintptr_t>(args->boxes) % 16 != 0) return fail("mesh_distance: boxes must be 16-byte aligned");
  LUXEL_CUDA(cudaSetDevice(args->device));
  return launch("mesh_distance", mesh_distance_kernel, blocks_for(args->count, kThreads), kThreads, 0, args->stream, *args);
}
