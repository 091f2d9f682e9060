// One step of Adam on one number (Kingma & Ba 2015, algorithm 1).
#pragma once

#include "hd.h"

namespace luxel {

template <typename T> struct AdamConstants {
  T rest1, beta2, rest2, eps;  // rest = 1 - beta, rounded once: 1 - 0.999f is off by 5e-5
  T rate;          // lr / (1 - beta1^step)
  T root_bias2;    // sqrt(1 - beta2^step)

  AdamConstants() = default;
  AdamConstants(double lr, double b1, double b2, double epsilon, int64_t step)
      : rest1(T(1 - b1)), beta2(T(b2)), rest2(T(1 - b2)), eps(T(epsilon)),
        rate(T(lr / (1 - std::pow(b1, static_cast<double>(step))))),
        root_bias2(T(std::sqrt(1 - std::pow(b2, static_cast<double>(step))))) {}

  // What stays the same from step to step; `at` brings the rest.
  static AdamConstants decays(double b1, double b2, double epsilon) {
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
    c.root_bias2 = root(bias2);
    return c;
  }
};

template <typename T>
LUXEL_HD void adam_update(const AdamConstants<T>& c, T g, T& param, T& exp_avg, T& exp_avg_sq) {
  exp_avg = exp_avg + c.rest1 * (g - exp_avg);
  exp_avg_sq = c.beta2 * exp_avg_sq + c.rest2 * g * g;
  param = param - c.rate * exp_avg / (root(exp_avg_sq) / c.root_bias2 + c.eps);
}

}  // namespace luxel
