// probe on the GPU: a thread per row. Twin of probe.h.
#pragma once

#include "device/launch.cuh"
#include "kernels/raster/probe/probe.h"

namespace luxel {
namespace {

template <typename Policy> __global__ void __launch_bounds__(128) probe_kernel(const luxel_probe_args args) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * 128 + threadIdx.x;
  if (i >= args.count) return;
  out<float>(args.alpha)[i] =
      probe_row<Policy>(in<float>(args.splats) + Policy::kRow * i, static_cast<float>(args.x), static_cast<float>(args.y));
}

template <typename Policy> int probe(const luxel_probe_args& args) {
  if (args.dtype != 0) return fail("the GPU kernels take float32");
  LUXEL_CUDA(cudaSetDevice(args.device));
  return launch("probe", probe_kernel<Policy>, blocks_for(args.count, 128), 128, 0, args.stream, args);
}

}  // namespace
}  // namespace luxel
