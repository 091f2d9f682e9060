// What the two GPU passes of project_gaussians share: a warp takes 32 Gaussians that follow each other, and moves their
// rows of sh_rest between global and shared memory together. A row is 12 * sh_stride bytes: single threads that read or
// wrote their own would touch every sector eight times.
#pragma once

#include "project_gaussians.h"

#include <cuda_pipeline.h>

namespace luxel {

constexpr int kWarpRows = 32;

// Quotients of small numbers by a row's width w: e / w = (e * reciprocal) >> 20 for all e < 32 w, w <= 45.
__host__ __device__ __forceinline__ uint32_t reciprocal(int width) { return ((1u << 20) + width - 1) / width; }
__device__ __forceinline__ int quotient(int e, uint32_t reciprocal) { return static_cast<int>((e * reciprocal) >> 20); }

// Starts to copy rows first .. first+31 of sh_rest, those of `mask` at least and of them the active coefficients, to
// `rows` (16-byte aligned). staged_rest() before they are read.
__device__ __forceinline__ void stage_rest(const luxel_project_gaussians_args& args, int first, uint32_t mask, float* rows) {
  const int width = 3 * args.sh_stride, wanted = 3 * sh_terms(args), lane = threadIdx.x & 31;
  if (wanted == 0) return;
  const float* source = in<float>(args.sh_rest) + static_cast<int64_t>(first) * width;
  const uint32_t by_width = reciprocal(width);
  if (first + kWarpRows <= args.count && (reinterpret_cast<uintptr_t>(args.sh_rest) & 15) == 0) {
#pragma unroll 4
    for (int e = 4 * lane; e < kWarpRows * width; e += 4 * 32) {
      const int row = quotient(e, by_width), column = e - row * width;
      const uint32_t seen = mask >> row;  // four numbers can end in the next row
      if (((seen & 1) && column < wanted) || ((seen & 2) && column + 4 > width)) __pipeline_memcpy_async(rows + e, source + e, 16);
    }
  } else {
    const int end = min(kWarpRows, args.count - first) * width;
    for (int e = lane; e < end; e += 32)
      if (mask >> quotient(e, by_width) & 1) rows[e] = source[e];
  }
  __pipeline_commit();
}
__device__ __forceinline__ void staged_rest() {
  __pipeline_wait_prior(0);
  __syncwarp();
}

template <typename X> __device__ __forceinline__ X warp_sum(X x) {
  for (int offset = 16; offset > 0; offset >>= 1) x += __shfl_xor_sync(~0u, x, offset);
  return x;
}

}  // namespace luxel
