// Rays through the unit box: where they enter and leave, and how far a coarse grid of distances lets them advance.
#pragma once

#include "math/vec.h"

namespace luxel {

template <typename T> struct Ray {
  Vec3<T> origin, direction;  // the direction of unit length
  LUXEL_HD Vec3<T> at(T ray_t) const { return origin + ray_t * direction; }
};

// The ray through the centre of a camera's pixel; cam_to_unit [3,4]: a rotation with uniform scale, and a translation.
template <typename T> LUXEL_HD Ray<T> pixel_ray(const T* cam_to_unit, const T* intrinsics, int64_t pixel, int width) {
  const T x = T(pixel % width) + T(0.5), y = T(pixel / width) + T(0.5);
  const Vec3<T> seen = {(x - intrinsics[2]) / intrinsics[0], (y - intrinsics[3]) / intrinsics[1], T(1)};
  const Mat3<T> turn = {load3(cam_to_unit), load3(cam_to_unit + 4), load3(cam_to_unit + 8)};
  T inverse_length;
  return {{cam_to_unit[3], cam_to_unit[7], cam_to_unit[11]}, normalized(mul(turn, seen), inverse_length)};
}

// Restricts [enter, leave] to the t at which a coordinate lies in [0, 1].
template <typename T> LUXEL_HD void clip_axis(T origin, T direction, T& enter, T& leave) {
  if (direction == T(0)) {
    if (!(origin >= T(0) && origin <= T(1))) leave = T(-1);
    return;
  }
  const T at_low = -origin / direction, at_high = (T(1) - origin) / direction;
  enter = larger(enter, smaller(at_low, at_high));
  leave = smaller(leave, larger(at_low, at_high));
}
// The range of t in which a ray is in the unit box; false if it is empty or not finite.
template <typename T> LUXEL_HD bool clip_to_box(const Ray<T>& ray, T& enter, T& leave) {
  enter = T(0);
  leave = infinity<T>();
  clip_axis(ray.origin.x, ray.direction.x, enter, leave);
  clip_axis(ray.origin.y, ray.direction.y, enter, leave);
  clip_axis(ray.origin.z, ray.direction.z, enter, leave);
  return enter <= leave && finite(leave);
}

template <typename T> LUXEL_HD int cell_of(T x, int resolution) {
  const T scaled = x * T(resolution);
  return scaled > T(0) ? static_cast<int>(smaller(scaled, T(resolution - 1))) : 0;
}

// Lower bound of the distance from x to the surface: that of the grid at the cell's centre minus the distance to the centre.
template <typename T> LUXEL_HD T free_distance(const T* grid, int resolution, Vec3<T> x) {
  const int i = cell_of(x.x, resolution), j = cell_of(x.y, resolution), k = cell_of(x.z, resolution);
  const T side = T(1) / T(resolution);
  const Vec3<T> off = x - Vec3<T>{(T(i) + T(0.5)) * side, (T(j) + T(0.5)) * side, (T(k) + T(0.5)) * side};
  return grid[(static_cast<int64_t>(i) * resolution + j) * resolution + k] - root(dot(off, off));
}

constexpr int kMaxStrides = 256;    // most grid steps of one call of stride()
constexpr double kMinStride = 0.25;  // in cells, smallest grid step; nearer to the surface the field is evaluated instead

// Advances ray_t while the grid guarantees free space; false if the ray has left the box.
template <typename T> LUXEL_HD bool stride(const Ray<T>& ray, const T* grid, int resolution, T leave, T& ray_t) {
  const T least = T(kMinStride) / T(resolution);
  for (int k = 0; k < kMaxStrides && ray_t < leave; ++k) {
    const T room = free_distance(grid, resolution, ray.at(ray_t));
    if (!(room >= least)) break;
    ray_t += room;
  }
  return ray_t < leave;
}

}  // namespace luxel
