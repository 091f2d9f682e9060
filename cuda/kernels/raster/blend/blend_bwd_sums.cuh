// Shared by the backward passes of the tile rasterizer on the GPU: a splat's gradient is reduced over the warp by a transposing
// butterfly (12 shuffles for 9 numbers instead of 45), then added to memory by one instruction.
#pragma once

#include "kernels/raster/blend/blend_tile.cuh"

namespace luxel {
namespace {

// Sums N numbers over the warp at once. v[0] becomes the sum of number number_of_lane<N>(lane), in lanes where that is not -1.
// Each step sends half of the numbers to the other half of the lanes; an odd one is summed in both.
template <int N, int kBit = 16> __device__ __forceinline__ void transpose_sum(float* v, int lane) {
  if constexpr (kBit > 0) {
    constexpr int kHalf = (N + 1) / 2;
    const bool upper = lane & kBit;
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      const float sent = upper ? v[i] : v[i + kHalf], kept = upper ? v[i + kHalf] : v[i];
      v[i] = kept + __shfl_xor_sync(kAll, sent, kBit);
    }
    if (N % 2 == 1) v[N / 2] += __shfl_xor_sync(kAll, v[N / 2], kBit);
    transpose_sum<kHalf, kBit / 2>(v, lane);
  }
}

template <int N, int kBit = 16> __device__ __forceinline__ int number_of_lane(int lane) {
  if constexpr (kBit == 0) {
    return 0;
  } else {
    constexpr int kHalf = (N + 1) / 2;
    const int inner = number_of_lane<kHalf, kBit / 2>(lane);
    if (inner < 0 || !(lane & kBit)) return inner;
    return inner + kHalf < N ? inner + kHalf : -1;
  }
}

__device__ __forceinline__ int32_t max_over_warp(int32_t x) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(kAll, x);
#else
  for (int bit = 16; bit >= 1; bit /= 2) x = max(x, __shfl_xor_sync(kAll, x, bit));
  return x;
#endif
}

__device__ __forceinline__ float reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// The address to which a lane adds its sum, of the numbers kFirst .. kFirst + 31 that are reduced together: in the row of the
// splat, or of the instance and this warp (see blend_ordered.cuh).
template <typename Policy, typename Sums, int D, int kFirst = 0> struct LaneTarget {
  static constexpr int kRest = Sums::kCount + D - kFirst, kCount = kRest < 32 ? kRest : 32;
  int number;
  float scale;
  float* target;
  uint32_t stride;  // bytes

  // number: number_of_lane<kCount>() of this lane.
  __device__ __forceinline__ LaneTarget(const luxel_blend_args& args, int warp, int number) : number(number) {
    constexpr int kRow = Policy::kRow;
    const int which = kFirst + number;
    const bool of_splat = which < Sums::kCount;
    scale = of_splat ? Sums::scale(which) : 1.0f;
    const int column = of_splat ? Sums::slot(which) : which - Sums::kCount;
    if (args.deterministic) {
      stride = sizeof(float) * kBackwardWarps * (kRow + D);
      target = out<float>(args.workspace) + warp * (kRow + D) + (of_splat ? column : kRow + column);
    } else {
      stride = sizeof(float) * (of_splat ? kRow : D);
      target = out<float>(of_splat ? args.g_splats : args.g_values) + column;
    }
  }
  // Adds what the warp has; row: of the splat, or the instance.
  __device__ __forceinline__ void add(float* numbers, uint32_t row, int lane) const {
    transpose_sum<kCount>(numbers + kFirst, lane);
    char* place = reinterpret_cast<char*>(target) + static_cast<uint64_t>(stride) * row;
    if (number >= 0) atomicAdd(reinterpret_cast<float*>(place), scale * numbers[kFirst]);
  }
};

// Of all numbers, where lanes may have a second one each.
template <typename Policy, typename Sums, int D> struct LaneTargets {
  static constexpr int kMore = Sums::kCount + D > 32 ? 32 : 0;
  LaneTarget<Policy, Sums, D> first;
  LaneTarget<Policy, Sums, D, kMore> more;

  static constexpr int kFirst = LaneTarget<Policy, Sums, D>::kCount;
  __device__ __forceinline__ LaneTargets(const luxel_blend_args& args, int warp, int lane, int number)
      : first(args, warp, number), more(args, warp, number_of_lane<decltype(more)::kCount>(lane)) {}
  __device__ __forceinline__ void add(float* numbers, uint32_t row, int lane) const {
    first.add(numbers, row, lane);
    if (kMore > 0) more.add(numbers, row, lane);
  }
};

}  // namespace
}  // namespace luxel
