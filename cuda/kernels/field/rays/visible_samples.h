// Samples of the stage visible_samples, one at a time; the loops around them are in the .cpp and .cu of the same name.
#pragma once

#include "math/field/composite.h"
#include "kernels/field/rays/sample_room.h"

namespace luxel {

template <typename T> LUXEL_HD T raw_depth(const luxel_visible_samples_args& args, int64_t sample) {
  return optical_depth(in<T>(args.density)[sample * args.density_stride], T(args.scale) * in<T>(args.raw_dt)[sample]);
}

template <typename T> LUXEL_HD bool dense_enough(const luxel_visible_samples_args& args, T depth) {
  return !(args.min_alpha > 0) || sample_weight(T(1), depth) >= T(args.min_alpha);
}

template <typename T> LUXEL_HD void copy_sample(const luxel_visible_samples_args& args, int64_t from, int64_t to) {
  store3(out<T>(args.positions) + 3 * to, load3(in<T>(args.raw_positions) + 3 * from));
  store3(out<T>(args.sample_directions) + 3 * to, load3(in<T>(args.raw_directions) + 3 * from));
  out<T>(args.t)[to] = in<T>(args.raw_t)[from];
  out<T>(args.dt)[to] = in<T>(args.raw_dt)[from];
}

// Sets the remaining counters and the number of rays of the next step, the largest that meets both targets.
LUXEL_HD void finish_visible(const luxel_visible_samples_args& args) {
  const int64_t live = args.raw_counters[2], live_before = live - args.raw_counters[3];
  args.counters[0] = samples_with_room(args);
  args.counters[2] = live;
  args.counters[3] += args.raw_counters[3];
  if (!args.live || args.target <= 0) return;
  int64_t rays = rays_to_fill(args.target, live_before, args.counters[1], args.count);
  if (args.raw_target > 0) rays = smaller(rays, rays_to_fill(args.raw_target, live, args.raw_counters[1], args.count));
  args.live[0] = next_rays(live, rays, args.count);
}

}  // namespace luxel
