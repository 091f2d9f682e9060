// The walk of the label stages over the list of one tile on the CPU: transmittance as in blending (blend_tile.h), no values.
#pragma once

#include "kernels/raster/blend/blend_tile.h"

namespace luxel {

constexpr int kAheadOfUse = 8;  // splats whose memory is fetched before they are due

// Visits the splats of a tile front to back. Visitor:
//   void fetch(int64_t id)                 the splat will be visited soon
//   bool begin(int64_t id, const T* splat) before its pixels; false: they only reduce the transmittance
//   void add(int p, Vector<T> weight)      T alpha of pixels p .. of the tile
//   void end(int64_t id)
// transmittance [kPixels]: negative once a pixel has ended, and outside of the image; at the end |T| is T_end.
template <typename Policy, typename T, typename Visitor>
void walk_tile(const luxel_binned_splats& binned, const Tile<T>& tile, T* transmittance, Visitor& visitor) {
  using V = Vector<T>;
  constexpr int W = kLanes<T>;
  const T* splats = in<T>(binned.splats);
  const T max_alpha = T(binned.max_alpha);
  for (int p = 0; p < kPixels; ++p) transmittance[p] = p % kSide < tile.columns && p / kSide < tile.rows ? T(1) : T(-1);
  for (int32_t i = tile.begin; i < tile.end; ++i) {
    if ((i - tile.begin) % 16 == 15) {
      T most = T(-1);
      for (int p = 0; p < kPixels; ++p) most = larger(most, transmittance[p]);
      if (most <= T(0)) break;
    }
    if (i + kAheadOfUse < tile.end) {
      const int64_t later = binned.instances[i + kAheadOfUse];
      __builtin_prefetch(splats + Policy::kRow * later);
      visitor.fetch(later);
    }
    const int64_t id = binned.instances[i];
    const T* splat = splats + Policy::kRow * id;
    const Policy g = Policy::load(splat);
    const bool counted = visitor.begin(id, splat);
    const V first_dx = T(tile.x0) + T(0.5) - g.x + lane_numbers<T>();
    const Reach<Policy, T> reach(splat, tile);
    for (int row = reach.row; row <= reach.last_row; ++row) {
      const T dy = T(tile.y0 + row) + T(0.5) - g.y;
      // Full vectors: visitors store numbers of each.
      for (int column = reach.first[row] / W * W; column < reach.end[row]; column += W) {
        const int p = row * kSide + column;
        const auto at = g.at(first_dx + T(column), dy);
        V alpha = g.opacity * at.falloff;
        alpha = alpha > max_alpha ? broadcast(max_alpha) : alpha;
        const V before = load_vector(transmittance + p), zero = {};
        const Mask<T> hit = at.valid & (alpha >= T(kMinAlpha)) & (before > zero);
        if (!any_lane<T>(hit)) continue;
        const V after = before * (T(1) - alpha);
        const Mask<T> counts = hit & (after > T(kMinTransmittance));
        store_vector(transmittance + p, counts ? after : (hit ? -before : before));
        if (counted) visitor.add(p, counts ? alpha * before : zero);
      }
    }
    if (counted) visitor.end(id);
  }
}

}  // namespace luxel
