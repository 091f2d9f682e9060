// The sums of row_sums.h on the GPU: one block per run of rows, then one block for all runs.
#pragma once

#include "device/row_sums.h"
#include "device/warp_sum.cuh"

namespace luxel {

constexpr int kSumThreads = kRunOfRows;  // of both kernels: one row per thread

// Sums over the threads of a block; the result is valid in thread 0. At most once per kernel.
template <int S, typename X> __device__ __forceinline__ void sum_block(X (&sums)[S]) {
  __shared__ X scratch[kSumThreads / 32][S];
  for (int s = 0; s < S; ++s) sums[s] = warp_sum(sums[s]);
  if ((threadIdx.x & 31) == 0)
    for (int s = 0; s < S; ++s) scratch[threadIdx.x / 32][s] = sums[s];
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (int warp = 1; warp < kSumThreads / 32; ++warp)
    for (int s = 0; s < S; ++s) sums[s] += scratch[warp][s];
}

// Writes the sums of the block's run to runs [gridDim.x, S].
template <int S> __device__ __forceinline__ void write_run(float (&sums)[S], double* runs) {
  sum_block(sums);
  if (threadIdx.x == 0)
    for (int s = 0; s < S; ++s) runs[static_cast<int64_t>(blockIdx.x) * S + s] = sums[s];
}

// Adds up runs [count, S], in a kernel of one block; `total` is valid in thread 0.
template <int S> __device__ __forceinline__ void sum_runs(const double* runs, int64_t count, double (&total)[S]) {
  for (int s = 0; s < S; ++s) total[s] = 0;
  for (int64_t run = threadIdx.x; run < count; run += kSumThreads)
    for (int s = 0; s < S; ++s) total[s] += runs[run * S + s];
  sum_block(total);
}

}  // namespace luxel
