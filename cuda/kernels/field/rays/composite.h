// The distortion of one ray in the stage composite; the loops around it are in the .cpp and .cu of the same name.
#pragma once

#include "abi/rays.h"
#include "kernels/arguments.h"
#include "math/field/composite.h"
#include "math/field/march.h"

namespace luxel {

// s of a sample: its arc coordinate in units of the distortion.
template <typename T> struct DistortionScale {
  Steps<T> steps;
  T width;  // of a sample

  LUXEL_HD explicit DistortionScale(const luxel_composite_args& args)
      : steps{T(args.step), T(args.growth)}, width(args.unit > 0 ? T(1 / args.unit) : T(0)) {}
  LUXEL_HD T arc(T t) const { return steps.arc(t) * width; }
  // Of the first sample of a ray, which the others are relative to.
  LUXEL_HD T first(const luxel_composite_args& args, int64_t first, int64_t count) const {
    const bool needed = (args.distortion || args.g_distortion) && count > 0;
    return needed ? arc(in<T>(args.t)[first]) : T(0);
  }
};

// Gradients of the distortion of a ray, all 0 without one.
template <typename T> struct DistortionGradient {
  DistortionScale<T> scale;
  T g, total;
  Moments<T> sums;

  LUXEL_HD DistortionGradient(const luxel_composite_args& args, int64_t r) : scale(args), g(0), total(0), sums{T(0), T(0)} {
    if (!args.g_distortion) return;
    g = in<T>(args.g_distortion)[r];
    total = out<T>(args.distortion)[r];
    sums = {out<T>(args.moments)[2 * r], out<T>(args.moments)[2 * r + 1]};
  }
  // The sum of weights times gradients by them: the distortion is homogeneous of degree 2.
  LUXEL_HD T all() const { return T(2) * g * total; }
  LUXEL_HD T value(Moments<T> before, T weight, T s) const { return g * distortion_value(weight, s, scale.width, before, sums); }
};

// Running sums along a ray, one sample after another.
template <typename T> struct RayDistortion {
  DistortionScale<T> scale;
  bool on;
  T first, total;
  Moments<T> before;

  LUXEL_HD RayDistortion(const luxel_composite_args& args, int64_t begin, int64_t end)
      : scale(args), on(args.distortion || args.g_distortion), first(scale.first(args, begin, end - begin)), total(0), before{T(0), T(0)} {}
  LUXEL_HD T place(T t) const { return scale.arc(t) - first; }
  LUXEL_HD void add(T weight, T t) {
    if (!on) return;
    const T s = place(t);
    total += distortion_of(weight, s, scale.width, before);
    before = {before.weight + weight, before.first + weight * s};
  }
  LUXEL_HD void store(const luxel_composite_args& args, int64_t r) const {
    if (!args.distortion) return;
    out<T>(args.distortion)[r] = total;
    out<T>(args.moments)[2 * r] = before.weight;
    out<T>(args.moments)[2 * r + 1] = before.first;
  }
};

}  // namespace luxel
