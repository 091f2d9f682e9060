// Index of a position along a Hilbert curve through the unit box: neighbours on the curve are neighbours in space, without the
// jumps of a Morton curve. Skilling 2004, "Programming the Hilbert curve": the cell's coordinates to the transpose of its index.
#pragma once

#include "math/hd.h"

namespace luxel {

constexpr int kHilbertBits = 20;  // of a key
constexpr uint32_t kHilbertLast = (1u << kHilbertBits) - 1;
template <int D> constexpr int kHilbertAxisBits = (kHilbertBits + D - 1) / D;

// x is clamped to [0, 1]; the last key if a coordinate is NaN. In 3D each key covers two cells of 2^-7.
template <typename T, int D> LUXEL_HD uint32_t hilbert_key(const T* x) {
  constexpr int kBits = kHilbertAxisBits<D>;
  constexpr uint32_t kCells = 1u << kBits;
  uint32_t at[D];
  bool good = true;
  LUXEL_UNROLL for (int d = 0; d < D; ++d) {
    good = good && x[d] == x[d];
    const T held = x[d] > T(0) ? smaller(x[d], T(1)) : T(0);
    at[d] = smaller(static_cast<uint32_t>(held * T(kCells)), kCells - 1);
  }
  if (!good) return kHilbertLast;
  LUXEL_UNROLL for (uint32_t bit = kCells / 2; bit > 1; bit /= 2) {
    LUXEL_UNROLL for (int d = 0; d < D; ++d) {
      const uint32_t lower = at[d] & bit ? bit - 1 : (at[0] ^ at[d]) & (bit - 1);  // bits to invert, or else to exchange
      if (!(at[d] & bit)) at[d] ^= lower;
      at[0] ^= lower;
    }
  }
  LUXEL_UNROLL for (int d = 1; d < D; ++d) at[d] ^= at[d - 1];  // Gray code
  uint32_t flip = 0;
  LUXEL_UNROLL for (uint32_t bit = kCells / 2; bit > 1; bit /= 2)
    if (at[D - 1] & bit) flip ^= bit - 1;
  uint32_t key = 0;
  LUXEL_UNROLL for (int b = kBits - 1; b >= 0; --b) {
    LUXEL_UNROLL for (int d = 0; d < D; ++d) key = key << 1 | ((at[d] ^ flip) >> b & 1);
  }
  return key >> (D * kBits - kHilbertBits);
}

}  // namespace luxel
