// Error reporting of the stages: `return fail("...")`, and LUXEL_CUDA(call), which fails with the call and CUDA's message.
#pragma once

namespace luxel {
int fail(const char* format, ...) __attribute__((format(printf, 1, 2)));  // remembers the message, returns -1
}

#if defined(__CUDACC__)
#include <cuda_runtime.h>
#define LUXEL_CUDA(call)                                                                      \
  do {                                                                                        \
    const cudaError_t status_ = (call);                                                       \
    if (status_ != cudaSuccess) return luxel::fail("%s: %s", #call, cudaGetErrorString(status_)); \
  } while (0)
#endif
