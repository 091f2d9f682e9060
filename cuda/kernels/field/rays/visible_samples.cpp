// CPU twin of visible_samples: rays in their order.
#include "kernels/field/rays/visible_samples.h"

#include <algorithm>

namespace luxel {
namespace {

// How many samples of a ray are retained; in `kept` which ones, where they are not the first.
template <typename T> int32_t count_visible(const luxel_visible_samples_args& args, int64_t first, int64_t last) {
  T sum = T(0);
  int32_t count = 0;
  for (int64_t s = first; s < last && exp_exact(-sum) >= T(args.min_transmittance); ++s) {
    const T depth = raw_depth<T>(args, s);
    const bool keeps = dense_enough(args, depth);
    if (args.kept) args.kept[s] = keeps;
    count += keeps;
    sum += depth;
  }
  return count;
}

template <typename T> int run(const luxel_visible_samples_args& args) {
#pragma omp parallel for schedule(dynamic, 64)
  for (int64_t r = 0; r < args.count; ++r) {
    const int64_t first = args.raw_ranges[2 * r];
    args.ranges[2 * r + 1] = count_visible<T>(args, first, first + args.raw_ranges[2 * r + 1]);
  }
  std::fill_n(args.counters, 5, int64_t(0));
  take_room_in_order(args);
#pragma omp parallel for schedule(dynamic, 64)
  for (int64_t r = 0; r < args.count; ++r) {
    int64_t to = args.ranges[2 * r], from = args.raw_ranges[2 * r];
    for (const int64_t last = to + args.ranges[2 * r + 1]; to < last; ++from)
      if (!args.kept || args.kept[from]) copy_sample<T>(args, from, to++);
  }
  clear_rest<T>(args, 0, 1);
  finish_visible(args);
  return 0;
}

}  // namespace
}  // namespace luxel

extern "C" int luxel_visible_samples(const luxel_visible_samples_args* args) {
  return args->dtype ? luxel::run<double>(*args) : luxel::run<float>(*args);
}
