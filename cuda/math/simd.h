// SIMD vectors of the compilation target's width, by the compiler's vector extension. CPU only.
#pragma once

#include "math/hd.h"

#include <cstring>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace luxel {

#if defined(__AVX__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

template <typename T> struct Simd;
template <> struct Simd<float> {
  typedef float Vector __attribute__((vector_size(kVectorBytes)));
  typedef int32_t Mask __attribute__((vector_size(kVectorBytes)));
};
template <> struct Simd<double> {
  typedef double Vector __attribute__((vector_size(kVectorBytes)));
  typedef int64_t Mask __attribute__((vector_size(kVectorBytes)));
};
template <typename T> using Vector = typename Simd<T>::Vector;
template <typename T> using Mask = typename Simd<T>::Mask;
template <typename T> constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));

template <typename T> LUXEL_HD Vector<T> load_vector(const T* p) {
  Vector<T> v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <typename T> LUXEL_HD void store_vector(T* p, Vector<T> v) { std::memcpy(p, &v, sizeof v); }

template <typename T> LUXEL_HD Vector<T> broadcast(T x) { return x - Vector<T>{}; }
template <typename T> LUXEL_HD Vector<T> lane_numbers() {
  Vector<T> v;
  for (int i = 0; i < kLanes<T>; ++i) v[i] = static_cast<T>(i);
  return v;
}
template <typename T> LUXEL_HD T sum_lanes(Vector<T> v) {
  alignas(kVectorBytes) T lanes[kLanes<T>];
  std::memcpy(lanes, &v, sizeof v);
  for (int width = kLanes<T> / 2; width >= 1; width /= 2)
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  return lanes[0];
}
#if defined(__AVX__)
template <> LUXEL_HD float sum_lanes<float>(Vector<float> v) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
#endif
template <typename T> LUXEL_HD bool any_lane(Mask<T> mask) {
#if defined(__AVX__)
  __m256i bits;
  std::memcpy(&bits, &mask, sizeof mask);
  return !_mm256_testz_si256(bits, bits);
#else
  int64_t words[kVectorBytes / 8], seen = 0;
  std::memcpy(words, &mask, sizeof mask);
  for (const int64_t word : words) seen |= word;
  return seen != 0;
#endif
}

// Per lane, b where either is NaN: one instruction on x86.
template <typename V> LUXEL_HD V larger_lanes(V a, V b) { return a > b ? a : b; }
template <typename V> LUXEL_HD V smaller_lanes(V a, V b) { return a < b ? a : b; }
#if defined(__AVX__)
LUXEL_HD Vector<float> larger_lanes(Vector<float> a, Vector<float> b) { return _mm256_max_ps(a, b); }
LUXEL_HD Vector<float> smaller_lanes(Vector<float> a, Vector<float> b) { return _mm256_min_ps(a, b); }
#elif defined(__SSE2__)
LUXEL_HD Vector<float> larger_lanes(Vector<float> a, Vector<float> b) { return _mm_max_ps(a, b); }
LUXEL_HD Vector<float> smaller_lanes(Vector<float> a, Vector<float> b) { return _mm_min_ps(a, b); }
#endif

// The pixel-wise functions that policies use (hd.h), for vectors: a b + c; 2^x with a relative error of 2e-7 over
// [-125, 126], beyond which x is clamped; and log2 x with an error of 1e-7, for normal x > 0.
LUXEL_HD Vector<double> fused(Vector<double> a, Vector<double> b, Vector<double> c) { return a * b + c; }
LUXEL_HD Vector<float> fused(Vector<float> a, Vector<float> b, Vector<float> c) { return a * b + c; }
LUXEL_HD Vector<double> exp2_of(Vector<double> x) {
  for (int i = 0; i < kLanes<double>; ++i) x[i] = exp2(x[i]);
  return x;
}
LUXEL_HD Vector<float> exp2_of(Vector<float> x) {
  x = smaller_lanes(larger_lanes(x, broadcast(-125.0f)), broadcast(126.0f));  // NaN becomes -125
  const Vector<float> shifted = x + 12583039.0f;  // 1.5 * 2^23 + 127: the low bits hold round(x) + 127
  const Vector<float> r = x - (shifted - 12583039.0f);
  Vector<float> p = r * 1.3264726967e-3f + 9.6715126104e-3f;  // minimax over [-1/2, 1/2]
  p = p * r + 5.5507337430e-2f;
  p = p * r + 0.24022242086f;
  p = p * r + 0.69314697760f;
  p = p * r + 1.0f;
  Mask<float> bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits <<= 23;
  Vector<float> scale;
  std::memcpy(&scale, &bits, sizeof scale);
  return p * scale;
}

LUXEL_HD Vector<double> log2_of(Vector<double> x) {
  for (int i = 0; i < kLanes<double>; ++i) x[i] = log2(x[i]);
  return x;
}
LUXEL_HD Vector<float> log2_of(Vector<float> x) {
  Mask<float> bits;
  std::memcpy(&bits, &x, sizeof bits);
  const Mask<float> exponent = (bits - 0x3F3504F3) >> 23;  // so that 2^-exponent x lies in [sqrt(1/2), sqrt(2))
  bits -= exponent << 23;
  Vector<float> m;
  std::memcpy(&m, &bits, sizeof m);
  m -= 1.0f;
  return log_of_one_plus(m) * 1.44269504f + __builtin_convertvector(exponent, Vector<float>);
}

}  // namespace luxel
