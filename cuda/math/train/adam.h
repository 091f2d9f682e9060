// One step of Adam on one number (Kingma & Ba 2015, algorithm 1).
#pragma once

#include "math/hd.h"

namespace luxel {

template <typename T> struct AdamConstants {
  T rest1, beta2, rest2, eps;  // rest = 1 - beta, rounded once: 1 - 0.999f is off by 5e-5
  T rate;          // lr / (1 - beta1^step)
  T inverse_root_bias2;  // 1 / sqrt(1 - beta2^step)

  AdamConstants() = default;
  LUXEL_HD AdamConstants(double lr, double b1, double b2, double epsilon, int64_t step)
      : rest1(T(1 - b1)), beta2(T(b2)), rest2(T(1 - b2)), eps(T(epsilon)),
        rate(T(lr / (1 - power_of(b1, static_cast<double>(step))))),
        inverse_root_bias2(T(1 / root(1 - power_of(b2, static_cast<double>(step))))) {}

  // The constants that are equal in all steps; at() fills in the others.
  static LUXEL_HD AdamConstants decays(double b1, double b2, double epsilon) {
    AdamConstants c = {};
    c.rest1 = T(1 - b1);
    c.beta2 = T(b2);
    c.rest2 = T(1 - b2);
    c.eps = T(epsilon);
    return c;
  }
  // With a learning rate and the bias corrections 1 - beta^step.
  LUXEL_HD AdamConstants at(T lr, T bias1, T bias2) const {
    AdamConstants c = *this;
    c.rate = lr / bias1;
    c.inverse_root_bias2 = T(1) / root(bias2);
    return c;
  }
};

// Square root and quotient for the length of a step, which is small against the parameter: on the GPU accurate to 2 units in the
// last place, without the branches of the exact functions.
LUXEL_HD double step_root(double x) { return root(x); }
LUXEL_HD double step_quotient(double a, double b) { return a / b; }
LUXEL_HD float step_root(float x) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return root(x);
#endif
}
LUXEL_HD float step_quotient(float a, float b) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("div.approx.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
#else
  return a / b;
#endif
}

template <typename T>
LUXEL_HD void adam_update(const AdamConstants<T>& c, T g, T& param, T& exp_avg, T& exp_avg_sq) {
  exp_avg = exp_avg + c.rest1 * (g - exp_avg);
  exp_avg_sq = c.beta2 * exp_avg_sq + c.rest2 * g * g;
  param = param - step_quotient(c.rate * exp_avg, step_root(exp_avg_sq) * c.inverse_root_bias2 + c.eps);
}

}  // namespace luxel
