// CPU twin of sphere_trace.
#include "kernels/field/rays/sphere_trace.h"

namespace luxel {
namespace {

// The next free slot of a list.
int32_t take(int32_t* count) {
  int32_t place;
#pragma omp atomic capture
  place = (*count)++;
  return place;
}

template <typename T> void append(const luxel_sphere_trace_args& args, int32_t n, Fate fate, Vec3<T> x) {
  if (fate == Fate::kGone) return;
  const bool hit = fate == Fate::kHit;
  const int64_t place = take(hit ? args.hit_count : args.next_count);
  (hit ? args.hits : args.next)[place] = n;
  store3(out<T>(hit ? args.hit_x : args.x) + 3 * place, x);
}

template <typename T> int begin(const luxel_sphere_trace_args& args) {
#pragma omp parallel for schedule(dynamic, 512)
  for (int64_t n = 0; n < rays_given(args); ++n) {
    Vec3<T> x;
    const Fate fate = start_ray<T>(args, n, x);
    append(args, static_cast<int32_t>(n), fate, x);
  }
  return 0;
}

template <typename T> int step(const luxel_sphere_trace_args& args) {
  const int64_t rows = rays_evaluated(args);
#pragma omp parallel for schedule(dynamic, 512)
  for (int64_t i = 0; i < rows; ++i) {
    Vec3<T> x;
    const int32_t n = args.alive[i];
    const Fate fate = advance_ray<T>(args, n, in<T>(args.distance)[i], x);
    append(args, n, fate, x);
  }
  return 0;
}

}  // namespace
}  // namespace luxel

extern "C" {

int luxel_sphere_trace_begin(const luxel_sphere_trace_args* args) {
  if (luxel::check(*args) < 0) return -1;
  return args->dtype ? luxel::begin<double>(*args) : luxel::begin<float>(*args);
}

int luxel_sphere_trace_step(const luxel_sphere_trace_args* args) {
  if (luxel::check(*args) < 0) return -1;
  return args->dtype ? luxel::step<double>(*args) : luxel::step<float>(*args);
}
}
