// opacity_entropy on the GPU: a thread per Gaussian.
#include "kernels/train/losses/opacity_entropy.h"

#include "device/launch.cuh"
#include "device/row_sums.cuh"

namespace luxel {
namespace {

__global__ void __launch_bounds__(kSumThreads) opacity_entropy_kernel(const luxel_opacity_entropy_args args, double* runs) {
  float sums[kEntropySums] = {};
  const int64_t n = static_cast<int64_t>(blockIdx.x) * kSumThreads + threadIdx.x;
  if (n < args.count) add_entropy<float>(args, n, sums);
  write_run(sums, runs);
}

__global__ void __launch_bounds__(kSumThreads) opacity_entropy_sum_kernel(const luxel_opacity_entropy_args args, const double* runs,
                                                                         int64_t count) {
  double sums[kEntropySums];
  sum_runs(runs, count, sums);
  if (threadIdx.x == 0) finish_entropy<float>(args, sums);
}

__global__ void __launch_bounds__(kSumThreads) opacity_entropy_bwd_kernel(const luxel_opacity_entropy_args args) {
  const int64_t n = static_cast<int64_t>(blockIdx.x) * kSumThreads + threadIdx.x;
  if (n < args.count) entropy_gradient<float>(args, n);
}

}  // namespace
}  // namespace luxel

extern "C" {

int64_t luxel_opacity_entropy_workspace(const luxel_opacity_entropy_args* args) {
  return luxel::runs_of_rows(args->count) * luxel::kEntropySums * static_cast<int64_t>(sizeof(double));
}

int luxel_opacity_entropy_fwd(const luxel_opacity_entropy_args* args) {
  using namespace luxel;
  if (args->dtype != 0) return fail("the GPU kernels take float32");
  if (args->workspace_bytes < luxel_opacity_entropy_workspace(args)) return fail("opacity_entropy: workspace too small");
  LUXEL_CUDA(cudaSetDevice(args->device));
  auto* const runs = static_cast<double*>(args->workspace);
  const int64_t count = runs_of_rows(args->count);
  const dim3 blocks(static_cast<unsigned>(count));
  if (launch("opacity_entropy", opacity_entropy_kernel, blocks, kSumThreads, 0, args->stream, *args, runs) < 0) return -1;
  return launch("opacity_entropy, sum", opacity_entropy_sum_kernel, 1, kSumThreads, 0, args->stream, *args, runs, count);
}

int luxel_opacity_entropy_bwd(const luxel_opacity_entropy_args* args) {
  using namespace luxel;
  if (args->dtype != 0) return fail("the GPU kernels take float32");
  LUXEL_CUDA(cudaSetDevice(args->device));
  return launch("opacity_entropy_bwd", opacity_entropy_bwd_kernel, blocks_for(args->count, kSumThreads), kSumThreads, 0,
                args->stream, *args);
}
}
