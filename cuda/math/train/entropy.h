// Entropy of an opacity, a loss that drives it to 0 or 1 (Duan et al. 2024, "4D-Rotor Gaussian Splatting"), with its vjp.
#pragma once

#include "math/hd.h"

namespace luxel {

template <typename T> LUXEL_HD T min_opacity() { return T(1e-3); }
template <typename T> LUXEL_HD T max_opacity() { return T(1) - T(1e-3); }

// -o ln o with o = sigmoid(logit) clamped to [1e-3, 1 - 1e-3].
template <typename T> LUXEL_HD T opacity_entropy(T logit) {
  const T o = clamp(sigmoid(logit), min_opacity<T>(), max_opacity<T>());
  return -o * log_of(o);
}
// Its derivative by the logit: 0 where the opacity is clamped.
template <typename T> LUXEL_HD T opacity_entropy_vjp(T logit) {
  const T o = sigmoid(logit);
  if (!(o >= min_opacity<T>() && o <= max_opacity<T>())) return T(0);
  return -(log_of(o) + T(1)) * o * (T(1) - o);
}

}  // namespace luxel
