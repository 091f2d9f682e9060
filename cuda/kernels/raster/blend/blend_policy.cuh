// The algorithm by which the tile rasterizer on the GPU blends a policy.
#pragma once

#include "kernels/raster/blend/blend_multi_edge.cuh"
#include "kernels/raster/blend/blend_simple.cuh"

namespace luxel {
namespace {

template <typename Policy, bool = Policy::kMultiEdge> struct BlendFor {
  using Algorithm = SimpleBlend<Policy>;
};
template <typename Policy> struct BlendFor<Policy, true> {
  using Algorithm = MultiEdgeBlend<Policy>;
};
template <typename Policy> using BlendOf = typename BlendFor<Policy>::Algorithm;

template <typename Policy> int64_t blend_workspace(const luxel_blend_args& args) { return blend_workspace(args, Policy::kRow); }

}  // namespace
}  // namespace luxel
