// One ray of the stage render_wave; the loops around it are in the .cpp and .cu of the same name.
#pragma once

#include "math/field/composite.h"
#include "kernels/field/rays/march_rays.h"

namespace luxel {

// State of a ray between waves.
template <typename T> struct WaveState {
  Vec3<T> rgb;
  T optical_depth, depth;
  int place;  // step index of its next sample; -1: finished
};

template <typename T> LUXEL_HD WaveState<T> load_wave_state(const luxel_render_wave_args& args, int64_t r) {
  T n[LUXEL_WAVE_STATE];
  const T* const from = out<T>(args.state) + LUXEL_WAVE_STATE * r;
  load4(from, n);
  load4(from + 4, n + 4);
  return {{n[0], n[1], n[2]}, n[3], n[4], static_cast<int>(n[5])};
}
template <typename T> LUXEL_HD void store_wave_state(const luxel_render_wave_args& args, int64_t r, const WaveState<T>& s) {
  const T n[LUXEL_WAVE_STATE] = {s.rgb.x, s.rgb.y, s.rgb.z, s.optical_depth, s.depth, static_cast<T>(s.place), T(0), T(0)};
  T* const to = out<T>(args.state) + LUXEL_WAVE_STATE * r;
  store4(to, n);
  store4(to + 4, n + 4);
}

// The pixels of a call.
struct WavePart {
  int width, first_pixel;
  int64_t count;
  bool tiled;
};
LUXEL_HD WavePart part_of(const luxel_render_wave_args& args) {
  if (!args.part) return {args.width, args.first_pixel, args.count, false};
  return {args.part[0], args.part[1], clamp<int64_t>(args.part[2], 0, args.count), true};
}

constexpr int kRayTile = 8;

// The pixel of a ray, in row order within the part.
LUXEL_HD int64_t pixel_of(const WavePart& part, int64_t ray) {
  if (!part.tiled) return ray;
  const int r = static_cast<int>(ray), width = part.width, band = kRayTile * width;  // a band: the tiles next to each other
  const int top = r / band * kRayTile, in_band = r - top * width;
  const int high = smaller(kRayTile, static_cast<int>(part.count) / width - top), in_tile = high * kRayTile;
  const int tile = in_band / in_tile, left = tile * kRayTile;
  const int wide = smaller(kRayTile, width - left), within = in_band - tile * in_tile;
  const int row = within / wide;
  return static_cast<int64_t>(top + row) * width + left + (within - row * wide);
}

template <typename T> LUXEL_HD bool start_wave_ray(const luxel_render_wave_args& args, int64_t r, MarchRay<T>& march, Vec3<T>& direction) {
  const WavePart part = part_of(args);
  const int64_t pixel = part.first_pixel + pixel_of(part, r);
  const Ray<T> ray = ray_of_pixel(in<T>(args.world_to_cam), in<T>(args.intrinsics), pixel, part.width);
  direction = ray.direction;
  return enter_box(ray, box_of<T>(args), T(args.near_t), T(args.far_t), steps_of<T>(args), args.cascades, T(0.5), march);
}

template <typename T> LUXEL_HD void finish_ray(const luxel_render_wave_args& args, int64_t r, const WaveState<T>& state) {
  const T transmittance = exp_exact(-state.optical_depth);
  const int64_t place = pixel_of(part_of(args), r);
  store3(out<T>(args.rgb) + 3 * place, state.rgb + transmittance * load3(in<T>(args.background)));
  out<T>(args.transmittance)[place] = transmittance;
  out<T>(args.depth)[place] = state.depth;
}

// Returns whether the ray is still active.
template <typename T> LUXEL_HD bool begin_ray(const luxel_render_wave_args& args, int64_t r) {
  MarchRay<T> march;
  Vec3<T> direction;
  WaveState<T> state = {{T(0), T(0), T(0)}, T(0), T(0), -1};
  if (start_wave_ray(args, r, march, direction)) state.place = occupied_place(march, cells_of(args), 0, LUXEL_MARCH_MAX);
  if (state.place >= 0)
    store_wave_state(args, r, state);
  else
    finish_ray(args, r, state);
  return state.place >= 0;
}

LUXEL_HD int64_t rays_listed(const luxel_render_wave_args& args) { return clamp<int64_t>(args.listed[0], 0, args.count); }
LUXEL_HD int samples_allowed(const luxel_render_wave_args& args, int64_t listed) {
  int64_t room = args.capacity;
  if (args.per_ray > 0) room = smaller(room, larger<int64_t>(args.fewest, args.per_ray * listed));
  return static_cast<int>(clamp<int64_t>(room / larger<int64_t>(listed, 1), 1, args.most));
}

LUXEL_HD int lowest_bit(uint64_t bits) {
#ifdef __CUDA_ARCH__
  return __ffsll(static_cast<long long>(bits)) - 1;
#else
  return __builtin_ctzll(bits);
#endif
}

// Counts up to `allowed` samples from step `place` on, which moves to the sample after them, or to -1. near: a bit for each sample
// less than 64 steps after the first.
template <typename T>
LUXEL_HD int count_wave_samples(const MarchRay<T>& march, const Cells& cells, int allowed, int& place, uint64_t& near) {
  const int first = place;
  int count = 0;
  near = 0;
  while (place >= 0 && count < allowed) {
    ++count;
    if (place - first < 64) near |= uint64_t{1} << (place - first);
    place = occupied_place(march, cells, place + 1, LUXEL_MARCH_MAX);
  }
  return count;
}

template <typename T>
LUXEL_HD void write_wave_samples(const luxel_render_wave_args& args, int64_t first, int count, int place, uint64_t near,
                                 const MarchRay<T>& march, Vec3<T> direction) {
  const Cells cells = cells_of(args);
  const int start = place;
  for (int i = 0; i < count; ++i) {
    write_sample(args, first + i, march, direction, march.at(place));
    near &= near - 1;  // without this one
    if (i + 1 < count) place = near ? start + lowest_bit(near) : occupied_place(march, cells, place + 1, LUXEL_MARCH_MAX);
  }
}

// Optical depth and colour of a sample.
template <typename T> struct WaveSample {
  T depth;
  Vec3<T> colour;
};
template <typename T> LUXEL_HD WaveSample<T> load_wave_sample(const luxel_render_wave_args& args, int64_t s, T scaled_step) {
  if (!args.values) return {optical_depth(in<T>(args.density)[s], scaled_step), sample_colour(in<T>(args.colour) + 3 * s)};
  T four[4];
  load4(in<T>(args.values) + 4 * s, four);
  return {plain_optical_depth(four[0], scaled_step), plain_colour(four + 1)};
}

// Adds the samples of an entry of the list to its ray; returns whether the ray is still active.
template <typename T> LUXEL_HD bool add_samples(const luxel_render_wave_args& args, int64_t slot, int64_t r) {
  const int64_t first = args.ranges[2 * slot];
  const int count = args.ranges[2 * slot + 1];
  if (count == 0) return true;  // they did not fit into the capacity
  WaveState<T> state = load_wave_state<T>(args, r);
  const T scale = T(args.scale);
  const Steps<T> steps = steps_of<T>(args);
  T transmittance = exp_exact(-state.optical_depth);
  for (int64_t s = first; s < first + count && transmittance >= T(args.min_transmittance); ++s) {
    const T t = out<T>(args.t)[s];
    const WaveSample<T> sample = load_wave_sample(args, s, scale * steps.length(t));
    const T weight = sample_weight(transmittance, sample.depth);
    state.rgb = state.rgb + weight * sample.colour;
    state.depth += weight * t;
    state.optical_depth += sample.depth;
    transmittance = exp_exact(-state.optical_depth);
  }
  if (!(transmittance >= T(args.min_transmittance))) state.place = -1;
  if (state.place >= 0)
    store_wave_state(args, r, state);
  else
    finish_ray(args, r, state);
  return state.place >= 0;
}

}  // namespace luxel
