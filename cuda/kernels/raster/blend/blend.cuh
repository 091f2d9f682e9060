// The tile rasterizer on the GPU, for any primitive (Policy, see math/policy.h). Twin of blend.h.
#pragma once

#include "kernels/raster/blend/blend_bwd.cuh"
#include "kernels/raster/blend/blend_fwd.cuh"
#include "kernels/raster/blend/blend_ordered.cuh"
#include "device/launch.cuh"

namespace luxel {
namespace {

// d image / d background is T_end: a sum over all pixels, apart from any list of splats.
template <int D> __global__ void __launch_bounds__(256) background_bwd_kernel(const luxel_blend_args args) {
  const int64_t pixels = static_cast<int64_t>(args.width) * args.height;
  const int camera = blockIdx.y;
  float g[D] = {};
  for (int64_t p = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; p < pixels;
       p += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const int64_t pixel = camera * pixels + p;
    const float t_end = in<float>(args.transmittance)[pixel];
#pragma unroll
    for (int d = 0; d < D; ++d) g[d] = fmaf(in<float>(args.g_image)[pixel * D + d], t_end, g[d]);
  }
  __shared__ float sums[D];  // of the block, so that few atomics meet at one address
  if (threadIdx.x < D) sums[threadIdx.x] = 0.0f;
  __syncthreads();
#pragma unroll
  for (int d = 0; d < D; ++d) {
    for (int bit = 16; bit >= 1; bit /= 2) g[d] += __shfl_xor_sync(kAll, g[d], bit);
    if ((threadIdx.x & 31) == 0) atomicAdd(&sums[d], g[d]);
  }
  __syncthreads();
  if (threadIdx.x < D) atomicAdd(out<float>(args.g_background) + D * camera + threadIdx.x, sums[threadIdx.x]);
}

// Turns what multi-edge policies gather of a splat into the gradient by its row. Rows of splats that nobody sees may hold anything;
// of them nothing was gathered.
template <typename Policy> __global__ void __launch_bounds__(128) moments_to_gradient_kernel(const luxel_blend_args args) {
  constexpr int kFours = Policy::kRow / 4;
  const int64_t n = static_cast<int64_t>(blockIdx.x) * 128 + threadIdx.x;
  if (n >= static_cast<int64_t>(args.count) * args.cameras) return;
  float4* const sums = static_cast<float4*>(args.g_splats) + kFours * n;
  const float4* const splats = static_cast<const float4*>(args.splats) + kFours * n;
  alignas(16) float row[Policy::kRow], gathered[Policy::kRow];
  bool any = false;
#pragma unroll
  for (int i = 0; i < kFours; ++i) {
    const float4 four = reinterpret_cast<float4*>(gathered)[i] = sums[i];
    any |= !(four.x == 0.0f && four.y == 0.0f && four.z == 0.0f && four.w == 0.0f);
  }
  if (!any) return;
#pragma unroll
  for (int i = 0; i < kFours; ++i) reinterpret_cast<float4*>(row)[i] = splats[i];
  Policy::moments_to_gradient(row, gathered);
#pragma unroll
  for (int i = 0; i < kFours; ++i) sums[i] = reinterpret_cast<const float4*>(gathered)[i];
}

template <typename Policy, int D, int R> int forward(const luxel_blend_args& args) {
  const unsigned blocks = static_cast<unsigned>(tiles_of(args) + most_long_tiles(args) * (Drawing<Policy, D, false, R>::kParts - 1));
  const auto kernel = args.median_depth ? blend_fwd_kernel<Policy, D, true, R> : blend_fwd_kernel<Policy, D, false, R>;
  return launch("blend_fwd", kernel, blocks, Shape<R>::kThreads, 0, args.stream, args);
}

template <typename Policy, int D> int forward(const luxel_blend_args& args) {
  const int64_t tiles = tiles_of(args);
  // The room only hints at the mean length of the lists; where bits must repeat, it must not decide.
  const bool chains = !args.deterministic && tiles < kManyTiles && args.capacity > kLongMean * tiles;
  if constexpr (!Policy::kMultiEdge)
    if (!chains) return forward<Policy, D, 2>(args);
  return forward<Policy, D, 1>(args);
}

template <typename Policy, int D> int backward(const luxel_blend_args& args) {
  const cudaStream_t stream = static_cast<cudaStream_t>(args.stream);
  constexpr int R = kBackwardPixels;
  if (Policy::kMultiEdge && args.states == nullptr && args.capacity > 0) return fail("the backward pass needs what the forward pass left");
  const unsigned pieces = static_cast<unsigned>(tiles_of(args) + args.capacity / Policy::kPiece);
  Ordered o = {};
  const bool ordered = args.deterministic && args.capacity > 0;
  if (ordered) {
    LUXEL_CUDA(lay_out(args, Policy::kRow, o));
    if (args.workspace_bytes < o.bytes) return fail("workspace too small");
    LUXEL_CUDA(cudaMemsetAsync(o.rows, 0, o.rows_bytes, stream));
  }
  const bool absolute = Policy::kHasAbsolute && args.absolute;
  const auto kernel = absolute ? blend_bwd_kernel<Policy, D, Policy::kHasAbsolute, R> : blend_bwd_kernel<Policy, D, false, R>;
  constexpr int kWarps = backward_warps<Policy>();
  if (launch("blend_bwd", kernel, pieces * (kBackwardWarps / kWarps), 32 * kWarps, 0, stream, args) < 0) return -1;
  if (ordered) {
    if (launch("number", number_kernel, blocks_for(args.capacity, 256), 256, 0, stream, o.positions, args.capacity) < 0) return -1;
    LUXEL_CUDA(cub::DeviceRadixSort::SortPairs(o.sorting, o.sorting_bytes, args.instances, o.ids_sorted, o.positions,
                                               o.positions_sorted, args.capacity, 0, index_bits(args), stream));
    const dim3 grid(blocks_for(args.capacity, 8), numbers_per_lane(Policy::kRow + D));
    if (launch("sum_rows", sum_rows_kernel<Policy::kRow, D>, grid, 256, 0, stream, args, o) < 0) return -1;
  }
  if constexpr (Policy::kMultiEdge) {
    const unsigned blocks = blocks_for(static_cast<int64_t>(args.count) * args.cameras, 128);
    if (!args.raw_moments && launch("moments_to_gradient", moments_to_gradient_kernel<Policy>, blocks, 128, 0, stream, args) < 0) return -1;
  }
  // One warp where the order must be fixed.
  if (args.g_background == nullptr) return 0;
  return launch("background_bwd", background_bwd_kernel<D>, dim3(args.deterministic ? 1 : 128, args.cameras),
                args.deterministic ? 32 : 256, 0, stream, args);
}

// Bytes that a backward pass needs, `row` numbers a splat; pointers are not looked at.
inline int64_t blend_workspace(const luxel_blend_args& args, int row) {
  if (!args.deterministic || args.capacity == 0) return 0;
  Ordered o = {};
  LUXEL_CUDA(lay_out(args, row, o));
  return o.bytes;
}

template <typename Policy> int blend(const luxel_blend_args& args, bool back) {
  if (args.dtype != 0) return fail("the GPU kernels take float32");
  if (!Policy::kHasAbsolute && args.absolute) return fail("absolute gradients are for Gaussians only");
  if (!Policy::kMultiEdge && args.raw_moments) return fail("raw moments are for convexes only");
  LUXEL_CUDA(cudaSetDevice(args.device));
  switch (args.channels) {
#define LUXEL_CHANNELS(D) \
  case D: return back ? backward<Policy, D>(args) : forward<Policy, D>(args);
    LUXEL_CHANNELS(3)
    LUXEL_CHANNELS(4)
    LUXEL_CHANNELS(6)
    LUXEL_CHANNELS(7)
    LUXEL_CHANNELS(8)
    LUXEL_CHANNELS(16)
#undef LUXEL_CHANNELS
    default: return fail("%d channels are not one of 3, 4, 6, 7, 8, 16", args.channels);
  }
}

}  // namespace
}  // namespace luxel
