// Marching along a ray through the occupied cells of a box, or of cascades of boxes (Mueller et al. 2022, "Instant Neural
// Graphics Primitives", appendix E.1). Steps along the ray are evenly spaced, or grow with the distance; those in empty cells are
// skipped cell by cell, or block by block.
#pragma once

#include "math/vec.h"

namespace luxel {

template <typename T> struct Ray {
  Vec3<T> origin, direction;  // the direction of unit length
};

// The ray through a point (u, v) of a pinhole camera's image, px.
template <typename T> LUXEL_HD Ray<T> pixel_ray(const T* world_to_cam, const T* intrinsics, T u, T v) {
  const Mat3<T> rotation = {load3(world_to_cam), load3(world_to_cam + 4), load3(world_to_cam + 8)};
  const Vec3<T> translation = {world_to_cam[3], world_to_cam[7], world_to_cam[11]};
  const Vec3<T> local = {(u - intrinsics[2]) / intrinsics[0], (v - intrinsics[3]) / intrinsics[1], T(1)};
  T inverse_length;
  return {T(-1) * mul_transposed(rotation, translation), normalized(mul_transposed(rotation, local), inverse_length)};
}

template <typename T> struct Box3 {
  Vec3<T> low, inverse_size;
};

// Occupancy of the cells of the unit cube: a word per block of 4 x 4 x 4 cells, a bit per cell, both with the first axis fastest.
struct Cells {
  const uint64_t* blocks;  // null: all are occupied; one cascade after another, from the innermost
  int resolution;          // cells along an axis, a multiple of 4
  int cascades;            // boxes around the same centre, each twice as large as the one before; 0 as 1
};

LUXEL_HD uint64_t block_of(const Cells& cells, int cascade, int x, int y, int z) {
  const int along = cells.resolution >> 2;
  return cells.blocks[(x >> 2) + along * ((y >> 2) + along * ((z >> 2) + along * cascade))];
}
LUXEL_HD bool occupied(uint64_t block, int x, int y, int z) { return (block >> ((x & 3) | (y & 3) << 2 | (z & 3) << 4)) & 1; }

template <typename T> LUXEL_HD T absolute(T x) { return x < T(0) ? -x : x; }
LUXEL_HD int exponent_of(float x) { return ilogbf(x); }
LUXEL_HD int exponent_of(double x) { return ilogb(x); }

// How steps grow with the distance t: each is max(step, growth t) long.
template <typename T> struct Steps {
  T step, growth;  // growth 0: all have the same length

  LUXEL_HD T length(T t) const { return larger(step, growth * t); }
  // The number of steps from 0 to t, a real number, and its reverse.
  LUXEL_HD T arc(T t) const {
    const T relative = t / step * growth;
    return relative <= T(1) ? t / step : (T(1) + log_of(relative)) / growth;
  }
  LUXEL_HD T at_arc(T u) const {
    const T relative = u * growth;
    return relative <= T(1) ? u * step : step / growth * exp_exact(relative - T(1));
  }
};

// A ray in coordinates of the (innermost) box, which is the unit cube; t remains in world units.
template <typename T> struct MarchRay {
  Vec3<T> origin, direction, inverse;
  T begin, end, step, inverse_step, jitter, growth, begin_arc;

  LUXEL_HD T at(int place) const {
    const T k = static_cast<T>(place) + jitter;
    return growth > T(0) ? Steps<T>{step, growth}.at_arc(begin_arc + k) : fused(k, step, begin);
  }
  // The first step at or after t, rounded up.
  LUXEL_HD T place_at(T t) const {
    if (growth > T(0)) return ceil_of(Steps<T>{step, growth}.arc(t) - begin_arc - jitter);
    return ceil_of(fused(t - begin, inverse_step, -jitter));
  }
  LUXEL_HD Vec3<T> point(T t) const {
    return {fused(t, direction.x, origin.x), fused(t, direction.y, origin.y), fused(t, direction.z, origin.z)};
  }
};

template <typename T> LUXEL_HD T inverse_held(T x) {  // 1 / x with |x| of at least 1e-9
  const T least = T(1e-9);
  return T(1) / (x < T(0) ? smaller(x, -least) : larger(x, least));
}

// Sides of the outermost box of cascades, of the innermost one's.
template <typename T> LUXEL_HD T outermost(int cascades) { return cascades > 1 ? static_cast<T>(1 << (cascades - 1)) : T(1); }

// False if the ray misses the (outermost) box between near_t and far_t, or is not finite.
template <typename T>
LUXEL_HD bool enter_box(const Ray<T>& ray, const Box3<T>& box, T near_t, T far_t, Steps<T> steps, int cascades, T jitter, MarchRay<T>& march) {
  const Vec3<T> from = ray.origin - box.low;
  march.origin = {from.x * box.inverse_size.x, from.y * box.inverse_size.y, from.z * box.inverse_size.z};
  march.direction = {ray.direction.x * box.inverse_size.x, ray.direction.y * box.inverse_size.y, ray.direction.z * box.inverse_size.z};
  march.inverse = {inverse_held(march.direction.x), inverse_held(march.direction.y), inverse_held(march.direction.z)};
  const Vec3<T> o = march.origin, i = march.inverse;
  const T half = T(0.5) * outermost<T>(cascades), low = T(0.5) - half, high = T(0.5) + half;
  const T x0 = (low - o.x) * i.x, x1 = (high - o.x) * i.x, y0 = (low - o.y) * i.y, y1 = (high - o.y) * i.y, z0 = (low - o.z) * i.z,
          z1 = (high - o.z) * i.z;
  march.begin = larger(near_t, larger(smaller(x0, x1), larger(smaller(y0, y1), smaller(z0, z1))));
  march.end = smaller(far_t, smaller(larger(x0, x1), smaller(larger(y0, y1), larger(z0, z1))));
  march.step = steps.step;
  march.inverse_step = T(1) / steps.step;
  march.jitter = jitter;
  march.growth = steps.growth;
  march.begin_arc = steps.growth > T(0) ? steps.arc(march.begin) : T(0);
  const Vec3<T> sum = march.origin + march.direction;  // comparisons above may have dropped a NaN
  return march.begin < march.end && finite(sum.x + sum.y + sum.z);
}

LUXEL_HD int cell_along(float p, int resolution) { return clamp(static_cast<int>(p * static_cast<float>(resolution)), 0, resolution - 1); }
LUXEL_HD int cell_along(double p, int resolution) { return clamp(static_cast<int>(p * resolution), 0, resolution - 1); }

// The t at which a ray leaves, along one axis, a cell (coarse 0) or its block of 4 cells (coarse 2).
template <typename T> LUXEL_HD T leaves_at(int cell, int coarse, T size, T origin, T inverse) {
  const int edge = ((cell >> coarse) + (inverse > T(0))) << coarse;
  return fused(static_cast<T>(edge), size, -origin) * inverse;
}

// The smallest cascade that holds a point, given relative to the innermost box.
template <typename T> LUXEL_HD int cascade_of(Vec3<T> p, int cascades) {
  const T half = T(0.5);
  const T reach = T(2) * larger(absolute(p.x - half), larger(absolute(p.y - half), absolute(p.z - half)));
  return clamp(exponent_of(reach) + 1, 0, cascades - 1);
}

// A coordinate relative to the innermost box, relative to a cascade's.
template <typename T> LUXEL_HD T in_cascade(T p, T inverse_side) { return fused(p - T(0.5), inverse_side, T(0.5)); }

// A step of a ray: whether it lies in an occupied cell, and the next one that may.
struct Place {
  bool occupied;
  int next;  // `most` where the ray has left the box
};

template <typename T> LUXEL_HD Place look_at(const MarchRay<T>& march, const Cells& cells, int place, int most) {
  const T t = march.at(place);
  if (!(t < march.end)) return {false, most};
  if (!cells.blocks) return {true, place + 1};
  Vec3<T> p = march.point(t), origin = march.origin, inverse = march.inverse;
  const int cascade = cells.cascades > 1 ? cascade_of(p, cells.cascades) : 0;
  if (cascade > 0) {
    const T side = static_cast<T>(1 << cascade), shrink = T(1) / side;
    p = {in_cascade(p.x, shrink), in_cascade(p.y, shrink), in_cascade(p.z, shrink)};
    origin = {in_cascade(origin.x, shrink), in_cascade(origin.y, shrink), in_cascade(origin.z, shrink)};
    inverse = side * inverse;
  }
  const int x = cell_along(p.x, cells.resolution), y = cell_along(p.y, cells.resolution), z = cell_along(p.z, cells.resolution);
  const uint64_t block = block_of(cells, cascade, x, y, z);
  if (occupied(block, x, y, z)) return {true, place + 1};
  const T size = T(1) / static_cast<T>(cells.resolution);  // of a cell
  const int coarse = block == 0 ? 2 : 0;
  const T leaves = smaller(leaves_at(x, coarse, size, origin.x, inverse.x),
                           smaller(leaves_at(y, coarse, size, origin.y, inverse.y), leaves_at(z, coarse, size, origin.z, inverse.z)));
  const T beyond = march.place_at(leaves);
  const int next = beyond < static_cast<T>(most) ? static_cast<int>(beyond) : most;
  return {false, next > place ? next : place + 1};
}

// The index of the first step >= `place` and < `most` that lies in an occupied cell; -1 if there is none.
template <typename T> LUXEL_HD int occupied_place(const MarchRay<T>& march, const Cells& cells, int place, int most) {
  while (place < most) {
    const Place here = look_at(march, cells, place, most);
    if (here.occupied) return place;
    place = here.next;
  }
  return -1;
}

// Where a field has a point that is given relative to the innermost box: in [0,1]^3.
template <typename T> LUXEL_HD Vec3<T> field_position(Vec3<T> p, int cascades, bool contracted) {
  if (contracted) {
    const Vec3<T> x = {fused(T(2), p.x, T(-1)), fused(T(2), p.y, T(-1)), fused(T(2), p.z, T(-1))};
    const T reach = larger(absolute(x.x), larger(absolute(x.y), absolute(x.z)));
    const T factor = reach <= T(1) ? T(0.25) : T(0.25) * (T(2) - T(1) / reach) / reach;
    p = {fused(factor, x.x, T(0.5)), fused(factor, x.y, T(0.5)), fused(factor, x.z, T(0.5))};
  } else if (cascades > 1) {
    const T shrink = T(1) / outermost<T>(cascades);
    p = {in_cascade(p.x, shrink), in_cascade(p.y, shrink), in_cascade(p.z, shrink)};
  }
  return {clamp(p.x, T(0), T(1)), clamp(p.y, T(0), T(1)), clamp(p.z, T(0), T(1))};
}

}  // namespace luxel
