// CPU twin of composite.
#include "abi/rays.h"
#include "kernels/field/rays/composite.h"

#include "kernels/arguments.h"

#include <algorithm>

namespace luxel {
namespace {

template <typename T> int forward(const luxel_composite_args& args) {
  const T *const density = in<T>(args.density), *const colour = in<T>(args.colour);
#pragma omp parallel for schedule(dynamic, 64)
  for (int64_t r = 0; r < args.count; ++r) {
    const int64_t first = args.ranges[2 * r], last = first + args.ranges[2 * r + 1];
    Vec3<T> rgb = {T(0), T(0), T(0)};
    T sum = T(0), depth = T(0), transmittance = T(1);
    RayDistortion<T> distortion(args, first, last);
    for (int64_t s = first; s < last && transmittance >= T(args.min_transmittance); ++s) {
      const T tau = optical_depth(density[s], T(args.scale) * in<T>(args.dt)[s]);
      const T weight = sample_weight(transmittance, tau);
      rgb = rgb + weight * sample_colour(colour + 3 * s);
      depth += weight * in<T>(args.t)[s];
      distortion.add(weight, in<T>(args.t)[s]);
      sum += tau;
      transmittance = exp_exact(-sum);
    }
    distortion.store(args, r);
    store3(out<T>(args.rgb) + 3 * r, rgb + transmittance * load3(in<T>(args.background) + 3 * r));
    out<T>(args.transmittance)[r] = transmittance;
    out<T>(args.depth)[r] = depth;
  }
  return 0;
}

template <typename T> int backward(const luxel_composite_args& args) {
  const T *const density = in<T>(args.density), *const colour = in<T>(args.colour);
  T *const g_density = out<T>(args.g_density), *const g_colour = out<T>(args.g_colour);
#pragma omp parallel for schedule(dynamic, 64)
  for (int64_t r = 0; r < args.count; ++r) {
    const int64_t first = args.ranges[2 * r], last = first + args.ranges[2 * r + 1];
    const Vec3<T> g_rgb = load3(in<T>(args.g_rgb) + 3 * r);
    const T g_depth = args.g_depth ? in<T>(args.g_depth)[r] : T(0), g_end = args.g_transmittance ? in<T>(args.g_transmittance)[r] : T(0);
    T behind = dot(g_rgb, load3(out<T>(args.rgb) + 3 * r)) + g_depth * out<T>(args.depth)[r] + g_end * out<T>(args.transmittance)[r];
    T sum = T(0), transmittance = T(1);
    RayDistortion<T> distortion(args, first, last);
    const DistortionGradient<T> by_distortion(args, r);
    behind += by_distortion.all();
    int64_t s = first;
    for (; s < last && transmittance >= T(args.min_transmittance); ++s) {
      const T tau = optical_depth(density[s], T(args.scale) * in<T>(args.dt)[s]);
      const T weight = sample_weight(transmittance, tau);
      const Vec3<T> seen = sample_colour(colour + 3 * s);
      T value = sample_value(seen, in<T>(args.t)[s], g_rgb, g_depth);
      if (args.g_distortion) value += by_distortion.value(distortion.before, weight, distortion.place(in<T>(args.t)[s]));
      distortion.add(weight, in<T>(args.t)[s]);
      behind -= weight * value;
      g_density[s] = density_vjp(density[s], tau, transmittance, value, behind);
      colour_vjp(seen, weight, g_rgb, g_colour + 3 * s);
      sum += tau;
      transmittance = exp_exact(-sum);
    }
    std::fill(g_density + s, g_density + std::max(s, last), T(0));
    std::fill(g_colour + 3 * s, g_colour + 3 * std::max(s, last), T(0));
  }
  const int64_t used = args.counters[0];
  std::fill(g_density + used, g_density + args.samples, T(0));
  std::fill(g_colour + 3 * used, g_colour + 3 * static_cast<int64_t>(args.samples), T(0));
  return 0;
}

}  // namespace
}  // namespace luxel

extern "C" {

int luxel_composite_fwd(const luxel_composite_args* args) { return args->dtype ? luxel::forward<double>(*args) : luxel::forward<float>(*args); }
int luxel_composite_bwd(const luxel_composite_args* args) { return args->dtype ? luxel::backward<double>(*args) : luxel::backward<float>(*args); }
}
