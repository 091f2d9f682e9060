// CPU twin of march_rays: rays in their order.
#include "kernels/field/rays/march_rays.h"

#include "kernels/error.h"

#include <algorithm>

namespace luxel {
namespace {

template <typename T> int run(const luxel_march_rays_args& args) {
  const int64_t live = rays_that_count(args);
  const Cells cells = cells_of(args);
#pragma omp parallel for schedule(dynamic, 64)
  for (int64_t r = 0; r < args.count; ++r) {
    MarchRay<T> march;
    Vec3<T> direction;
    args.ranges[2 * r + 1] = r < live && start_march(args, r, march, direction) ? count_samples(march, cells) : 0;
  }
  std::fill_n(args.counters, 5, int64_t(0));
  args.counters[2] = live;
  take_room_in_order(args);
#pragma omp parallel for schedule(dynamic, 64)
  for (int64_t r = 0; r < live; ++r) {
    MarchRay<T> march;
    Vec3<T> direction;
    const int32_t* const range = args.ranges + 2 * r;
    if (range[1] > 0 && start_march(args, r, march, direction)) write_samples(args, range[0], range[1], march, direction);
  }
  args.counters[0] = samples_with_room(args);
  clear_rest<T>(args, 0, 1);
  adapt_rays(args);
  return 0;
}

}  // namespace
}  // namespace luxel

extern "C" int luxel_march_rays(const luxel_march_rays_args* args) {
  return args->dtype ? luxel::run<double>(*args) : luxel::run<float>(*args);
}
