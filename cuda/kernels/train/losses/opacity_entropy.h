// One Gaussian of the stage opacity_entropy; the loops around it are in the .cpp and .cu of the same name.
#pragma once

#include "abi/train.h"
#include "math/train/entropy.h"
#include "device/row_sums.h"
#include "kernels/arguments.h"

namespace luxel {

constexpr int kEntropySums = 4;  // entropy and number of the visible rows, then of the others

// X: type of the sums.
template <typename T, typename X> LUXEL_HD void add_entropy(const luxel_opacity_entropy_args& args, int64_t n, X* sums) {
  const T logit = in<T>(args.opacity_logits)[n];
  if (!finite(logit)) return;
  const int kind = args.visible[n] ? 0 : 2;
  sums[kind] += opacity_entropy(logit);
  sums[kind + 1] += 1;
}

template <typename T> LUXEL_HD void finish_entropy(const luxel_opacity_entropy_args& args, const double* sums) {
  const double seen = sums[1] > 0 ? 1 / sums[1] : 0, other = sums[3] > 0 ? args.of_others / sums[3] : 0;
  out<T>(args.loss)[0] = static_cast<T>(seen * sums[0] + other * sums[2]);
  out<T>(args.shares)[0] = static_cast<T>(seen);
  out<T>(args.shares)[1] = static_cast<T>(other);
}

template <typename T> LUXEL_HD void entropy_gradient(const luxel_opacity_entropy_args& args, int64_t n) {
  const T logit = in<T>(args.opacity_logits)[n], *shares = in<T>(args.shares);
  out<T>(args.g_opacity_logits)[n] =
      finite(logit) ? in<T>(args.g_loss)[0] * shares[args.visible[n] ? 0 : 1] * opacity_entropy_vjp(logit) : T(0);
}

}  // namespace luxel
