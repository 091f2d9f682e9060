// Allocation in an array that all threads append to, with one atomic addition per warp. All lanes of a warp must call.
#pragma once

namespace luxel {

// Allocates `places` elements for this lane and returns the index of the first; total may exceed the capacity.
template <typename Count> __device__ __forceinline__ Count take_room(int places, Count* total) {
  const int lane = threadIdx.x & 31;
  int upto = places;  // of this lane and those below
  for (int offset = 1; offset < 32; offset <<= 1) {
    const int lower = __shfl_up_sync(~0u, upto, offset);
    if (lane >= offset) upto += lower;
  }
  Count first = 0;
  if (lane == 31 && upto > 0) first = atomicAdd(total, static_cast<Count>(upto));
  return __shfl_sync(~0u, first, 31) + static_cast<Count>(upto - places);
}

// The same with one element for each lane where `takes` holds.
__device__ __forceinline__ int take_place(bool takes, int* total) {
  const int lane = threadIdx.x & 31;
  const unsigned mask = __ballot_sync(~0u, takes);
  int first = 0;
  if (lane == 0 && mask != 0) first = atomicAdd(total, __popc(mask));
  return __shfl_sync(~0u, first, 0) + __popc(mask & ((1u << lane) - 1));
}

// Writes the range of a ray with `places` samples from `first` on; returns whether they fit and are to be written.
template <typename Args> __device__ __forceinline__ bool settle_range(const Args& args, int64_t r, int64_t first, int places) {
  const bool fits = first + places <= args.capacity, writes = places > 0 && fits;
  if (places > 0 && !fits) {
    auto* const counters = reinterpret_cast<unsigned long long*>(args.counters);
    atomicAdd(counters + 3, 1ull);
    if (first < args.capacity) atomicMax(counters + 4, static_cast<unsigned long long>(args.capacity - first));
  }
  args.ranges[2 * r] = writes ? static_cast<int32_t>(first) : 0;
  args.ranges[2 * r + 1] = writes ? places : 0;
  return writes;
}

}  // namespace luxel
