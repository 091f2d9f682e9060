// What lets one header serve g++ and nvcc: decorations, and the few functions that differ between them.
#pragma once

#include <cmath>
#include <cstdint>

#if defined(__CUDACC__)
#define LUXEL_HD __host__ __device__ __forceinline__
#define LUXEL_UNROLL _Pragma("unroll")
#else
#define LUXEL_HD inline __attribute__((always_inline))
#define LUXEL_UNROLL
#endif

namespace luxel {

template <typename T> LUXEL_HD T square(T x) { return x * x; }
template <typename T> LUXEL_HD T smaller(T a, T b) { return a < b ? a : b; }
template <typename T> LUXEL_HD T larger(T a, T b) { return a > b ? a : b; }
template <typename T> LUXEL_HD T clamp(T x, T lo, T hi) { return x < lo ? lo : (x > hi ? hi : x); }
template <typename T> LUXEL_HD bool finite(T x) { return x - x == T(0); }  // false for NaN and infinities

LUXEL_HD float root(float x) { return sqrtf(x); }
LUXEL_HD double root(double x) { return sqrt(x); }
LUXEL_HD float floor_of(float x) { return floorf(x); }
LUXEL_HD double floor_of(double x) { return floor(x); }
LUXEL_HD float ceil_of(float x) { return ceilf(x); }
LUXEL_HD double ceil_of(double x) { return ceil(x); }
LUXEL_HD float log_of(float x) { return logf(x); }
LUXEL_HD double log_of(double x) { return log(x); }

// exp: on the GPU the hardware's; on the CPU a polynomial that the compiler can vectorise (relative error
// 2e-7 over [-87, 88], inputs below flush to e^-87). Double keeps the library's function.
LUXEL_HD double exp_of(double x) { return exp(x); }
LUXEL_HD float exp_of(float x) {
#if defined(__CUDA_ARCH__)
  return __expf(x);
#else
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  const float shifted = x * 1.44269504088896341f + 12582912.0f;  // 1.5 * 2^23: the low bits hold round(x / ln 2)
  const float n = shifted - 12582912.0f;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  int32_t bits;
  __builtin_memcpy(&bits, &shifted, sizeof bits);
  bits = (bits - 0x4B400000 + 127) << 23;
  float scale;
  __builtin_memcpy(&scale, &bits, sizeof scale);
  return p * scale;
#endif
}

// Accurate exp for once-per-primitive work (scales, sigmoid), where the hardware's approximation would show.
LUXEL_HD double exp_exact(double x) { return exp(x); }
LUXEL_HD float exp_exact(float x) { return expf(x); }
template <typename T> LUXEL_HD T sigmoid(T x) { return T(1) / (T(1) + exp_exact(-x)); }

}  // namespace luxel
