// CPU twin of view_exposure.
#include "kernels/train/views/exposure.h"

#include "kernels/error.h"

namespace luxel {
namespace {

template <typename T, int P> int forward(const luxel_view_exposure_args& args) {
  const int64_t pixels = static_cast<int64_t>(args.width) * args.height;
  for (int b = 0; b < args.views; ++b) {
    const ViewExposure<T, P> view = exposure_of<T, P>(args, b);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < pixels; ++i) expose_pixel<T, P>(args, view, b * pixels + i);
  }
  return 0;
}

template <typename T, int P> int backward(const luxel_view_exposure_args& args) {
  const int64_t pixels = static_cast<int64_t>(args.width) * args.height;
  for (int b = 0; b < args.views; ++b) {
    const ViewExposure<T, P> view = exposure_of<T, P>(args, b);
#pragma omp parallel for schedule(static)
    for (int part = 0; part < args.parts; ++part) {
      double sums[P] = {};
      const int64_t end = pixels * (part + 1) / args.parts;
      for (int64_t i = pixels * part / args.parts; i < end; ++i) exposure_gradient<T, P>(args, view, b * pixels + i, sums);
      T* to = static_cast<T*>(args.g_parts) + (static_cast<int64_t>(b) * args.parts + part) * P;
      for (int i = 0; i < P; ++i) to[i] = static_cast<T>(sums[i]);
    }
  }
  return 0;
}

template <typename T, int P> int run(const luxel_view_exposure_args& args, bool gradients) {
  return gradients ? backward<T, P>(args) : forward<T, P>(args);
}

template <typename T> int run(const luxel_view_exposure_args& args, bool gradients) {
  switch (args.width_of_view) {
    case kGain: return run<T, kGain>(args, gradients);
    case kCamera: return run<T, kCamera>(args, gradients);
    case kAffine: return run<T, kAffine>(args, gradients);
    default: return fail("view_exposure: %d parameters of a view", args.width_of_view);
  }
}

}  // namespace
}  // namespace luxel

extern "C" {

int luxel_view_exposure_fwd(const luxel_view_exposure_args* args) {
  return args->dtype ? luxel::run<double>(*args, false) : luxel::run<float>(*args, false);
}

int luxel_view_exposure_bwd(const luxel_view_exposure_args* args) {
  return args->dtype ? luxel::run<double>(*args, true) : luxel::run<float>(*args, true);
}
}
