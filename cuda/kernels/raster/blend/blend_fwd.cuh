// The forward kernel of the tile rasterizer on the GPU: assigns tiles to blocks, long lists first. Tiles are rendered by
// blend_fwd_simple.cuh or blend_fwd_multi_edge.cuh.
#pragma once

#include "device/launch.cuh"
#include "kernels/raster/blend/blend_gather.cuh"

namespace luxel {
namespace {

// The number of long lists is not known to the host: a launch has blocks for this upper bound.
LUXEL_HD int32_t max_long_tiles(const luxel_binned_splats& binned) {
  return static_cast<int32_t>(smaller<int64_t>(smaller(kLongTiles, tiles_of(binned)), binned.capacity / kLong));
}

// The first blocks process the long lists, kParts blocks each, the others one tile each. Tiles: Policy, Shared, kThreads, kBlocks of
// a multiprocessor, kParts, draw(args, shared, tile), draw_long(args, shared, tile, part).
template <typename Tiles>
__global__ void __launch_bounds__(Tiles::kThreads, Tiles::kBlocks) blend_fwd_kernel(const luxel_blend_args args) {
  __shared__ typename Tiles::Shared shared;
  constexpr int kParts = Tiles::kParts;
  const int tiles = tiles_of(args.binned);
  const int counted = args.binned.plan[4 * static_cast<int64_t>(tiles) + 2 * (args.binned.capacity / Tiles::Policy::kPiece)];
  // Beyond the upper bound the choice of long tiles is not deterministic; if it must be, none are treated as long.
  const int most = counted > max_long_tiles(args.binned) && args.deterministic ? 0 : max_long_tiles(args.binned);
  const int long_tiles = max(0, min(counted, most)), long_blocks = long_tiles * kParts;
  const int block = static_cast<int>(blockIdx.x);
  const bool long_block = block < long_blocks;
  const int place = long_block ? block / kParts : long_tiles + block - long_blocks;
  if (place >= tiles) return;
  const int tile = args.binned.plan[place];
  if (long_block)
    Tiles::draw_long(args, shared, tile, block % kParts);
  else
    Tiles::draw(args, shared, tile);
}

template <typename Tiles> int launch_fwd(const luxel_blend_args& args) {
  const unsigned blocks = static_cast<unsigned>(tiles_of(args.binned) + max_long_tiles(args.binned) * (Tiles::kParts - 1));
  return launch("blend_fwd", blend_fwd_kernel<Tiles>, blocks, Tiles::kThreads, 0, args.stream, args);
}

}  // namespace
}  // namespace luxel
