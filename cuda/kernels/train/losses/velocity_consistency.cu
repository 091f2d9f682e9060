// velocity_consistency on the GPU: a thread per Gaussian. The velocities are written first, so that each is computed once
// and neighbours are read from the cache.
#include "kernels/train/losses/velocity_consistency.h"

#include "device/launch.cuh"
#include "device/row_sums.cuh"

namespace luxel {
namespace {

constexpr int kThreads = 128;

__global__ void __launch_bounds__(kThreads) velocities_kernel(const luxel_velocity_consistency_args args, float* velocities) {
  const int64_t n = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (n < args.count) write_velocity(args, n, velocities);
}

__global__ void __launch_bounds__(kSumThreads)
    distances_kernel(const luxel_velocity_consistency_args args, const float* velocities, double* runs) {
  const auto add = [&](int64_t n, int64_t word) {
    atomicAdd(reinterpret_cast<unsigned long long*>(args.pulls + n), static_cast<unsigned long long>(word));
  };
  float sums[kConsistencySums] = {};
  const int64_t n = static_cast<int64_t>(blockIdx.x) * kSumThreads + threadIdx.x;
  if (n < args.count) add_distance(args, velocities, n, sums, add);
  write_run(sums, runs);
}

__global__ void __launch_bounds__(kSumThreads)
    consistency_sum_kernel(const luxel_velocity_consistency_args args, const double* runs, int64_t count) {
  double sums[kConsistencySums];
  sum_runs(runs, count, sums);
  if (threadIdx.x == 0) finish_consistency<float>(args, sums);
}

__global__ void __launch_bounds__(kThreads) velocity_consistency_bwd_kernel(const luxel_velocity_consistency_args args) {
  const int64_t n = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (n < args.count) consistency_gradient<float>(args, n);
}

}  // namespace
}  // namespace luxel

extern "C" {

int64_t luxel_velocity_consistency_workspace(const luxel_velocity_consistency_args* args) {
  return luxel::ConsistencyRoom(*args).bytes;
}

int luxel_velocity_consistency_fwd(const luxel_velocity_consistency_args* args) {
  using namespace luxel;
  if (args->dtype != 0) return fail("the GPU kernels take float32");
  const ConsistencyRoom room(*args);
  if (args->workspace_bytes < room.bytes) return fail("velocity_consistency: workspace too small");
  LUXEL_CUDA(cudaSetDevice(args->device));
  void* const stream = args->stream;
  auto* const velocities = static_cast<float*>(room.velocities);
  const int64_t count = runs_of_rows(args->count);
  const dim3 rows(blocks_for(args->count, kThreads)), runs(static_cast<unsigned>(count));
  if (launch("velocity_consistency, velocities", velocities_kernel, rows, kThreads, 0, stream, *args, velocities) < 0) return -1;
  if (launch("velocity_consistency, distances", distances_kernel, runs, kSumThreads, 0, stream, *args, velocities, room.runs) < 0)
    return -1;
  return launch("velocity_consistency, sum", consistency_sum_kernel, 1, kSumThreads, 0, stream, *args, room.runs, count);
}

int luxel_velocity_consistency_bwd(const luxel_velocity_consistency_args* args) {
  using namespace luxel;
  if (args->dtype != 0) return fail("the GPU kernels take float32");
  LUXEL_CUDA(cudaSetDevice(args->device));
  return launch("velocity_consistency_bwd", velocity_consistency_bwd_kernel, blocks_for(args->count, kThreads), kThreads, 0,
                args->stream, *args);
}
}
