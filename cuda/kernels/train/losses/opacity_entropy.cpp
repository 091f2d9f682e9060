// CPU twin of opacity_entropy.
#include "kernels/train/losses/opacity_entropy.h"

#include "kernels/error.h"

namespace luxel {
namespace {

template <typename T> int forward(const luxel_opacity_entropy_args& args) {
  double sums[kEntropySums];
  sum_rows(args.count, static_cast<double*>(args.workspace), sums, [&](int64_t n, double* to) { add_entropy<T>(args, n, to); });
  finish_entropy<T>(args, sums);
  return 0;
}

template <typename T> int backward(const luxel_opacity_entropy_args& args) {
#pragma omp parallel for schedule(static)
  for (int64_t n = 0; n < args.count; ++n) entropy_gradient<T>(args, n);
  return 0;
}

}  // namespace
}  // namespace luxel

extern "C" {

int64_t luxel_opacity_entropy_workspace(const luxel_opacity_entropy_args* args) {
  return luxel::runs_of_rows(args->count) * luxel::kEntropySums * static_cast<int64_t>(sizeof(double));
}

int luxel_opacity_entropy_fwd(const luxel_opacity_entropy_args* args) {
  if (args->workspace_bytes < luxel_opacity_entropy_workspace(args)) return luxel::fail("opacity_entropy: workspace too small");
  return args->dtype ? luxel::forward<double>(*args) : luxel::forward<float>(*args);
}

int luxel_opacity_entropy_bwd(const luxel_opacity_entropy_args* args) {
  return args->dtype ? luxel::backward<double>(*args) : luxel::backward<float>(*args);
}
}
