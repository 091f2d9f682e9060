// CPU twin of view_adam.
#include "kernels/train/views/adam.h"

#include "kernels/error.h"

namespace luxel {
namespace {

void take_out_means(const luxel_view_adam_args& args) {
  for (int p = 0; p < args.width; ++p) {
    double sum = 0;
    for (int64_t v = 0; v < args.views; ++v) sum += args.values[v * args.width + p];
    const float mean = static_cast<float>(sum / args.views);
    for (int64_t v = 0; v < args.views; ++v) args.values[v * args.width + p] -= mean;
  }
}

void take_out_directions(const luxel_view_adam_args& args) {
  const int64_t count = static_cast<int64_t>(args.views) * args.width;
  double along[kMaxDirections] = {};
  for (int64_t i = 0; i < count; ++i)
    for (int g = 0; g < args.directions; ++g) along[g] += static_cast<double>(args.common[i * args.directions + g]) * args.values[i];
  for (int64_t i = 0; i < count; ++i) {
    double shared = 0;
    for (int g = 0; g < args.directions; ++g) shared += along[g] * args.common[i * args.directions + g];
    args.values[i] -= static_cast<float>(shared);
  }
}

}  // namespace
}  // namespace luxel

extern "C" int luxel_view_adam(const luxel_view_adam_args* args) {
  using namespace luxel;
  if (args->directions > kMaxDirections) return fail("view_adam: %d directions, at most %d", args->directions, kMaxDirections);
  if (args->skip[0] != 0) return 0;
  for (int b = 0; b < args->views_of_step; ++b)
    for (int p = 0; p < args->width; ++p) move_parameter(*args, b, p);
  args->common ? take_out_directions(*args) : take_out_means(*args);
  return 0;
}
