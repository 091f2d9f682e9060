// Which pixels of a tile a splat can reach, on the CPU: for each row, full vectors of pixels.
#pragma once

#include "math/raster/policy.h"
#include "kernels/raster/stage.h"

#include <type_traits>
#include <utility>

namespace luxel {

constexpr int kSide = LUXEL_TILE, kPixels = kSide * kSide;

template <typename T> struct Tile {
  int camera, x0, y0, columns, rows;
  int32_t begin, end;

  Tile(const luxel_binned_splats& binned, int64_t index) {
    const int tiles_x = tiles_along(binned.width), tiles_y = tiles_along(binned.height);
    const int64_t per_image = static_cast<int64_t>(tiles_x) * tiles_y;
    camera = static_cast<int>(index / per_image);
    const int local = static_cast<int>(index % per_image);
    x0 = local % tiles_x * kSide;
    y0 = local / tiles_x * kSide;
    columns = smaller(kSide, binned.width - x0);
    rows = smaller(kSide, binned.height - y0);
    begin = binned.ranges[2 * index];
    end = binned.ranges[2 * index + 1];
  }
  int64_t pixel(const luxel_binned_splats& binned, int row) const {
    return (static_cast<int64_t>(camera) * binned.height + y0 + row) * binned.width + x0;
  }
};

inline int64_t tile_count(const luxel_binned_splats& binned) {
  return static_cast<int64_t>(tiles_along(binned.width)) * tiles_along(binned.height) * binned.cameras;
}

// Whether bounds have row_spans(), their exact extent in every row of a tile (SplatEllipse).
template <typename Bounds, typename T, typename = void> struct HasRowSpans : std::false_type {};
template <typename Bounds, typename T>
struct HasRowSpans<Bounds, T,
                   std::void_t<decltype(std::declval<const Bounds&>().template row_spans<kSide>(T(), T(), std::declval<T*>(),
                                                                                                std::declval<T*>()))>>
    : std::true_type {};

// Rows [row, last_row] of the tile, and of each row the columns [first, end), a multiple of the vector's pixels that stays within
// the row. Vectors start anywhere: a splat of 6 pixels across needs one vector of 8 wherever it lies.
template <typename Policy, typename T> struct Reach {
  int row, last_row;
  alignas(64) int32_t first[kSide], end[kSide];

  Reach() = default;
  Reach(const T* splat, const Tile<T>& tile) {
    using Bounds = typename Policy::Bounds;
    const Bounds e = Bounds::of(splat);
    const T x0 = T(tile.x0), y = T(0.5) + T(tile.y0);
    row = static_cast<int>(clamp(ceil_of(e.top() - y), T(0), T(kSide)));
    last_row = static_cast<int>(clamp(floor_of(e.bottom() - y), T(-1), T(tile.rows - 1)));
    alignas(64) T left[kSide], right[kSide];
    if constexpr (HasRowSpans<Bounds, T>::value) {
      e.template row_spans<kSide>(x0, y, left, right);
    } else {
      for (int r = 0; r < kSide; ++r) {
        left[r] = e.left() - x0;
        right[r] = e.right() - x0;
      }
    }
    const T columns = T(tile.columns);
    constexpr int W = kLanes<T>;
#pragma omp simd
    for (int r = 0; r < kSide; ++r) {
      // Pixel j has its centre at j + 1/2. Widened, so that rounding never drops a pixel that passes the test on alpha.
      const T slack = T(1e-3);
      const int from = static_cast<int>(clamp(left[r] + (T(0.5) - slack), T(0), T(kSide)));
      const int to = static_cast<int>(clamp(right[r] + (T(0.5) + slack), T(0), columns));
      const int pixels = (larger(to - from, 0) + W - 1) & -W;
      first[r] = smaller(from, kSide - pixels);
      end[r] = first[r] + pixels;
    }
  }
};

// Splats of a list that are prepared together: their latencies overlap.
constexpr int kBatch = 16;

// Up to kBatch splats of a tile's list.
template <typename Policy, typename T> struct Batch {
  int64_t id[kBatch];
  Policy splat[kBatch];
  Reach<Policy, T> reach[kBatch];

  // Loads `count` splats from number `from` of the list on; fetches the memory of those from number `next` on.
  template <int D> void load(const luxel_blend_args& args, const Tile<T>& tile, int32_t from, int count, int32_t next) {
    const T* splats = in<T>(args.binned.splats);
    for (int32_t i = larger(next, tile.begin); i < smaller(next + kBatch, tile.end); ++i) {
      const int64_t later = args.binned.instances[i];
      __builtin_prefetch(splats + Policy::kRow * later);
      __builtin_prefetch(in<T>(args.values) + D * later);
    }
    for (int k = 0; k < count; ++k) {
      id[k] = args.binned.instances[from + k];
      const T* row = splats + Policy::kRow * id[k];
      splat[k] = Policy::load(row);
      reach[k] = Reach<Policy, T>(row, tile);
    }
  }
};

}  // namespace luxel
