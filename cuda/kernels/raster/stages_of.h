// The stages of a policy, compiled for the CPU, or for the GPU where nvcc is the compiler.
#pragma once

#include "kernels/raster/policy_stages.h"
#if defined(__CUDACC__)
#include "kernels/raster/bin/write_instances.cuh"
#include "kernels/raster/blend/blend_policy.cuh"
#include "kernels/raster/label/label_render.cuh"
#include "kernels/raster/label/label_votes.cuh"
#include "kernels/raster/probe/probe.cuh"
#else
#include "kernels/raster/bin/bin_splats.h"
#include "kernels/raster/blend/blend.h"
#include "kernels/raster/label/label_render.h"
#include "kernels/raster/label/label_votes.h"
#include "kernels/raster/probe/probe.h"
#endif

namespace luxel {

template <template <typename> class Policy> constexpr PolicyStages stages_of(const char* name) {
  using P = Policy<float>;
#if defined(__CUDACC__)
  return {name, LUXEL_ABI_SHA256, P::kRow, P::kPiece, policy_flags<P>(), write_instances<P>, blend<BlendOf<P>>, blend_workspace<P>,
          label_votes<P>, label_render<P>, probe<P>};
#else
  return {name, LUXEL_ABI_SHA256, P::kRow, P::kPiece, policy_flags<P>(), bin_splats<Policy>, blend<Policy>, blend_workspace<Policy>,
          label_votes<Policy>, label_render<Policy>, probe<Policy>};
#endif
}

}  // namespace luxel
