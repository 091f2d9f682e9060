// Launches of kernels, checked.
#pragma once

#include "kernels/error.h"

namespace luxel {

// How many blocks the device holds at a time, given how many a multiprocessor does.
inline int resident_blocks(int per_multiprocessor, int device, int* out) {
  int multiprocessors = 0;
  LUXEL_CUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  *out = multiprocessors * per_multiprocessor;
  return 0;
}

// As many blocks as `items` need.
inline unsigned blocks_for(int64_t items, int64_t per_block) {
  return static_cast<unsigned>((items + per_block - 1) / per_block);
}

// Starts kernel<<<grid, threads, shared, stream>>>(arguments...), where the grid is not empty; returns 0, or fails in the
// stage's name.
template <typename... Parameters, typename... Arguments>
int launch(const char* stage, void (*kernel)(Parameters...), dim3 grid, int threads, size_t shared, void* stream,
           const Arguments&... arguments) {
  if (grid.x == 0) return 0;
  kernel<<<grid, threads, shared, static_cast<cudaStream_t>(stream)>>>(static_cast<Parameters>(arguments)...);
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) return fail("launch of %s: %s", stage, cudaGetErrorString(status));
  return 0;
}

}  // namespace luxel
