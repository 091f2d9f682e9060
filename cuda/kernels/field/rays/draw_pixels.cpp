// CPU twin of draw_pixels.
#include "kernels/field/rays/draw_pixels.h"

extern "C" int luxel_draw_pixels(const luxel_draw_pixels_args* args) {
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < args->count; ++r) luxel::draw_pixel(*args, r);
  return 0;
}
