// One tile of the tile rasterizer on the CPU, forward and backward: vectors of pixels of a row at a time. Branches on alpha are
// masks.
#pragma once

#include "abi/raster.h"
#include "math/raster/policy_check.h"
#include "kernels/raster/blend/tile_reach.h"

#include <cstring>

namespace luxel {

// Factors of a splat's values at pixels where its depth is `factor` times that of its row: see depth_moments of luxel_blend_args.
template <typename Policy, typename V, int D> struct ValueFactors {
  static constexpr bool kUsed = Policy::kPixelDepth && D >= 4;
  int moments;
  V depth, square;

  template <typename At> ValueFactors(const luxel_blend_args& args, const At& at) : moments(kUsed ? args.depth_moments : 0), depth(), square() {
    if constexpr (kUsed) {
      depth = at.depth_factor;
      square = depth * depth;
    }
  }
  V of(int channel, V value) const {
    if (!kUsed || channel < 3 || channel >= 3 + moments) return value;
    return (channel == 3 ? depth : square) * value;
  }
  // The gradient by `depth`, given those by the values at these pixels.
  template <typename T> V by_depth(const T* value, const V* g) const {
    V by = value[3] * g[3];
    if constexpr (D > 4)
      if (moments > 1) by += (T(2) * value[4]) * depth * g[4];
    return by;
  }
};

template <typename Policy, typename T, int D, bool kMedian> void forward_tile(const luxel_blend_args& args, int64_t index) {
  using V = Vector<T>;
  const Tile<T> tile(args.binned, index);
  const T* values = in<T>(args.values);
  const T max_alpha = T(args.binned.max_alpha);
  // last: index within the list, exact in T
  // transmittance: negative once a pixel has ended, and outside of the image
  alignas(64) T transmittance[kPixels], sums[D][kPixels], last[kPixels], seen[kPixels];
  alignas(64) T median[kMedian ? kPixels : 1];
  const bool counted = args.contributors != nullptr;
  for (int p = 0; p < kPixels; ++p)
    transmittance[p] = p % kSide < tile.columns && p / kSide < tile.rows ? T(1) : T(-1);
  std::memset(sums, 0, sizeof sums);
  std::memset(last, 0, sizeof last);
  std::memset(seen, 0, sizeof seen);
  std::memset(median, 0, sizeof median);
  Batch<Policy, T> batch;
  for (int32_t from = tile.begin; from < tile.end; from += kBatch) {
    if ((from - tile.begin) % (2 * kBatch) == kBatch) {
      T most = T(-1);
      for (int p = 0; p < kPixels; ++p) most = larger(most, transmittance[p]);
      if (most <= T(0)) break;
    }
    const int count = smaller(kBatch, tile.end - from);
    batch.template load<D>(args, tile, from, count, from + kBatch);
    for (int k = 0; k < count; ++k) {
      const Policy g = batch.splat[k];
      const T number = T(from + k - tile.begin + 1);
      const T* value = values + D * batch.id[k];
      const V first_dx = T(tile.x0) + T(0.5) - g.x + lane_numbers<T>();
      const Reach<Policy, T>& reach = batch.reach[k];
      for (int row = reach.row; row <= reach.last_row; ++row) {
        const T dy = T(tile.y0 + row) + T(0.5) - g.y;
        for (int column = reach.first[row]; column < reach.end[row]; column += kLanes<T>) {
          const int p = row * kSide + column;
          const V before = load_vector(transmittance + p), zero = {};
          if (!any_lane<T>(before > zero)) continue;
          const auto at = g.at(first_dx + T(column), dy);
          const V alpha = smaller_lanes(g.opacity * at.falloff, broadcast(max_alpha));
          const V taken = alpha * before, after = before - taken;
          const Mask<T> hit = at.valid & (alpha >= T(kMinAlpha));
          const Mask<T> counts = hit & (after > T(kMinTransmittance));  // not after the pixel has ended: negative
          const V weight = counts ? taken : zero;
          const ValueFactors<Policy, V, D> factors(args, at);
          for (int d = 0; d < D; ++d)
            store_vector(sums[d] + p, load_vector(sums[d] + p) + weight * factors.of(d, broadcast(value[d])));
          store_vector(transmittance + p, counts ? after : (hit & (before > zero) ? -before : before));
          store_vector(last + p, counts ? broadcast(number) : load_vector(last + p));
          if (counted) store_vector(seen + p, load_vector(seen + p) + (counts ? broadcast(T(1)) : zero));
          if (kMedian) {
            const Mask<T> half = counts & (before > T(0.5)) & (after <= T(0.5));
            V depth = broadcast(g.depth);
            if constexpr (Policy::kPixelDepth) depth *= at.depth_factor;
            store_vector(median + p, half ? depth : load_vector(median + p));
          }
        }
      }
    }
  }
  const T* background = args.background ? in<T>(args.background) + D * tile.camera : nullptr;
  // Columns in loops of one kind each, which the compiler vectorises.
  for (int row = 0; row < tile.rows; ++row) {
    const int64_t pixel = tile.pixel(args.binned, row);
    const int p = row * kSide, columns = tile.columns;
    T* through = out<T>(args.transmittance) + pixel;
    T* image = out<T>(args.image) + pixel * D;
    for (int j = 0; j < columns; ++j) through[j] = std::fabs(transmittance[p + j]);
    for (int d = 0; d < D; ++d) {
      const T behind = background ? background[d] : T(0);
      for (int j = 0; j < columns; ++j) image[j * D + d] = sums[d][p + j] + through[j] * behind;
    }
    if (args.last)
      for (int j = 0; j < columns; ++j)
        args.last[pixel + j] = last[p + j] > T(0) ? tile.begin + static_cast<int32_t>(last[p + j]) : 0;
    if (counted)
      for (int j = 0; j < columns; ++j) args.contributors[pixel + j] = static_cast<int32_t>(seen[p + j]);
    if (kMedian)
      for (int j = 0; j < columns; ++j) out<T>(args.median_depth)[pixel + j] = median[p + j];
  }
}

// Per instance: the gradient by the row as in g_splats, then by the D values.
template <typename Policy, typename T, int D, bool kAbsolute>
void backward_tile(const luxel_blend_args& args, int64_t index, T* rows, T* g_background) {
  using V = Vector<T>;
  const Tile<T> tile(args.binned, index);
  const T* values = in<T>(args.values);
  const T* background = args.background ? in<T>(args.background) + D * tile.camera : nullptr;
  const T max_alpha = T(args.binned.max_alpha);
  if (tile.begin == tile.end && !(background && args.g_background)) return;
  // behind: sum_c g_c S_c, with S the colour accumulated behind the current splat
  alignas(64) T transmittance[kPixels], behind[kPixels], last[kPixels], g_image[D][kPixels];
  if (tile.columns < kSide || tile.rows < kSide) {
    std::memset(transmittance, 0, sizeof transmittance);
    std::memset(behind, 0, sizeof behind);
    std::memset(last, 0, sizeof last);
    std::memset(g_image, 0, sizeof g_image);
  }
  int32_t end = tile.begin;
  for (int row = 0; row < tile.rows; ++row) {
    const int64_t pixel = tile.pixel(args.binned, row);
    const int p = row * kSide, columns = tile.columns;
    const T* through = in<T>(args.transmittance) + pixel;
    const T* slope = args.g_transmittance ? in<T>(args.g_transmittance) + pixel : nullptr;
    const T* g = in<T>(args.g_image) + pixel * D;
    for (int j = 0; j < columns; ++j) {
      transmittance[p + j] = through[j];
      behind[p + j] = slope ? slope[j] : T(0);
      last[p + j] = static_cast<T>(larger(args.last[pixel + j] - tile.begin, 0));
      end = larger(end, args.last[pixel + j]);
    }
    for (int d = 0; d < D; ++d) {
      const T colour = background ? background[d] : T(0);
      for (int j = 0; j < columns; ++j) {
        g_image[d][p + j] = g[j * D + d];
        behind[p + j] += g[j * D + d] * colour;
      }
      if (background && args.g_background)
        for (int j = 0; j < columns; ++j) g_background[d] += g_image[d][p + j] * through[j];
    }
    for (int j = 0; j < columns; ++j) behind[p + j] *= through[j];
  }
  constexpr int kWidth = Policy::kRow + D;
  std::memset(rows + static_cast<int64_t>(kWidth) * end, 0, sizeof(T) * kWidth * (tile.end - end));
  Batch<Policy, T> batch;
  for (int32_t to = end; to > tile.begin;) {
    const int count = smaller(kBatch, to - tile.begin);
    to -= count;
    batch.template load<D>(args, tile, to, count, to - kBatch);
    for (int k = count - 1; k >= 0; --k) {
      const Policy g = batch.splat[k];
      const T number = T(to + k - tile.begin);
      const T* value = values + D * batch.id[k];
      const V first_dx = T(tile.x0) + T(0.5) - g.x + lane_numbers<T>(), zero = {};
      typename Policy::template Gradient<V, kAbsolute> g_splat = {};
      V g_value[D] = {};
      const Reach<Policy, T>& reach = batch.reach[k];
      for (int row = reach.row; row <= reach.last_row; ++row) {
        const T dy = T(tile.y0 + row) + T(0.5) - g.y;
        for (int column = reach.first[row]; column < reach.end[row]; column += kLanes<T>) {
          const int p = row * kSide + column;
          const Mask<T> reached = load_vector(last + p) > number;
          if (!any_lane<T>(reached)) continue;
          const auto at = g.at(first_dx + T(column), dy);
          const V raw = g.opacity * at.falloff;
          const Mask<T> counts = at.valid & (raw >= T(kMinAlpha)) & reached;
          const V alpha = counts ? smaller_lanes(raw, broadcast(max_alpha)) : zero;
          const V inverse = T(1) / (T(1) - alpha);
          const V before = load_vector(transmittance + p) * inverse, further = load_vector(behind + p);
          const V weight = alpha * before;
          V slope = zero, g_channel[D];  // slope: g_image . value
          const ValueFactors<Policy, V, D> factors(args, at);
          for (int d = 0; d < D; ++d) {
            g_channel[d] = load_vector(g_image[d] + p);
            slope += g_channel[d] * factors.of(d, broadcast(value[d]));
            g_value[d] += weight * factors.of(d, g_channel[d]);
          }
          if constexpr (ValueFactors<Policy, V, D>::kUsed)
            if (factors.moments > 0) g_splat.add_depth(g, at, weight * factors.by_depth(value, g_channel));
          const V g_alpha = counts & (raw <= max_alpha) ? before * slope - further * inverse : zero;
          store_vector(behind + p, further + weight * slope);
          store_vector(transmittance + p, before);
          g_splat.add(g, at, g_alpha);
        }
      }
      T* target = rows + static_cast<int64_t>(kWidth) * (to + k);
      g_splat.store(g, [](V v) { return sum_lanes<T>(v); }, target);
      for (int d = 0; d < D; ++d) target[Policy::kRow + d] = sum_lanes<T>(g_value[d]);
    }
  }
}

}  // namespace luxel
