// CPU twin of velocity_consistency.
#include "kernels/train/losses/velocity_consistency.h"

#include "kernels/error.h"

namespace luxel {
namespace {

template <typename T> int forward(const luxel_velocity_consistency_args& args) {
  const ConsistencyRoom room(args);
  if (args.workspace_bytes < room.bytes) return fail("velocity_consistency: workspace too small");
  T* const velocities = static_cast<T*>(room.velocities);
#pragma omp parallel for schedule(static)
  for (int64_t n = 0; n < args.count; ++n) write_velocity(args, n, velocities);
  const auto add = [&](int64_t n, int64_t word) {
#pragma omp atomic
    args.pulls[n] += word;
  };
  double sums[kConsistencySums];
  sum_rows(args.count, room.runs, sums, [&](int64_t n, double* to) { add_distance(args, velocities, n, to, add); });
  finish_consistency<T>(args, sums);
  return 0;
}

template <typename T> int backward(const luxel_velocity_consistency_args& args) {
#pragma omp parallel for schedule(static)
  for (int64_t n = 0; n < args.count; ++n) consistency_gradient<T>(args, n);
  return 0;
}

}  // namespace
}  // namespace luxel

extern "C" {

int64_t luxel_velocity_consistency_workspace(const luxel_velocity_consistency_args* args) {
  return luxel::ConsistencyRoom(*args).bytes;
}

int luxel_velocity_consistency_fwd(const luxel_velocity_consistency_args* args) {
  return args->dtype ? luxel::forward<double>(*args) : luxel::forward<float>(*args);
}

int luxel_velocity_consistency_bwd(const luxel_velocity_consistency_args* args) {
  return args->dtype ? luxel::backward<double>(*args) : luxel::backward<float>(*args);
}
}
