// A sum over the lanes of a warp, the same for all of them.
#pragma once

namespace luxel {

template <typename X> __device__ __forceinline__ X warp_sum(X x) {
  for (int offset = 16; offset > 0; offset >>= 1) x += __shfl_xor_sync(~0u, x, offset);
  return x;
}

}  // namespace luxel
