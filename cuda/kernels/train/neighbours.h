// Shared by both searches of the stage neighbours: positions in four dimensions, their bounding boxes, and distances.
#pragma once

#include "abi/train.h"
#include "math/hd.h"

namespace luxel {

constexpr int kMaxNeighbours = 16;

// With three dimensions t is 0.
template <typename T> struct alignas(16) Place {
  T x, y, z, t;
};

template <typename T> LUXEL_HD Place<T> load_place(const luxel_neighbours_args& args, int64_t n) {
  const T* p = static_cast<const T*>(args.points) + n * args.dimensions;
  return {p[0], p[1], p[2], args.dimensions == 4 ? p[3] : T(0)};
}
template <typename T> LUXEL_HD bool counts(const luxel_neighbours_args& args, int64_t n, Place<T> place) {
  return (!args.mask || args.mask[n] != 0) && finite(place.x) && finite(place.y) && finite(place.z) && finite(place.t);
}

// Used for all distances, so that rounding never makes a point nearer than its box.
template <typename T> LUXEL_HD T square_length(T x, T y, T z, T t) { return fused(x, x, fused(y, y, fused(z, z, t * t))); }
template <typename T> LUXEL_HD T square_distance(Place<T> a, Place<T> b) {
  return square_length(a.x - b.x, a.y - b.y, a.z - b.z, a.t - b.t);
}

template <typename T> struct Box {
  Place<T> low, high;

  static LUXEL_HD Box none() {
    const T most = T(INFINITY);
    return {{most, most, most, most}, {-most, -most, -most, -most}};
  }
  LUXEL_HD bool empty() const { return !(low.x <= high.x); }
  LUXEL_HD void grow(const Box& other) {
    low = {smaller(low.x, other.low.x), smaller(low.y, other.low.y), smaller(low.z, other.low.z), smaller(low.t, other.low.t)};
    high = {larger(high.x, other.high.x), larger(high.y, other.high.y), larger(high.z, other.high.z), larger(high.t, other.high.t)};
  }
};
// Distance of two ranges; 0 if they overlap.
template <typename T> LUXEL_HD T gap(T low, T high, T other_low, T other_high) {
  return larger(larger(low - other_high, other_low - high), T(0));
}
template <typename T> LUXEL_HD T square_distance(const Box<T>& a, const Box<T>& b) {
  return square_length(gap(a.low.x, a.high.x, b.low.x, b.high.x), gap(a.low.y, a.high.y, b.low.y, b.high.y),
                       gap(a.low.z, a.high.z, b.low.z, b.high.z), gap(a.low.t, a.high.t, b.low.t, b.high.t));
}

}  // namespace luxel
