// Shared by the forward and the backward pass of multi-edge policies on the GPU: the numbers of edges for which loops are compiled
// (edge classes), and the bit masks in which the forward pass records where splats contributed.
#pragma once

#include "kernels/raster/blend/blend_tile.cuh"

#include <type_traits>

namespace luxel {
namespace {

// Loops over edges are compiled for three numbers of edges; each is a class.
constexpr int kEdgeClasses = 3;
template <int kClass> constexpr int edges_of_class() { return kClass == 0 ? 5 : (kClass == 1 ? 6 : LUXEL_CORNERS); }
__device__ __forceinline__ uint32_t edge_class(int edges) {
  return static_cast<uint32_t>(edges > edges_of_class<0>()) + static_cast<uint32_t>(edges > edges_of_class<1>());
}
// Calls work(integral_constant<int, kClass>).
template <typename Work> __device__ __forceinline__ void for_edges(uint32_t which, Work work) {
  if (which == 0) return work(std::integral_constant<int, 0>());
  if (which == 1) return work(std::integral_constant<int, 1>());
  work(std::integral_constant<int, 2>());
}

// A copy of a splat in registers, read 16 bytes at a time; unused parts are not read.
template <typename Packed> __device__ __forceinline__ Packed held(const Packed& packed) {
  static_assert(sizeof(Packed) % 16 == 0);
  Packed copy;
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(Packed) / 16); ++i)
    reinterpret_cast<float4*>(&copy)[i] = reinterpret_cast<const float4*>(&packed)[i];
  return copy;
}

// The bit masks of a list, stored after the states: for each 32 splats, a word for each block of 8 x 4 pixels of the tile, with bit
// k set if the k-th splat contributed to one of its pixels. Blocks are numbered down the left half of the tile, then the right.
constexpr int kTouchedBlocks = Shape<1>::kWarps;
__device__ __forceinline__ int touched_block(int x, int y) { return x * Shape<1>::kSubtilesY + y; }
template <typename Policy, int D> __device__ __forceinline__ uint32_t* touched_of(const luxel_blend_args& args, int tile) {
  float* behind = out<float>(args.states) + args.binned.capacity / Policy::kPiece * (D + 1) * kPixels;
  return reinterpret_cast<uint32_t*>(behind) + kTouchedBlocks * (args.binned.ranges[2 * tile] / 32 + static_cast<int64_t>(tile));
}

}  // namespace
}  // namespace luxel
