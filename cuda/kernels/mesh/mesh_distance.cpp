// CPU twin of mesh_distance.
#include "kernels/mesh/mesh_distance.h"

namespace luxel {
namespace {

template <typename T> int run(const luxel_mesh_distance_args& args) {
#pragma omp parallel for schedule(dynamic, 256)
  for (int64_t n = 0; n < args.count; ++n) measure_point<T>(args, n);
  return 0;
}

}  // namespace
}  // namespace luxel

extern "C" int luxel_mesh_distance(const luxel_mesh_distance_args* args) {
  if (luxel::check(*args) < 0) return -1;
  return args->dtype ? luxel::run<double>(*args) : luxel::run<float>(*args);
}
