// Launches of kernels, checked.
#pragma once

#include "kernels/error.h"

namespace luxel {

// *out: number of blocks that are resident on the device at once, given the number per multiprocessor. Returns 0 or fails.
inline int resident_blocks(int per_multiprocessor, int device, int* out) {
  int multiprocessors = 0;
  LUXEL_CUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  *out = multiprocessors * per_multiprocessor;
  return 0;
}

// Number of blocks for `items` items.
inline unsigned blocks_for(int64_t items, int64_t per_block) {
  return static_cast<unsigned>((items + per_block - 1) / per_block);
}

// Launches kernel<<<grid, threads, shared, stream>>>(arguments...) unless the grid is empty. Returns 0, or fails with a message
// that names the stage. `shared`: bytes of dynamic shared memory.
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
