// CPU twin of langevin_noise.
#include "kernels/train/langevin_noise.h"

extern "C" int luxel_langevin_noise(const luxel_langevin_noise_args* args) {
  if (args->skip && args->skip[0] != 0) return 0;
#pragma omp parallel for schedule(static)
  for (int n = 0; n < args->count; ++n) luxel::move_at_random(*args, n);
  return 0;
}
