// One ray of the stage march_rays; the loops around it are in the .cpp and .cu of the same name. render_wave
// uses its rays too.
#pragma once

#include "abi/rays.h"
#include "math/field/march.h"
#include "math/philox.h"
#include "kernels/field/rays/sample_room.h"
#include "kernels/arguments.h"

namespace luxel {

template <typename T, typename Args> LUXEL_HD Box3<T> box_of(const Args& args) {
  return {{T(args.low_x), T(args.low_y), T(args.low_z)},
          {T(1) / T(args.high_x - args.low_x), T(1) / T(args.high_y - args.low_y), T(1) / T(args.high_z - args.low_z)}};
}

template <typename Args> LUXEL_HD Cells cells_of(const Args& args) { return {args.occupancy, args.resolution, args.cascades}; }

template <typename T, typename Args> LUXEL_HD Steps<T> steps_of(const Args& args) { return {T(args.step), T(args.growth)}; }

// The camera's ray through the middle of a pixel.
template <typename T> LUXEL_HD Ray<T> ray_of_pixel(const T* world_to_cam, const T* intrinsics, int64_t pixel, int64_t width) {
  const int64_t row = pixel / width, column = pixel - row * width;
  return pixel_ray(world_to_cam, intrinsics, static_cast<T>(column) + T(0.5), static_cast<T>(row) + T(0.5));
}

template <typename T> LUXEL_HD bool ray_of_row(const luxel_march_rays_args& args, int64_t r, Ray<T>& ray) {
  if (args.origins) {
    ray = {load3(in<T>(args.origins) + 3 * r), load3(in<T>(args.directions) + 3 * r)};
    return true;
  }
  const int64_t pixel = args.pixels[r];
  if (pixel < 0) return false;
  int low = 0, high = args.view_count - 1;  // the last view that does not start beyond the pixel
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (args.views[2 * middle] <= pixel)
      low = middle;
    else
      high = middle - 1;
  }
  ray = ray_of_pixel(in<T>(args.world_to_cam) + 16 * low, in<T>(args.intrinsics) + 4 * low, pixel - args.views[2 * low], args.views[2 * low + 1]);
  return true;
}

template <typename T> LUXEL_HD T jitter_of(const luxel_march_rays_args& args, int64_t r) {
  if (!args.seed) return T(0.5);
  const uint64_t seed = static_cast<uint64_t>(args.seed[0]);
  const Random4 random = philox({{static_cast<uint32_t>(r), static_cast<uint32_t>(r >> 32), 1u, 0u}}, static_cast<uint32_t>(seed),
                                static_cast<uint32_t>(seed >> 32));
  return static_cast<T>(unit_interval(random.v[0]));
}

LUXEL_HD int64_t rays_that_count(const luxel_march_rays_args& args) {
  return args.live ? clamp<int64_t>(args.live[0], 0, args.count) : args.count;
}

// False if the row has no ray, or one that misses the box.
template <typename T> LUXEL_HD bool start_march(const luxel_march_rays_args& args, int64_t r, MarchRay<T>& march, Vec3<T>& direction) {
  Ray<T> ray;
  if (!ray_of_row(args, r, ray)) return false;
  direction = ray.direction;
  return enter_box(ray, box_of<T>(args), T(args.near_t), T(args.far_t), steps_of<T>(args), args.cascades, jitter_of<T>(args, r), march);
}

template <typename T> LUXEL_HD int count_samples(const MarchRay<T>& march, const Cells& cells) {
  int count = 0;
  for (int k = occupied_place(march, cells, 0, LUXEL_MARCH_MAX); k >= 0; k = occupied_place(march, cells, k + 1, LUXEL_MARCH_MAX)) ++count;
  return count;
}

// Args: with positions, sample_directions and t.
template <typename T, typename Args>
LUXEL_HD void write_sample(const Args& args, int64_t sample, const MarchRay<T>& march, Vec3<T> direction, T t) {
  const Vec3<T> p = march.point(t);
  store3(out<T>(args.positions) + 3 * sample, field_position(p, args.cascades, args.contracted != 0));
  if (args.sample_directions) store3(out<T>(args.sample_directions) + 3 * sample, direction);
  out<T>(args.t)[sample] = t;
}

template <typename T>
LUXEL_HD void write_samples(const luxel_march_rays_args& args, int64_t first, int count, const MarchRay<T>& march, Vec3<T> direction) {
  const Cells cells = cells_of(args);
  int k = -1;
  for (int i = 0; i < count; ++i) {
    k = occupied_place(march, cells, k + 1, LUXEL_MARCH_MAX);
    const T t = march.at(k);
    write_sample(args, first + i, march, direction, t);
    out<T>(args.dt)[first + i] = steps_of<T>(args).length(t);
  }
}

// Sets the number of rays of the next step.
LUXEL_HD void adapt_rays(const luxel_march_rays_args& args) {
  const int64_t live = args.counters[2];
  if (args.live && args.target > 0) args.live[0] = next_rays(live, rays_to_fill(args.target, live, args.counters[1], args.count), args.count);
}

}  // namespace luxel
