// The tile rasterizer on the CPU, for any primitive (Policy, see math/raster/policy.h): one task per tile. Twin of blend.cuh.
//
// Gradients of one (tile, splat) pair are summed within the task and stored per instance; a second pass adds them per splat in
// a fixed order, so that the result depends neither on the number of threads nor on their timing.
#pragma once

#include "kernels/error.h"
#include "kernels/raster/blend/blend_tile.h"

#include <omp.h>

namespace luxel {

template <typename Policy, typename T, int D> void forward(const luxel_blend_args& args) {
#pragma omp parallel for schedule(dynamic, 4)
  for (int64_t tile = 0; tile < tile_count(args.binned); ++tile)
    args.median_depth ? forward_tile<Policy, T, D, true>(args, tile) : forward_tile<Policy, T, D, false>(args, tile);
}

template <typename Policy, typename T, int D> void backward(const luxel_blend_args& args) {
  constexpr int kWidth = Policy::kRow + D;
  const int64_t tiles = tile_count(args.binned);
  const bool absolute = Policy::kHasAbsolute && args.absolute;
  T* rows = static_cast<T*>(args.workspace);
  T* g_backgrounds = rows + kWidth * args.binned.capacity;
  std::memset(g_backgrounds, 0, sizeof(T) * D * tiles);
#pragma omp parallel for schedule(dynamic, 4)
  for (int64_t tile = 0; tile < tiles; ++tile)
    absolute ? backward_tile<Policy, T, D, Policy::kHasAbsolute>(args, tile, rows, g_backgrounds + D * tile)
             : backward_tile<Policy, T, D, false>(args, tile, rows, g_backgrounds + D * tile);
  int64_t instances = 0;
  for (int64_t tile = 0; tile < tiles; ++tile) instances = larger<int64_t>(instances, args.binned.ranges[2 * tile + 1]);
  const int64_t splats = static_cast<int64_t>(args.binned.count) * args.binned.cameras;
#pragma omp parallel
  {
    const int parts = omp_get_num_threads(), part = omp_get_thread_num();
    const int64_t first = splats * part / parts, end = splats * (part + 1) / parts;
    for (int64_t i = 0; i < instances; ++i) {
      const int64_t id = args.binned.instances[i];
      if (id < first || id >= end) continue;
      const T* row = rows + kWidth * i;
      T* g_splat = out<T>(args.g_splats) + Policy::kRow * id;
      T* g_value = out<T>(args.g_values) + D * id;
      for (int k = 0; k < Policy::kRow; ++k) g_splat[k] += row[k];
      for (int d = 0; d < D; ++d) g_value[d] += row[Policy::kRow + d];
    }
  }
  if (args.g_background)
    for (int64_t tile = 0; tile < tiles; ++tile)
      for (int d = 0; d < D; ++d)
        out<T>(args.g_background)[tile / (tiles / args.binned.cameras) * D + d] += g_backgrounds[D * tile + d];
}

template <typename Policy, typename T> int blend_channels(const luxel_blend_args& args, bool back) {
  static_assert(check_cpu_policy<Policy, T>());
  switch (args.channels) {
#define LUXEL_CHANNELS(D) \
  case D: back ? backward<Policy, T, D>(args) : forward<Policy, T, D>(args); return 0;
    LUXEL_CHANNELS(3)
    LUXEL_CHANNELS(4)
    LUXEL_CHANNELS(6)
    LUXEL_CHANNELS(7)
    LUXEL_CHANNELS(8)
    LUXEL_CHANNELS(16)
#undef LUXEL_CHANNELS
  }
  return fail("%d channels are not one of 3, 4, 6, 7, 8, 16", args.channels);
}

// Workspace bytes of a backward pass; row: kRow of the policy.
inline int64_t blend_workspace(const luxel_blend_args& args, int row) {
  const int64_t numbers = (row + args.channels) * args.binned.capacity + args.channels * tile_count(args.binned);
  return numbers * static_cast<int64_t>(args.dtype ? sizeof(double) : sizeof(float)) + 256;
}

template <template <typename> class Policy> int64_t blend_workspace(const luxel_blend_args& args) {
  return blend_workspace(args, Policy<float>::kRow);
}

// Policy<T>: of the primitive.
template <template <typename> class Policy> int blend(const luxel_blend_args& args, bool back) {
  if (back && args.workspace_bytes < blend_workspace(args, Policy<float>::kRow)) return fail("workspace too small");
  if (!Policy<float>::kHasAbsolute && args.absolute) return fail("absolute gradients are not for convexes");
  if (args.raw_moments) return fail("raw moments are for the GPU only");
  return args.dtype ? blend_channels<Policy<double>, double>(args, back) : blend_channels<Policy<float>, float>(args, back);
}

}  // namespace luxel
