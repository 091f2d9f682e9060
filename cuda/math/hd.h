// Base of all headers that g++, nvcc and NVRTC compile: function attributes, integer types, and functions that differ between host and
// device. The headers of math need no other folder, and no standard library where the compiler is NVRTC, which has none.
#pragma once

#if !defined(__CUDACC_RTC__)
#include <cmath>
#include <cstdint>
#endif

#if defined(__CUDACC__)
#define LUXEL_HD __host__ __device__ __forceinline__
#define LUXEL_UNROLL _Pragma("unroll")
#else
#define LUXEL_HD inline __attribute__((always_inline))
#define LUXEL_UNROLL
#endif

namespace luxel {

#if defined(__CUDACC_RTC__)
using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long long;
using uint64_t = unsigned long long;
#endif

// Of float and double: infinity, the distance from 1 to the next larger number, and the smallest normal number.
template <typename T> LUXEL_HD T infinity() {
#if defined(__CUDACC_RTC__)
  return T(__int_as_float(0x7f800000));
#else
  return T(INFINITY);
#endif
}
template <typename T> LUXEL_HD constexpr T machine_epsilon() { return sizeof(T) == sizeof(float) ? T(0x1p-23) : T(0x1p-52); }
template <typename T> LUXEL_HD constexpr T smallest_normal() { return sizeof(T) == sizeof(float) ? T(0x1p-126) : T(0x1p-1022); }

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
// The angle of (x, y) to the x axis.
LUXEL_HD float angle_of(float y, float x) { return atan2f(y, x); }
LUXEL_HD double angle_of(double y, double x) { return atan2(y, x); }
LUXEL_HD float log_of(float x) { return logf(x); }
LUXEL_HD double log_of(double x) { return log(x); }
LUXEL_HD float log1p_of(float x) { return log1pf(x); }
LUXEL_HD double log1p_of(double x) { return log1p(x); }
LUXEL_HD float expm1_of(float x) { return expm1f(x); }
LUXEL_HD double expm1_of(double x) { return expm1(x); }
LUXEL_HD float cos_of(float x) { return cosf(x); }
LUXEL_HD double cos_of(double x) { return cos(x); }
LUXEL_HD float sin_of(float x) { return sinf(x); }
LUXEL_HD double sin_of(double x) { return sin(x); }
LUXEL_HD double power_of(double x, double exponent) { return pow(x, exponent); }

// a b + c; on the GPU in one rounding, so that forward and backward kernels agree to the bit.
LUXEL_HD double fused(double a, double b, double c) { return a * b + c; }
LUXEL_HD float fused(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

// 2^x, evaluated per pixel and primitive; on the GPU the hardware's approximation. Vectors for the CPU are in simd.h.
LUXEL_HD double exp2_of(double x) { return exp2(x); }
LUXEL_HD float exp2_of(float x) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return exp2f(x);
#endif
}

// ln(1 + m) for m in [sqrt(1/2) - 1, sqrt(2) - 1] with an error of 1e-7. V: float or a vector of it.
template <typename V> LUXEL_HD V log_of_one_plus(V m) {
  V p = m * 7.0376836292e-2f - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  const V square = m * m;
  return m + (p * m * square - 0.5f * square);
}

// log2 x, evaluated per primitive and tile, for some policies per pixel; on the GPU the hardware's approximation.
LUXEL_HD double log2_of(double x) { return log2(x); }
LUXEL_HD float log2_of(float x) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return log2f(x);
#endif
}

// Accurate exp for values computed once per primitive (scales, sigmoid).
LUXEL_HD double exp_exact(double x) { return exp(x); }
LUXEL_HD float exp_exact(float x) { return expf(x); }

// 1 / x and 1 / sqrt(x); on the GPU one instruction each, within 1 and 2 units in the last place. For x that are not
// subnormal.
LUXEL_HD double inverse(double x) { return 1.0 / x; }
LUXEL_HD double inverse_root(double x) { return 1.0 / sqrt(x); }
LUXEL_HD float inverse(float x) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return 1.0f / x;
#endif
}
LUXEL_HD float inverse_root(float x) {
#if defined(__CUDA_ARCH__)
  return rsqrtf(x);
#else
  return 1.0f / sqrtf(x);
#endif
}
template <typename T> LUXEL_HD T sigmoid(T x) { return inverse(T(1) + exp_exact(-x)); }

}  // namespace luxel
