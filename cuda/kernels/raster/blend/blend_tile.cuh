// Shared by the forward and the backward pass of the tile rasterizer on the GPU: the pixels of a thread in its tile, and a batch of
// the tile's list in shared memory, each splat tested once against the pixels of every warp.
#pragma once

#include "abi/raster.h"
#include "math/raster/policy.h"
#include "kernels/error.h"
#include "kernels/raster/stage.h"
#include "kernels/raster/bin/tile_plan.cuh"

namespace luxel {
namespace {

// Tunables of this kernel family.
//
// With short lists the forward pass is bound by reading splats from shared memory, and two pixels per thread share a read; with
// long lists it is bound by the serial chain of splats of one warp, and a thread has one pixel. The host chooses by the mean list
// length that the capacity allows; with very many tiles no single chain dominates.
constexpr int kLongMean = 300, kManyTiles = 16384;
// Of the forward pass, by pixels per thread: number of splats whose alpha is computed ahead of blending them one by one, and whether
// a batch is fetched while the previous one is blended. The tunables of multi-edge policies are in blend_fwd_multi_edge.cuh and
// blend_bwd_multi_edge.cuh.
constexpr int ahead(int pixels) { return pixels == 1 ? 8 : 4; }
constexpr bool fetches_early(int pixels) { return pixels == 1; }
constexpr int kMaxAhead = 8;
constexpr int kLongTiles = 512;  // at most so many of the longest lists get several blocks, see tile_plan.cuh
// Of the backward pass: pixels of a thread, which share its part of a reduction over the warp, and warps of a tile.
constexpr int kBackwardPixels = 4;
constexpr int kBackwardWarps = LUXEL_TILE * LUXEL_TILE / kBackwardPixels / 32;

constexpr unsigned kAll = ~0u;
constexpr int kPixels = LUXEL_TILE * LUXEL_TILE;

// How R pixels per thread lie in a tile: a warp has 8 x 4R of them, a thread's are 4 rows apart.
template <int R> struct Shape {
  static constexpr int kThreads = kPixels / R, kWarps = kThreads / 32;
  static constexpr int kSubtileW = 8, kSubtileH = 4 * R;
  static constexpr int kSubtilesX = LUXEL_TILE / kSubtileW, kSubtilesY = LUXEL_TILE / kSubtileH;
};

// The position of a thread: its tile and first pixel.
template <int R> struct Place {
  int camera, x0, y0, x, y, warp, lane;
  int64_t pixel;
  int width, height;

  __device__ Place(const luxel_binned_splats& binned, int tile, int warp) : warp(warp), width(binned.width), height(binned.height) {
    const int tiles_x = tiles_along(width), per_image = tiles_x * tiles_along(height);
    camera = tile / per_image;
    tile %= per_image;
    x0 = tile % tiles_x * LUXEL_TILE;
    y0 = tile / tiles_x * LUXEL_TILE;
    lane = threadIdx.x & 31;
    x = x0 + warp % Shape<R>::kSubtilesX * 8 + lane % 8;
    y = y0 + warp / Shape<R>::kSubtilesX * (4 * R) + lane / 8;
    pixel = (static_cast<int64_t>(camera) * height + y) * width + x;
  }
  __device__ Place(const luxel_binned_splats& binned, int tile) : Place(binned, tile, threadIdx.x >> 5) {}
  __device__ bool inside(int r) const { return x < width && y + 4 * r < height; }
  __device__ int64_t pixel_at(int r) const { return pixel + static_cast<int64_t>(4 * r) * width; }
};

LUXEL_HD int32_t tiles_of(const luxel_binned_splats& binned) {
  return tiles_along(binned.width) * tiles_along(binned.height) * binned.cameras;
}

// Whether the backward pass needs the state after the first `done` splats (full pieces) of a list; not at its end.
__device__ __forceinline__ bool needs_state(const luxel_blend_args& args, int32_t done, int32_t length) {
  return args.states && done < length;
}

// The states after piece k of a tile: channel c of pixel p of the tile is at [c * 256 + p].
template <int D> __device__ __forceinline__ float* state_of(const luxel_blend_args& args, int tile, int k) {
  const int64_t slot = args.binned.plan[tiles_of(args.binned) + tile] + k;
  return out<float>(args.states) + slot * (D + 1) * kPixels;
}

// A splat as the inner loops read it: a few 16-byte loads, the same for all lanes. These bound the forward pass: a load of
// 16 bytes takes the shared memory four cycles even where all lanes read the same.
template <typename Policy, int D> struct alignas(16) Entry {
  typename Policy::Packed splat;
  float value[D];
  float depth;
};

// The values and the depth of a splat at a pixel, where the depth is a factor times that of its row if kPixelDepth; see depth_moments
// of luxel_blend_args.
template <typename Policy, int D, bool = Policy::kPixelDepth && D >= 4> struct SeenEntry {
  const float* value;
  float depth;
  template <typename Coverage>
  __device__ __forceinline__ SeenEntry(const luxel_blend_args&, const Entry<Policy, D>& entry, const Coverage& coverage)
      : value(entry.value), depth(entry.depth) {
    if constexpr (Policy::kPixelDepth) depth *= coverage.depth_factor();
  }
  // Factor of the value of a channel.
  __device__ __forceinline__ float factor(int) const { return 1.0f; }
};
template <typename Policy, int D> struct SeenEntry<Policy, D, true> {
  float value[D], depth, first, second;
  template <typename Coverage>
  __device__ __forceinline__ SeenEntry(const luxel_blend_args& args, const Entry<Policy, D>& entry, const Coverage& coverage) {
    const float factor = coverage.depth_factor();
    first = args.depth_moments > 0 ? factor : 1.0f;
    second = args.depth_moments > 1 ? factor * factor : 1.0f;
    depth = entry.depth * factor;
#pragma unroll
    for (int d = 0; d < D; ++d) value[d] = entry.value[d] * this->factor(d);
  }
  __device__ __forceinline__ float factor(int d) const { return d == 3 ? first : (d == 4 ? second : 1.0f); }
  // Gradient by the factor of the depth, given that by the values of the splat at the pixel.
  __device__ __forceinline__ float by_factor(const luxel_blend_args& args, const Entry<Policy, D>& entry, const float* g) const {
    float by = args.depth_moments > 0 ? entry.value[3] * g[3] : 0.0f;
    if constexpr (D > 4) by = args.depth_moments > 1 ? fmaf(2.0f * entry.value[4] * first, g[4], by) : by;
    return by;
  }
};

template <typename Policy, int D, int kSplats, int kMore = 0> struct Batch {
  Entry<Policy, D> entries[kSplats + kMore];
  uint8_t subtiles[kSplats];  // bit w: the splat may reach the pixels of warp w
};

// Which subtiles of the block at (x0, y0), which lie as in Grid, the primitive can reach.
template <typename Grid, typename Bounds> __device__ __forceinline__ unsigned reachable_subtiles(const Bounds& bounds, float x0, float y0) {
  constexpr int kSubtileW = Grid::kSubtileW, kSubtileH = Grid::kSubtileH;
  constexpr int kSubtilesX = Grid::kSubtilesX, kSubtilesY = Grid::kSubtilesY;
  unsigned mask = 0;
#pragma unroll
  for (int row = 0; row < kSubtilesY; ++row) {
    float left, right;
    const float top = y0 + static_cast<float>(row * kSubtileH) + 0.5f;
    if (!bounds.band(top, top + static_cast<float>(kSubtileH - 1), left, right)) continue;
#pragma unroll
    for (int column = 0; column < kSubtilesX; ++column) {
      const float first = x0 + static_cast<float>(column * kSubtileW) + 0.5f;
      if (right >= first && left <= first + static_cast<float>(kSubtileW - 1)) mask |= 1u << (row * kSubtilesX + column);
    }
  }
  return mask;
}

// Most splats of a batch that a thread loads; and whether its k-th belongs to the batch, which is constant for most shapes.
constexpr int loads(int splats, int threads) { return (splats + threads - 1) / threads; }
template <int kSplats, int kThreads> __device__ __forceinline__ bool brings(int k) {
  return kSplats % kThreads == 0 || static_cast<int>(threadIdx.x) + k * kThreads < kSplats;
}

// A splat on its way from global memory to a batch; id < 0: no splat.
template <typename Policy, int D> struct Fetched {
  float row[Policy::kRow], value[D];
};

template <typename Policy, int D>
__device__ __forceinline__ void fetch_splat(const luxel_blend_args& args, Fetched<Policy, D>& splat, int32_t id) {
  if (id < 0) return;
  const float4* row = reinterpret_cast<const float4*>(in<float>(args.binned.splats) + Policy::kRow * static_cast<int64_t>(id));
#pragma unroll
  for (int i = 0; i < Policy::kRow / 4; ++i) {
    const float4 four = row[i];
    splat.row[4 * i] = four.x;
    splat.row[4 * i + 1] = four.y;
    splat.row[4 * i + 2] = four.z;
    splat.row[4 * i + 3] = four.w;
  }
  const float* value = in<float>(args.values) + D * static_cast<int64_t>(id);
#pragma unroll
  for (int d = 0; d < D; ++d) splat.value[d] = value[d];
}

template <typename Policy, int D> __device__ __forceinline__ Entry<Policy, D> entry_of(const Fetched<Policy, D>& splat) {
  Entry<Policy, D> entry = {};
  entry.splat = Policy::pack(splat.row);
#pragma unroll
  for (int d = 0; d < D; ++d) entry.value[d] = splat.value[d];
  entry.depth = Policy::depth_of(splat.row);
  return entry;
}

template <typename Grid, typename Policy, int D, int kSplats, int kMore>
__device__ __forceinline__ void store_splat(Batch<Policy, D, kSplats, kMore>& batch, int slot, const Fetched<Policy, D>& splat,
                                            int32_t id, int x0, int y0) {
  unsigned mask = 0;
  if (id >= 0) {
    mask = reachable_subtiles<Grid>(Policy::Bounds::of(splat.row), static_cast<float>(x0), static_cast<float>(y0));
    batch.entries[slot] = entry_of(splat);
  }
  batch.subtiles[slot] = static_cast<uint8_t>(mask);
}

}  // namespace
}  // namespace luxel
