// probe on the CPU. Twin of probe.cuh.
#pragma once

#include "abi/raster.h"
#include "math/raster/policy_check.h"
#include "kernels/arguments.h"

namespace luxel {

// Alpha before the cap of one row at (x, y), px; 0 where it is not valid.
template <typename Policy, typename T> LUXEL_HD T probe_row(const T* row, T x, T y) {
  const Policy splat = Policy::load(row);
  const auto at = splat.at(x - splat.x, y - splat.y);
  return at.valid ? splat.opacity * at.falloff : T(0);
}

#if !defined(__CUDACC__)
template <typename Policy, typename T> void probe_rows(const luxel_probe_args& args) {
  for (int64_t i = 0; i < args.count; ++i)
    out<T>(args.alpha)[i] = probe_row<Policy>(in<T>(args.splats) + Policy::kRow * i, T(args.x), T(args.y));
}

// Policy<T>: of the primitive.
template <template <typename> class Policy> int probe(const luxel_probe_args& args) {
  args.dtype ? probe_rows<Policy<double>, double>(args) : probe_rows<Policy<float>, float>(args);
  return 0;
}
#endif

}  // namespace luxel
