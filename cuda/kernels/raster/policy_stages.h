// What a library has for each policy: its numbers, and the stages that are compiled for it. The only dispatch by policy.
#pragma once

#include "abi/raster.h"
#include "math/raster/policies.h"

namespace luxel {

struct SortedSplats;  // of the GPU: kernels/raster/bin/bin_counters.cuh

struct PolicyStages {
  const char* name;
  const char* abi;        // SHA-256 of the headers of the C ABI that it was compiled with
  int row, piece, flags;  // kRow, kPiece; LUXEL_MULTI_EDGE, ...
  int (*bin)(const luxel_bin_splats_args&, const SortedSplats*);  // CPU: the complete stage, null; GPU: writes the instances
  int (*blend)(const luxel_blend_args&, bool back);
  int64_t (*blend_workspace)(const luxel_blend_args&);
  int (*votes)(const luxel_label_votes_args&);
  int (*labels)(const luxel_label_render_args&);
  int (*probe)(const luxel_probe_args&);
};

template <typename Policy> constexpr int policy_flags() {
  return (Policy::kMultiEdge ? LUXEL_MULTI_EDGE : 0) | (Policy::kHasAbsolute ? LUXEL_HAS_ABSOLUTE : 0) |
         (Policy::kPixelDepth ? LUXEL_PIXEL_DEPTH : 0);
}

// Defined by the files that CMake makes from policy.cpp.in and policy.cu.in, by stages_of().
#define LUXEL_DECLARE(name, type, header) extern const PolicyStages policy_##name;
LUXEL_POLICIES(LUXEL_DECLARE)
#undef LUXEL_DECLARE

// Of a number; null if there is no such policy, which is then the last error.
const PolicyStages* policy_stages(int32_t number);
// See luxel_add_policy.
int add_policy(const PolicyStages* stages, int64_t bytes);

}  // namespace luxel
