// One pixel of the stage depth_loss; the loops around it are in the .cpp and .cu of the same name.
#pragma once

#include "abi/train.h"
#include "kernels/arguments.h"
#include "math/train/depth_loss.h"

namespace luxel {

template <typename T> struct DepthPixel {
  T known, accumulated, cover, weight;
};

// i: number of the pixel among those of all views.
template <typename T> LUXEL_HD DepthPixel<T> depth_pixel(const luxel_depth_loss_args& args, int64_t i) {
  DepthPixel<T> out;
  out.known = in<T>(args.known)[i];
  out.accumulated = in<T>(args.accumulated)[i * args.accumulated_stride];
  out.cover = T(1) - in<T>(args.transmittance)[i];
  out.weight = args.weight ? in<T>(args.weight)[i] : T(1);
  return out;
}

// Writes the gradients of a pixel and returns its part of the loss; 0 with fits, whose loss is that of the view.
template <typename T>
LUXEL_HD T depth_of_pixel(const luxel_depth_loss_args& args, const DepthFit<T>& fit, T strength, int64_t i) {
  const DepthPixel<T> p = depth_pixel<T>(args, i);
  T loss = T(0), g_accumulated = T(0), g_cover = T(0);
  if (p.known > T(0) && p.weight > T(0) && fit.share > T(0)) {
    const T g = strength * p.weight;
    if (args.fits) {
      correlation_vjp(fit, p.known, p.accumulated, p.cover, g, g_accumulated, g_cover);
    } else {
      loss = g * fit.share * depth_difference(p.accumulated, p.cover, p.known);
      depth_difference_vjp(p.accumulated, p.cover, p.known, g * fit.share, g_accumulated, g_cover);
    }
  }
  out<T>(args.g_accumulated)[i] = g_accumulated;
  out<T>(args.g_transmittance)[i] = -g_cover;
  return loss;
}

}  // namespace luxel
