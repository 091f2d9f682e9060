// Marching along a ray through the occupied cells of a box (Mueller et al. 2022, "Instant Neural Graphics Primitives",
// appendix E.1). Steps along the ray are evenly spaced; those in empty cells are skipped cell by cell, or block by block.
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
  const uint64_t* blocks;  // null: all are occupied
  int resolution;          // cells along an axis, a multiple of 4
};

LUXEL_HD uint64_t block_of(const Cells& cells, int x, int y, int z) {
  const int along = cells.resolution >> 2;
  return cells.blocks[(x >> 2) + along * ((y >> 2) + along * (z >> 2))];
}
LUXEL_HD bool occupied(uint64_t block, int x, int y, int z) { return (block >> ((x & 3) | (y & 3) << 2 | (z & 3) << 4)) & 1; }

// A ray in coordinates of the box, which is the unit cube; t remains in world units.
template <typename T> struct MarchRay {
  Vec3<T> origin, direction, inverse;
  T begin, end, step, inverse_step, jitter;

  LUXEL_HD T at(int place) const { return fused(static_cast<T>(place) + jitter, step, begin); }
  LUXEL_HD Vec3<T> point(T t) const {
    return {fused(t, direction.x, origin.x), fused(t, direction.y, origin.y), fused(t, direction.z, origin.z)};
  }
};

template <typename T> LUXEL_HD T inverse_held(T x) {  // 1 / x with |x| of at least 1e-9
  const T least = T(1e-9);
  return T(1) / (x < T(0) ? smaller(x, -least) : larger(x, least));
}

// False if the ray misses the box between near_t and far_t, or is not finite.
template <typename T>
LUXEL_HD bool enter_box(const Ray<T>& ray, const Box3<T>& box, T near_t, T far_t, T step, T jitter, MarchRay<T>& march) {
  const Vec3<T> from = ray.origin - box.low;
  march.origin = {from.x * box.inverse_size.x, from.y * box.inverse_size.y, from.z * box.inverse_size.z};
  march.direction = {ray.direction.x * box.inverse_size.x, ray.direction.y * box.inverse_size.y, ray.direction.z * box.inverse_size.z};
  march.inverse = {inverse_held(march.direction.x), inverse_held(march.direction.y), inverse_held(march.direction.z)};
  const Vec3<T> o = march.origin, i = march.inverse;
  const T x0 = -o.x * i.x, x1 = (T(1) - o.x) * i.x, y0 = -o.y * i.y, y1 = (T(1) - o.y) * i.y, z0 = -o.z * i.z, z1 = (T(1) - o.z) * i.z;
  march.begin = larger(near_t, larger(smaller(x0, x1), larger(smaller(y0, y1), smaller(z0, z1))));
  march.end = smaller(far_t, smaller(larger(x0, x1), smaller(larger(y0, y1), larger(z0, z1))));
  march.step = step;
  march.inverse_step = T(1) / step;
  march.jitter = jitter;
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

// The index of the first step >= `place` and < `most` that lies in an occupied cell; -1 if there is none.
template <typename T> LUXEL_HD int occupied_place(const MarchRay<T>& march, const Cells& cells, int place, int most) {
  const T size = T(1) / static_cast<T>(cells.resolution);  // of a cell
  while (place < most) {
    const T t = march.at(place);
    if (!(t < march.end)) return -1;
    if (!cells.blocks) return place;
    const Vec3<T> p = march.point(t);
    const int x = cell_along(p.x, cells.resolution), y = cell_along(p.y, cells.resolution), z = cell_along(p.z, cells.resolution);
    const uint64_t block = block_of(cells, x, y, z);
    if (occupied(block, x, y, z)) return place;
    const int coarse = block == 0 ? 2 : 0;
    const T leaves =
        smaller(leaves_at(x, coarse, size, march.origin.x, march.inverse.x),
                smaller(leaves_at(y, coarse, size, march.origin.y, march.inverse.y),
                        leaves_at(z, coarse, size, march.origin.z, march.inverse.z)));
    const T beyond = ceil_of(fused(leaves - march.begin, march.inverse_step, -march.jitter));
    const int next = beyond < static_cast<T>(most) ? static_cast<int>(beyond) : most;
    place = next > place ? next : place + 1;
  }
  return -1;
}

}  // namespace luxel
