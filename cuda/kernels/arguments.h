// Access to the argument structs of the C ABI: typed pointers to tensors, and the number of rows in use.
#pragma once

#include "math/vec.h"

#include <stdint.h>

namespace luxel {

template <typename T> LUXEL_HD const T* in(const void* p) { return static_cast<const T*>(p); }
template <typename T> LUXEL_HD T* out(void* p) { return static_cast<T*>(p); }

// The number of leading rows to compute. Args: with count and live.
template <typename Args> LUXEL_HD int64_t live_rows(const Args& args) {
  return args.live ? clamp<int64_t>(args.live[0], 0, args.count) : args.count;
}

}  // namespace luxel
