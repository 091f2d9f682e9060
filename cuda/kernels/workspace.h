// Divides the caller's workspace into arrays. The base may be null, to compute the size of the workspace only.
#pragma once

#include <cstdint>

namespace luxel {

struct Layout {
  int64_t used = 0;  // bytes; every array starts at a multiple of 256
  template <typename X> X* take(void* base, int64_t count) {
    X* p = reinterpret_cast<X*>(static_cast<char*>(base) + used);
    used += (count * static_cast<int64_t>(sizeof(X)) + 255) / 256 * 256;
    return p;
  }
};

}  // namespace luxel
