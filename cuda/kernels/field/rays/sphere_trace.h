// One ray of the stage sphere_trace; the loops around it are in the .cpp and .cu of the same name.
#pragma once

#include "abi/rays.h"
#include "math/field/trace.h"
#include "kernels/error.h"
#include "kernels/arguments.h"

namespace luxel {

template <typename T> LUXEL_HD Ray<T> load_ray(const luxel_sphere_trace_args& args, int64_t n) {
  if (!args.rays) return pixel_ray(in<T>(args.cam_to_unit), in<T>(args.intrinsics), n, args.size ? args.size[0] : args.width);
  const T* six = in<T>(args.rays) + 6 * n;
  return {load3(six), load3(six + 3)};
}

LUXEL_HD int64_t rays_given(const luxel_sphere_trace_args& args) {
  return args.size ? clamp<int64_t>(args.size[1], 0, args.count) : args.count;
}
LUXEL_HD int64_t rays_evaluated(const luxel_sphere_trace_args& args) { return smaller(args.limit, static_cast<int64_t>(args.alive_count[0])); }

enum class Fate { kGone, kAlive, kHit };

template <typename T> LUXEL_HD Fate start_ray(const luxel_sphere_trace_args& args, int64_t n, Vec3<T>& x) {
  const Ray<T> ray = load_ray<T>(args, n);
  T enter, leave, ray_t = T(0);
  bool alive = clip_to_box(ray, enter, leave);
  if (alive) {
    ray_t = enter;
    alive = stride(ray, in<T>(args.grid), args.resolution, leave, ray_t);
  }
  out<T>(args.ray_t)[n] = ray_t;
  x = ray.at(ray_t);
  return alive ? Fate::kAlive : Fate::kGone;
}

// A distance that is NaN ends the ray.
template <typename T> LUXEL_HD Fate advance_ray(const luxel_sphere_trace_args& args, int64_t n, T distance, Vec3<T>& x) {
  const Ray<T> ray = load_ray<T>(args, n);
  T enter, leave, ray_t = out<T>(args.ray_t)[n];
  clip_to_box(ray, enter, leave);
  const T widening = T(args.widening) * (args.pixel ? in<T>(args.pixel)[0] : T(1));
  const bool hit = distance < T(args.tolerance) + widening * ray_t;
  ray_t += distance;
  const bool alive = !hit && ray_t < leave && stride(ray, in<T>(args.grid), args.resolution, leave, ray_t);
  out<T>(args.ray_t)[n] = ray_t;
  x = ray.at(ray_t);
  return hit ? Fate::kHit : (alive ? Fate::kAlive : Fate::kGone);
}

inline int check(const luxel_sphere_trace_args& args) {
  if (!args.rays && (!args.cam_to_unit || !args.intrinsics || (args.width < 1 && !args.size))) return fail("sphere_trace: neither rays nor a camera");
  if (args.resolution < 1 || args.resolution > 1024) return fail("sphere_trace: a grid of %d cells", args.resolution);
  return 0;
}

}  // namespace luxel
