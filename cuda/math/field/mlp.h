// Activations of a perceptron and their derivatives, which are computed from the activated value, so that only this is stored.
#pragma once

#include "abi/field.h"
#include "math/hd.h"

namespace luxel {

LUXEL_HD float log1p_of(float x) { return log1pf(x); }
LUXEL_HD double log1p_of(double x) { return log1p(x); }
LUXEL_HD float expm1_of(float x) { return expm1f(x); }
LUXEL_HD double expm1_of(double x) { return expm1(x); }

template <typename T> LUXEL_HD T activate(int activation, T x) {
  if (activation == LUXEL_RELU) return x < T(0) ? T(0) : x;
  if (activation == LUXEL_SOFTPLUS) return (x < T(0) ? T(0) : x) + log1p_of(exp_exact(x < T(0) ? x : -x));
  if (activation == LUXEL_SIGMOID) return T(1) / (T(1) + exp_exact(-x));
  return x;
}
// d activate / d x, given y = activate(x).
template <typename T> LUXEL_HD T activate_vjp(int activation, T y) {
  if (activation == LUXEL_RELU) return y <= T(0) ? T(0) : T(1);
  if (activation == LUXEL_SOFTPLUS) return -expm1_of(-y);
  if (activation == LUXEL_SIGMOID) return y * (T(1) - y);
  return T(1);
}

}  // namespace luxel
