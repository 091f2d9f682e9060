// Allocation of samples to rays, shared by march_rays and visible_samples: rays are allocated one after another, unused rows are
// cleared, and the number of rays of the next step is set. Args: a struct with positions, sample_directions, t, dt, ranges,
// counters, count and capacity.
#pragma once

#include "abi/rays.h"
#include "kernels/arguments.h"

namespace luxel {

template <typename T, typename Args> LUXEL_HD void clear_sample(const Args& args, int64_t sample) {
  const Vec3<T> zero = {T(0), T(0), T(0)};
  store3(out<T>(args.positions) + 3 * sample, zero);
  if (args.sample_directions) store3(out<T>(args.sample_directions) + 3 * sample, zero);
  out<T>(args.t)[sample] = T(0);
  out<T>(args.dt)[sample] = T(0);
}

// Samples of the rays before the first that does not fit; from that one on no ray fits.
template <typename Args> LUXEL_HD int64_t samples_with_room(const Args& args) {
  return args.counters[1] > args.capacity ? args.capacity - args.counters[4] : args.counters[1];
}

// Clears the rows beyond the last sample; one of `threads` that share them.
template <typename T, typename Args> LUXEL_HD void clear_rest(const Args& args, int64_t thread, int64_t threads) {
  for (int64_t s = samples_with_room(args) + thread; s < args.capacity; s += threads) clear_sample<T>(args, s);
}

// Turns the counts in ranges into offsets, in the order of rays; ranges that do not fit become empty. Counters are zeroed
// beforehand.
template <typename Args> inline void take_room_in_order(const Args& args) {
  for (int64_t r = 0; r < args.count; ++r) {
    int32_t* const range = args.ranges + 2 * r;
    const int64_t first = args.counters[1];
    args.counters[1] += range[1];
    const bool fits = args.counters[1] <= args.capacity;
    if (range[1] > 0 && !fits) {
      ++args.counters[3];
      args.counters[4] = larger<int64_t>(args.counters[4], args.capacity - first);
    }
    range[0] = range[1] > 0 && fits ? static_cast<int32_t>(first) : 0;
    if (!fits) range[1] = 0;
  }
}

// The number of rays that would have had `target` samples, given that `rays` had `samples`; `most` if they had none.
LUXEL_HD int64_t rays_to_fill(int64_t target, int64_t rays, int64_t samples, int64_t most) {
  return samples > 0 ? rays * target / samples : most;
}

// The number of rays of the next step: `target`, clamped to between half and twice that of this step.
LUXEL_HD int32_t next_rays(int64_t live, int64_t target, int64_t most) {
  return static_cast<int32_t>(clamp<int64_t>(clamp<int64_t>(target, live / 2, 2 * live), 1, most));
}

}  // namespace luxel
