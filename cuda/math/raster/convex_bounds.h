// The outline of a smooth convex, from its row; used to bin splats into tiles and to test splats against parts of a tile.
#pragma once

#include "math/hd.h"

namespace luxel {

constexpr int kMaxCorners = 8;  // of a convex, as in abi/raster.h
constexpr int kConvexRow = 28, kConvexCorners = kConvexRow - 2 * kMaxCorners;  // where the corners begin in a row

// The polygon {q: L_j(q) <= reach for all j} and its box, outside of which alpha is below 1/255.
template <typename T> struct ConvexBounds {
  using Number = T;
  T x, y, low_x, low_y, high_x, high_y;
  // Edge j crosses the pixel row dy below the centroid at dx = along - slope dy. Horizontal edges and unused entries cross far
  // outside, so that loops run over all kMaxCorners entries without branches.
  T slope[kMaxCorners], along[kMaxCorners];
  unsigned rightward;  // bit j: the polygon lies left of the crossing

  static LUXEL_HD ConvexBounds of(const T* row) {
    constexpr int kFirst = kConvexCorners;
    // Slightly enlarged, so that rounding never drops a tile with pixels that pass the test on alpha.
    const T hair_x = T(1e-3) + T(1e-4) * (row[10] - row[8]), hair_y = T(1e-3) + T(1e-4) * (row[11] - row[9]);
    const T reach = row[7] + T(1e-3) / (row[4] * row[5]), first_x = row[kFirst], first_y = row[kFirst + 1];
    ConvexBounds e = {row[0], row[1], row[8] - hair_x, row[9] - hair_y, row[10] + hair_x, row[11] + hair_y, {}, {}, 0u};
    const int edges = static_cast<int>(row[6]);
LUXEL_UNROLL
    for (int j = 0; j < kMaxCorners; ++j) {
      const int next = j + 1 < kMaxCorners ? 2 * (j + 1) : 0;
      const bool closes = j + 1 >= edges;
      const T ax = row[kFirst + 2 * j], ay = row[kFirst + 2 * j + 1];
      const T bx = row[kFirst + next], by = row[kFirst + next + 1];  // selects values, not addresses: rows are in registers
      const T nx = (closes ? first_y : by) - ay, ny = ax - (closes ? first_x : bx);
      const bool bounds = j < edges && nx * nx > T(1e-20);  // a horizontal edge is covered by the box
      const T of_nx = inverse(bounds ? nx : T(1));
      e.slope[j] = bounds ? ny * of_nx : T(0);
      e.along[j] = bounds ? ax + (ny * ay + reach) * of_nx : T(1e30);
      e.rightward |= !bounds || nx > T(0) ? 1u << j : 0u;
    }
    return e;
  }

  // Bounding box.
  LUXEL_HD T left() const { return low_x; }
  LUXEL_HD T right() const { return high_x; }
  LUXEL_HD T top() const { return low_y; }
  LUXEL_HD T bottom() const { return high_y; }

  // The smallest and the largest x inside all edges and the box within the band y0 <= y <= y1 (px); false if there is none.
  // Conservative: a rectangle in this band outside of [left, right] is separated from the polygon by an edge or the box.
  LUXEL_HD bool band(T y0, T y1, T& left, T& right) const {
    left = low_x;
    right = high_x;
    const T dy0 = y0 - y, dy1 = y1 - y;
LUXEL_UNROLL
    for (int j = 0; j < kMaxCorners; ++j) {
      const T one = x + (along[j] - slope[j] * dy0), other = x + (along[j] - slope[j] * dy1);
      const bool to_right = rightward >> j & 1u;
      right = to_right ? smaller(larger(one, other), right) : right;
      left = to_right ? left : larger(smaller(one, other), left);
    }
    return low_y <= y1 && high_y >= y0 && left <= right;
  }
};

}  // namespace luxel
