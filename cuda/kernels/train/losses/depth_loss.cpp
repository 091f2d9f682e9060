// CPU twin of depth_loss.
#include "kernels/train/losses/depth_loss.h"

namespace luxel {
namespace {

template <typename T> int run(const luxel_depth_loss_args& args) {
  for (int b = 0; b < args.views; ++b) {
    const int64_t first = b * args.pixels;
    double* parts = args.sums + static_cast<int64_t>(b) * args.parts * kDepthSums;
#pragma omp parallel for schedule(static)
    for (int q = 0; q < args.parts; ++q) {
      double sums[kDepthSums] = {};
      for (int64_t i = args.pixels * q / args.parts; i < args.pixels * (q + 1) / args.parts; ++i) {
        const DepthPixel<T> p = depth_pixel<T>(args, first + i);
        add_depth(p.known, p.accumulated, p.cover, p.weight, args.fits != 0, sums);
      }
      for (int k = 0; k < kDepthSums; ++k) parts[q * kDepthSums + k] = sums[k];
    }
    double sums[kDepthSums] = {};
    for (int q = 0; q < args.parts; ++q)
      for (int k = 0; k < kDepthSums; ++k) sums[k] += parts[q * kDepthSums + k];
    const DepthFit<T> fit = depth_fit<T>(sums, args.pixels, args.views, args.fits != 0);
    out<T>(args.fit)[2 * b] = fit.scale;
    out<T>(args.fit)[2 * b + 1] = fit.shift;
    const T strength = in<T>(args.strength)[0];
#pragma omp parallel for schedule(static)
    for (int q = 0; q < args.parts; ++q) {
      double loss = q == 0 ? strength * fit.loss : 0.0;
      for (int64_t i = args.pixels * q / args.parts; i < args.pixels * (q + 1) / args.parts; ++i)
        loss += depth_of_pixel<T>(args, fit, strength, first + i);
      args.losses[static_cast<int64_t>(b) * args.parts + q] = loss;
    }
  }
  return 0;
}

}  // namespace
}  // namespace luxel

extern "C" int luxel_depth_loss(const luxel_depth_loss_args* args) {
  return args->dtype ? luxel::run<double>(*args) : luxel::run<float>(*args);
}
