// CPU twins of gather_view and count_step.
#include "kernels/train/gather_view.h"

extern "C" int luxel_gather_view(const luxel_gather_view_args* args) {
  using namespace luxel;
  const int64_t pixels = static_cast<int64_t>(args->width) * args->height;
  for (int view = 0; view < args->views; ++view) {
    const int32_t* row = present_row(*args, view);
#pragma omp parallel for schedule(static)
    for (int64_t pixel = 0; pixel < pixels; ++pixel) gather_pixel(*args, view, row, pixel);
    for (int i = 0; i < kRowNumbers; ++i) gather_number(*args, view, row, i);
  }
  return 0;
}

extern "C" int luxel_count_step(const luxel_count_step_args* args) {
  luxel::count_one_step(*args);
  return 0;
}
