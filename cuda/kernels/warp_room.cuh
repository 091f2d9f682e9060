// Room in an array that all threads fill: a warp takes what its lanes want by one atomic addition. For whole warps.
#pragma once

namespace luxel {

// Where the room of this lane starts, of `wanted` places; total may go beyond what there is.
template <typename Count> __device__ __forceinline__ Count take_room(int wanted, Count* total) {
  const int lane = threadIdx.x & 31;
  int upto = wanted;  // of this lane and those below
  for (int offset = 1; offset < 32; offset <<= 1) {
    const int lower = __shfl_up_sync(~0u, upto, offset);
    if (lane >= offset) upto += lower;
  }
  Count first = 0;
  if (lane == 31 && upto > 0) first = atomicAdd(total, static_cast<Count>(upto));
  return __shfl_sync(~0u, first, 31) + static_cast<Count>(upto - wanted);
}

// The same for one place each, of lanes that want it.
__device__ __forceinline__ int take_place(bool wanted, int* total) {
  const int lane = threadIdx.x & 31;
  const unsigned mask = __ballot_sync(~0u, wanted);
  int first = 0;
  if (lane == 0 && mask != 0) first = atomicAdd(total, __popc(mask));
  return __shfl_sync(~0u, first, 0) + __popc(mask & ((1u << lane) - 1));
}

}  // namespace luxel
