// The sums of row_sums.h on the GPU: a block for each run of rows, then one block for all runs.
#pragma once

#include "device/row_sums.h"
#include "device/warp_sum.cuh"

namespace luxel {

constexpr int kSumThreads = kRunOfRows;  // of both kinds of block: a row for each

// Sums over the threads of a block, of which thread 0 gets them; once a kernel.
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

template <int S> __device__ __forceinline__ void write_run(float (&sums)[S], double* runs) {
  sum_block(sums);
  if (threadIdx.x == 0)
    for (int s = 0; s < S; ++s) runs[static_cast<int64_t>(blockIdx.x) * S + s] = sums[s];
}

// By the only block of a kernel; thread 0 gets the totals.
template <int S> __device__ __forceinline__ void sum_runs(const double* runs, int64_t count, double (&total)[S]) {
  for (int s = 0; s < S; ++s) total[s] = 0;
  for (int64_t run = threadIdx.x; run < count; run += kSumThreads)
    for (int s = 0; s < S; ++s) total[s] += runs[run * S + s];
  sum_block(total);
}

}  // namespace luxel
