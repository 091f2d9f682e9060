// Activations of a perceptron and their derivatives, which are computed from the activated value, so that only this is stored.
#pragma once

#include "math/hd.h"

namespace luxel {

enum { kLinear, kRelu, kSoftplus, kSigmoid };  // activations, numbered as in abi/field.h

template <typename T> LUXEL_HD T activate(int activation, T x) {
  if (activation == kRelu) return x < T(0) ? T(0) : x;
  if (activation == kSoftplus) return (x < T(0) ? T(0) : x) + log1p_of(exp_exact(x < T(0) ? x : -x));
  if (activation == kSigmoid) return T(1) / (T(1) + exp_exact(-x));
  return x;
}
// d activate / d x, given y = activate(x).
template <typename T> LUXEL_HD T activate_vjp(int activation, T y) {
  if (activation == kRelu) return y <= T(0) ? T(0) : T(1);
  if (activation == kSoftplus) return -expm1_of(-y);
  if (activation == kSigmoid) return y * (T(1) - y);
  return T(1);
}

}  // namespace luxel
