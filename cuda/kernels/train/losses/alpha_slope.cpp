// CPU twin of alpha_slope.
#include "kernels/train/losses/alpha_slope.h"

extern "C" int luxel_alpha_slope(const luxel_alpha_slope_args* args) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < args->pixels; ++i) luxel::slope_of_pixel(*args, i);
  return 0;
}
