// 3DGS-MCMC (Kheradmand et al. 2024), eq. 9: opacity and scale with which n Gaussians at one point look like the one they replace.
#pragma once

#include "math/hd.h"

namespace luxel {

constexpr int kMaxCopies = 51;  // for more copies the alternating sum loses its precision

// shared: o' = 1 - (1 - o)^(1/n); factor: s'/s = o / sum_{k=1..n} C(n, k) (-1)^(k-1) o'^k / sqrt(k), eq. 9 with its sums swapped.
// n includes the original.
LUXEL_HD void share_appearance(float opacity, int n, float& shared, float& factor) {
  n = smaller(n, kMaxCopies);
  const double o = opacity, each = -expm1_of(log1p_of(-smaller(o, 1 - 1e-9)) / n);
  double total = 0, binomial = 1, power = 1;
  for (int k = 1; k <= n; ++k) {
    binomial = binomial * (n - k + 1) / k;
    power *= each;
    total += (k % 2 == 1 ? binomial : -binomial) * power / root(static_cast<double>(k));
  }
  shared = static_cast<float>(each);
  factor = static_cast<float>(o / total);
}

}  // namespace luxel
