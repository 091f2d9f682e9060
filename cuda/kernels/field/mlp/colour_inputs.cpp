// CPU twin of colour_inputs.
#include "kernels/field/mlp/colour_inputs.h"

namespace luxel {
namespace {

template <typename T> int forward(const luxel_colour_inputs_args& args) {
#pragma omp parallel for schedule(static)
  for (int64_t four = 0; four < fours_of_inputs(args); ++four) write_four_inputs<T>(args, four);
  return 0;
}

template <typename T> int backward(const luxel_colour_inputs_args& args) {
#pragma omp parallel for schedule(static)
  for (int64_t four = 0; four < fours_of_features(args); ++four) write_four_gradients<T>(args, four);
  return 0;
}

}  // namespace
}  // namespace luxel

extern "C" {

int luxel_colour_inputs_fwd(const luxel_colour_inputs_args* args) {
  return args->dtype ? luxel::forward<double>(*args) : luxel::forward<float>(*args);
}
int luxel_colour_inputs_bwd(const luxel_colour_inputs_args* args) {
  return args->dtype ? luxel::backward<double>(*args) : luxel::backward<float>(*args);
}
}
