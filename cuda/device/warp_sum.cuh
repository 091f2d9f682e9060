// Sums over the lanes of a warp.
#pragma once

namespace luxel {

// The sum over all lanes, returned to each of them.
template <typename X> __device__ __forceinline__ X warp_sum(X x) {
  for (int offset = 16; offset > 0; offset >>= 1) x += __shfl_xor_sync(~0u, x, offset);
  return x;
}

// Inclusive prefix sum over the lanes.
__device__ __forceinline__ float sum_upto(float x, int lane) {
  for (int offset = 1; offset < 32; offset <<= 1) {
    const float lower = __shfl_up_sync(~0u, x, offset);
    if (lane >= offset) x += lower;
  }
  return x;
}

}  // namespace luxel
