// A primitive is a policy of the tile rasterizer: the contract, and which tiles a primitive touches.
//
// A policy computes, from a primitive's row of kRow numbers on the screen: Bounds, an outline that gives the primitive's extent
// in a band of pixel rows; its alpha at a pixel; and the gradient of alpha by the row. It is independent of tiles and colours.
// The first four numbers of every row are x, y (px), opacity, depth.
//
// math/raster/policy_check.h states the full interface as assertions; cuda/examples/disc_policy.h is an example to start from, with
// the blending as two plain loops. math/raster/gaussian_policy.h (Gaussians), math/raster/convex_policy.h and math/raster/surfel_policy.h are the policies of the library.
//
// On the CPU (kernels/raster/blend/blend.h) at() computes several pixels of one row and Gradient sums over them. On the GPU
// every instruction of the inner loop counts: a tile's splats are packed once (Packed), pixels of one column share a Column, and
// the gradient by the row is accumulated as Sums, few numbers per pixel. Lists are divided into pieces of kPiece instances; short
// pieces balance the backward pass better, but need more memory for the per-pixel states that the forward pass stores.
//
// A policy with kPixelDepth (surfels) also gives the depth at a pixel, as a factor of that of the row, and the gradient of that.
//
// A simple policy has an alpha of closed form (kernels/raster/blend/blend_simple.cuh). A multi-edge policy (kMultiEdge) computes
// alpha by a loop over edges (blend_multi_edge.cuh): loops are compiled for some numbers of edges, and the backward pass
// visits pixels one by one, only those to which the splat contributed in the forward pass. Its Sums are raw moments, which
// moments_to_gradient() turns into the gradient once for each row.
#pragma once

#include "math/vec.h"
#if !defined(__CUDACC__)
#include "math/simd.h"  // before the policies: their functions of vectors of pixels
#endif

namespace luxel {

constexpr float kMinAlpha = 1.0f / 255.0f;       // smaller alphas are skipped
constexpr float kMinExponent = -7.9943534f;      // log2(kMinAlpha)
constexpr float kMinTransmittance = 1e-4f;       // a pixel ends before T would fall to this

// Rows [first, end) of 16-pixel tiles that the primitive can reach.
template <typename Bounds> LUXEL_HD void tile_rows(const Bounds& e, int tiles_y, int& first, int& end) {
  using T = typename Bounds::Number;
  const T side = T(16), half = T(0.5);
  // Bounds are clamped while still floating point: a huge splat must not overflow the conversion.
  first = larger(static_cast<int>(clamp(ceil_of((e.top() - side + half) / side), T(-1), T(tiles_y))), 0);
  end = static_cast<int>(clamp(floor_of((e.bottom() - half) / side), T(-1), T(tiles_y - 1))) + 1;
}

// Columns [first, end) of tiles in a row whose pixel centres it can reach: its exact horizontal extent over the
// row's band of pixel centres.
template <typename Bounds>
LUXEL_HD void tile_columns(const Bounds& e, int row, int tiles_x, int& first, int& end) {
  using T = typename Bounds::Number;
  const T side = T(16), half = T(0.5);
  T left, right;
  first = end = 0;
  if (!e.band(T(row) * side + half, T(row) * side + side - half, left, right)) return;
  first = static_cast<int>(clamp(ceil_of((left - side + half) / side), T(0), T(tiles_x)));
  end = static_cast<int>(clamp(floor_of((right - half) / side), T(-1), T(tiles_x - 1))) + 1;
}

// Calls visit(tile_y, first_tile_x, end_tile_x) for every row of tiles in [first_row, end_row) that the
// primitive can reach.
template <typename Bounds, typename Visit>
LUXEL_HD void for_tile_rows(const Bounds& e, int tiles_x, int tiles_y, int first_row, int end_row, Visit visit) {
  int row0, row1, column0, column1;
  tile_rows(e, tiles_y, row0, row1);
  for (int row = larger(row0, first_row); row < smaller(row1, end_row); ++row) {
    tile_columns(e, row, tiles_x, column0, column1);
    if (column0 < column1) visit(row, column0, column1);
  }
}

}  // namespace luxel
