// The tile rasterizer on the GPU with a multi-edge policy: one whose alpha is a loop over edges.
#pragma once

#include "kernels/raster/blend/blend.cuh"
#include "kernels/raster/blend/blend_bwd_multi_edge.cuh"
#include "kernels/raster/blend/blend_fwd_multi_edge.cuh"

namespace luxel {
namespace {

// Turns the raw moments of each splat into the gradient by its row, in place. Rows of culled splats are uninitialised; their
// moments are 0.
template <typename Policy> __global__ void __launch_bounds__(128) moments_to_gradient_kernel(const luxel_blend_args args) {
  constexpr int kFours = Policy::kRow / 4;
  const int64_t n = static_cast<int64_t>(blockIdx.x) * 128 + threadIdx.x;
  if (n >= static_cast<int64_t>(args.binned.count) * args.binned.cameras) return;
  float4* const sums = static_cast<float4*>(args.g_splats) + kFours * n;
  const float4* const splats = static_cast<const float4*>(args.binned.splats) + kFours * n;
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

template <typename PolicyType> struct MultiEdgeBlend {
  using Policy = PolicyType;
  static_assert(Policy::kMultiEdge);

  template <int D> static int forward(const luxel_blend_args& args) {
    return args.median_depth ? launch_fwd<MultiEdgeTiles<Policy, D, true>>(args) : launch_fwd<MultiEdgeTiles<Policy, D, false>>(args);
  }
  template <int D> static int backward(const luxel_blend_args& args) {
    if (args.states == nullptr && args.binned.capacity > 0) return fail("the backward pass needs the states of the forward pass");
    const bool absolute = Policy::kHasAbsolute && args.absolute;
    const auto kernel = absolute ? blend_bwd_multi_edge_kernel<Policy, D, Policy::kHasAbsolute>
                                 : blend_bwd_multi_edge_kernel<Policy, D, false>;
    const unsigned pieces = static_cast<unsigned>(tiles_of(args.binned) + args.binned.capacity / Policy::kPiece);
    return launch("blend_bwd", kernel, pieces * kBackwardWarps, 32, 0, args.stream, args);
  }
  // Turns raw moments into gradients, unless the caller requested raw moments.
  static int finish_backward(const luxel_blend_args& args) {
    if (args.raw_moments) return 0;
    const unsigned blocks = blocks_for(static_cast<int64_t>(args.binned.count) * args.binned.cameras, 128);
    return launch("moments_to_gradient", moments_to_gradient_kernel<Policy>, blocks, 128, 0, args.stream, args);
  }
};

}  // namespace
}  // namespace luxel
