// CPU twin of order_positions: a counting sort by key.
#include "kernels/field/grid/order_positions.h"

#include <algorithm>

namespace luxel {
namespace {

template <typename T, int D> void run(const luxel_order_positions_args& args) {
  constexpr int64_t kKeys = int64_t{kHilbertLast} + 1;
  const int64_t count = args.count;
  const T* const x = in<T>(args.x);
  int64_t* const starts = static_cast<int64_t*>(args.workspace);  // of each key, shifted by one entry
  uint32_t* const keys = reinterpret_cast<uint32_t*>(starts + kKeys + 1);
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < count; ++i) keys[i] = hilbert_key<T, D>(x + i * D);
  std::fill(starts, starts + kKeys + 1, int64_t{0});
  for (int64_t i = 0; i < count; ++i) ++starts[keys[i] + 1];
  for (int64_t k = 0; k < kKeys; ++k) starts[k + 1] += starts[k];
  for (int64_t i = 0; i < count; ++i) args.order[starts[keys[i]]++] = static_cast<int32_t>(i);
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < count; ++i) std::copy_n(x + int64_t{args.order[i]} * D, D, out<T>(args.sorted) + i * D);
}

}  // namespace
}  // namespace luxel

extern "C" {

int64_t luxel_order_positions_workspace(const luxel_order_positions_args* args) {
  return (int64_t{luxel::kHilbertLast} + 2) * sizeof(int64_t) + args->count * sizeof(uint32_t);
}

int luxel_order_positions(const luxel_order_positions_args* args) {
  using namespace luxel;
  if (check_order(*args) < 0) return -1;
  if (args->workspace_bytes < luxel_order_positions_workspace(args)) return fail("order_positions: workspace too small");
  const auto flat = args->dtype ? run<double, 2> : run<float, 2>;
  const auto solid = args->dtype ? run<double, 3> : run<float, 3>;
  (args->dimensions == 2 ? flat : solid)(*args);
  return 0;
}
}
