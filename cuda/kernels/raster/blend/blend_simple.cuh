// The tile rasterizer on the GPU with a simple policy: one whose alpha is a closed form, cheap enough to compute for several
// pixels of a thread.
#pragma once

#include "kernels/raster/blend/blend.cuh"
#include "kernels/raster/blend/blend_bwd_simple.cuh"
#include "kernels/raster/blend/blend_fwd_simple.cuh"

namespace luxel {
namespace {

template <typename PolicyType> struct SimpleBlend {
  using Policy = PolicyType;
  static_assert(!Policy::kMultiEdge);

  template <int D> static int forward(const luxel_blend_args& args) {
    const int64_t tiles = tiles_of(args.binned);
    // The capacity is only an estimate of the list lengths; results that must be reproducible may not depend on it.
    const bool chains = !args.deterministic && tiles < kManyTiles && args.binned.capacity > kLongMean * tiles;
    return chains ? forward<D, 1>(args) : forward<D, 2>(args);
  }
  template <int D> static int backward(const luxel_blend_args& args) {
    const bool absolute = Policy::kHasAbsolute && args.absolute;
    const auto kernel =
        absolute ? blend_bwd_simple_kernel<Policy, D, Policy::kHasAbsolute> : blend_bwd_simple_kernel<Policy, D, false>;
    const unsigned pieces = static_cast<unsigned>(tiles_of(args.binned) + args.binned.capacity / Policy::kPiece);
    return launch("blend_bwd", kernel, pieces, 32 * kBackwardWarps, 0, args.stream, args);
  }
  static int finish_backward(const luxel_blend_args&) { return 0; }

 private:
  // R pixels per thread.
  template <int D, int R> static int forward(const luxel_blend_args& args) {
    return args.median_depth ? launch_fwd<SimpleTiles<Policy, D, true, R>>(args) : launch_fwd<SimpleTiles<Policy, D, false, R>>(args);
  }
};

}  // namespace
}  // namespace luxel
