// The tile rasterizer on the GPU, for any primitive (Policy, see math/raster/policy.h): the part common to
// the two algorithms, blend_simple.cuh and blend_multi_edge.cuh. Twin of blend.h.
#pragma once

#include "math/raster/policy_check.h"
#include "device/launch.cuh"
#include "kernels/raster/blend/blend_ordered.cuh"

namespace luxel {
namespace {

// d image / d background is T_end: the gradient is a sum over all pixels, independent of the lists.
template <int D> __global__ void __launch_bounds__(256) background_bwd_kernel(const luxel_blend_args args) {
  const int64_t pixels = static_cast<int64_t>(args.binned.width) * args.binned.height;
  const int camera = blockIdx.y;
  float g[D] = {};
  for (int64_t p = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; p < pixels;
       p += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const int64_t pixel = camera * pixels + p;
    const float t_end = in<float>(args.transmittance)[pixel];
#pragma unroll
    for (int d = 0; d < D; ++d) g[d] = fmaf(in<float>(args.g_image)[pixel * D + d], t_end, g[d]);
  }
  __shared__ float sums[D];  // of the block, to reduce global atomics
  if (threadIdx.x < D) sums[threadIdx.x] = 0.0f;
  __syncthreads();
#pragma unroll
  for (int d = 0; d < D; ++d) {
    for (int bit = 16; bit >= 1; bit /= 2) g[d] += __shfl_xor_sync(kAll, g[d], bit);
    if ((threadIdx.x & 31) == 0) atomicAdd(&sums[d], g[d]);
  }
  __syncthreads();
  if (threadIdx.x < D) atomicAdd(out<float>(args.g_background) + D * camera + threadIdx.x, sums[threadIdx.x]);
}

template <typename Algorithm, int D> int backward(const luxel_blend_args& args) {
  using Policy = typename Algorithm::Policy;
  const cudaStream_t stream = static_cast<cudaStream_t>(args.stream);
  Ordered o = {};
  const bool ordered = args.deterministic && args.binned.capacity > 0;
  if (ordered) {
    LUXEL_CUDA(lay_out(args, Policy::kRow, o));
    if (args.workspace_bytes < o.bytes) return fail("workspace too small");
    LUXEL_CUDA(cudaMemsetAsync(o.rows, 0, o.rows_bytes, stream));
  }
  if (Algorithm::template backward<D>(args) < 0) return -1;
  if (ordered) {
    const int64_t capacity = args.binned.capacity;
    if (launch("number", number_kernel, blocks_for(capacity, 256), 256, 0, stream, o.positions, capacity) < 0) return -1;
    LUXEL_CUDA(cub::DeviceRadixSort::SortPairs(o.sorting, o.sorting_bytes, args.binned.instances, o.ids_sorted, o.positions,
                                               o.positions_sorted, args.binned.capacity, 0, index_bits(args), stream));
    const dim3 grid(blocks_for(args.binned.capacity, 8), numbers_per_lane(Policy::kRow + D));
    if (launch("sum_rows", sum_rows_kernel<Policy::kRow, D>, grid, 256, 0, stream, args, o) < 0) return -1;
  }
  if (Algorithm::finish_backward(args) < 0) return -1;
  // One warp if the order must be fixed.
  if (args.g_background == nullptr) return 0;
  return launch("background_bwd", background_bwd_kernel<D>, dim3(args.deterministic ? 1 : 128, args.binned.cameras),
                args.deterministic ? 32 : 256, 0, stream, args);
}

// Workspace bytes of a backward pass; row: kRow of the policy. Ignores pointers.
inline int64_t blend_workspace(const luxel_blend_args& args, int row) {
  if (!args.deterministic || args.binned.capacity == 0) return 0;
  Ordered o = {};
  LUXEL_CUDA(lay_out(args, row, o));
  return o.bytes;
}

// The stage, by a policy's Algorithm: SimpleBlend or MultiEdgeBlend.
template <typename Algorithm> int blend(const luxel_blend_args& args, bool back) {
  using Policy = typename Algorithm::Policy;
  static_assert(check_gpu_policy<Policy>());
  if (args.dtype != 0) return fail("the GPU kernels take float32");
  if (!Policy::kHasAbsolute && args.absolute) return fail("absolute gradients are not for convexes");
  if (!Policy::kMultiEdge && args.raw_moments) return fail("raw moments are for convexes only");
  LUXEL_CUDA(cudaSetDevice(args.device));
  switch (args.channels) {
#define LUXEL_CHANNELS(D) \
  case D: return back ? backward<Algorithm, D>(args) : Algorithm::template forward<D>(args);
    LUXEL_CHANNELS(3)
    LUXEL_CHANNELS(4)
    LUXEL_CHANNELS(6)
    LUXEL_CHANNELS(7)
    LUXEL_CHANNELS(8)
    LUXEL_CHANNELS(16)
#undef LUXEL_CHANNELS
    default: return fail("%d channels are not one of 3, 4, 6, 7, 8, 16", args.channels);
  }
}

}  // namespace
}  // namespace luxel
