// CPU twin of render_wave: lists in the order of rays.
#include "kernels/field/rays/render_wave.h"

#include "kernels/error.h"

namespace luxel {
namespace {

// Lists the active rays: calls goes_on(i) for i < count in any order, then ray_at(i) where it was true.
template <typename Goes, typename RayAt> void list_rays(const luxel_render_wave_args& args, int64_t count, uint8_t* marks, const Goes& goes_on, const RayAt& ray_at) {
#pragma omp parallel for schedule(dynamic, 64)
  for (int64_t i = 0; i < count; ++i) marks[i] = goes_on(i);
  for (int64_t i = 0; i < count; ++i)
    if (marks[i]) args.next_list[args.next_listed[0]++] = ray_at(i);
}

// A byte per ray, in the last quarter of next_list, which is filled from its start afterwards.
uint8_t* marks_of(const luxel_render_wave_args& args) { return reinterpret_cast<uint8_t*>(args.next_list) + 3 * static_cast<int64_t>(args.count); }

template <typename T> int begin(const luxel_render_wave_args& args) {
  list_rays(args, part_of(args).count, marks_of(args), [&](int64_t r) { return begin_ray<T>(args, r); },
            [](int64_t r) { return static_cast<int32_t>(r); });
  return 0;
}

template <typename T> int march_rays(const luxel_render_wave_args& args) {
  const int64_t listed = rays_listed(args);
  const int allowed = samples_allowed(args, listed);
  const Cells cells = cells_of(args);
#pragma omp parallel for schedule(dynamic, 64)
  for (int64_t slot = 0; slot < listed; ++slot) {
    MarchRay<T> march;
    Vec3<T> direction;
    const int64_t r = args.list[slot];
    int place = load_wave_state<T>(args, r).place;
    const bool enters = start_wave_ray(args, r, march, direction);
    uint64_t near;
    args.ranges[2 * slot + 1] = enters ? count_wave_samples(march, cells, allowed, place, near) : 0;
  }
  for (int64_t slot = 0; slot < listed; ++slot) {
    int32_t* const range = args.ranges + 2 * slot;
    range[0] = args.samples[0];
    args.samples[0] += range[1];
    if (args.samples[0] > args.capacity) range[0] = range[1] = 0;
  }
#pragma omp parallel for schedule(dynamic, 64)
  for (int64_t slot = 0; slot < listed; ++slot) {
    const int32_t* const range = args.ranges + 2 * slot;
    if (range[1] == 0) continue;
    MarchRay<T> march;
    Vec3<T> direction;
    const int64_t r = args.list[slot];
    WaveState<T> state = load_wave_state<T>(args, r);
    start_wave_ray(args, r, march, direction);
    const int place = state.place;
    uint64_t near;
    count_wave_samples(march, cells, allowed, state.place, near);
    write_wave_samples(args, range[0], range[1], place, near, march, direction);
    store_wave_state(args, r, state);
  }
  return 0;
}

template <typename T> int composite(const luxel_render_wave_args& args) {
  list_rays(args, rays_listed(args), marks_of(args), [&](int64_t slot) { return add_samples<T>(args, slot, args.list[slot]); },
            [&](int64_t slot) { return args.list[slot]; });
  return 0;
}

}  // namespace
}  // namespace luxel

extern "C" {

int luxel_begin_waves(const luxel_render_wave_args* args) {
  return args->dtype ? luxel::begin<double>(*args) : luxel::begin<float>(*args);
}
int luxel_march_wave(const luxel_render_wave_args* args) {
  return args->dtype ? luxel::march_rays<double>(*args) : luxel::march_rays<float>(*args);
}
int luxel_composite_wave(const luxel_render_wave_args* args) {
  return args->dtype ? luxel::composite<double>(*args) : luxel::composite<float>(*args);
}
}
