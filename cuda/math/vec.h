// Three-vectors and matrices of three rows in registers.
#pragma once

#include "math/hd.h"

namespace luxel {

template <typename T> struct Vec3 {
  T x, y, z;
};

template <typename T> LUXEL_HD Vec3<T> operator+(Vec3<T> a, Vec3<T> b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
template <typename T> LUXEL_HD Vec3<T> operator-(Vec3<T> a, Vec3<T> b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
template <typename T> LUXEL_HD Vec3<T> operator*(T s, Vec3<T> a) { return {s * a.x, s * a.y, s * a.z}; }
template <typename T> LUXEL_HD T dot(Vec3<T> a, Vec3<T> b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
template <typename T> LUXEL_HD Vec3<T> cross(Vec3<T> a, Vec3<T> b) {
  return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}
template <typename T> LUXEL_HD Vec3<T> load3(const T* p) { return {p[0], p[1], p[2]}; }
template <typename T> LUXEL_HD void store3(T* p, Vec3<T> v) {
  p[0] = v.x;
  p[1] = v.y;
  p[2] = v.z;
}

// Loads and stores four numbers; on the GPU one access of floats, which needs a 16-byte aligned address.
template <typename T> LUXEL_HD void load4(const T* p, T* four) {
  for (int i = 0; i < 4; ++i) four[i] = p[i];
}
template <typename T> LUXEL_HD void store4(T* p, const T* four) {
  for (int i = 0; i < 4; ++i) p[i] = four[i];
}
#if defined(__CUDACC__)
LUXEL_HD void load4(const float* p, float* four) {
  const float4 q = *reinterpret_cast<const float4*>(p);
  four[0] = q.x;
  four[1] = q.y;
  four[2] = q.z;
  four[3] = q.w;
}
LUXEL_HD void store4(float* p, const float* four) {
  *reinterpret_cast<float4*>(p) = {four[0], four[1], four[2], four[3]};
}
#endif

// A matrix of three rows. Row: a vector type with +, scaling and dot().
template <typename Row> struct Rows3 {
  Row r0, r1, r2;
};
template <typename T> using Mat3 = Rows3<Vec3<T>>;

template <typename Row> LUXEL_HD Vec3<decltype(Row::x)> mul(const Rows3<Row>& m, Row v) {
  return {dot(m.r0, v), dot(m.r1, v), dot(m.r2, v)};
}
template <typename T, typename Row> LUXEL_HD Row mul_transposed(const Rows3<Row>& m, Vec3<T> v) {
  return v.x * m.r0 + v.y * m.r1 + v.z * m.r2;
}
template <typename T, typename Row> LUXEL_HD Rows3<Row> mul(const Mat3<T>& a, const Rows3<Row>& b) {
  return {mul_transposed(b, a.r0), mul_transposed(b, a.r1), mul_transposed(b, a.r2)};
}
// a^T b
template <typename T, typename Row> LUXEL_HD Rows3<Row> mul_transposed(const Mat3<T>& a, const Rows3<Row>& b) {
  return {a.r0.x * b.r0 + a.r1.x * b.r1 + a.r2.x * b.r2, a.r0.y * b.r0 + a.r1.y * b.r1 + a.r2.y * b.r2,
          a.r0.z * b.r0 + a.r1.z * b.r1 + a.r2.z * b.r2};
}

// v / |v| and its vjp; |v| = 0 gives 0 with gradient 0.
template <typename T> LUXEL_HD Vec3<T> normalized(Vec3<T> v, T& inverse_length) {
  const T square_length = dot(v, v);
  inverse_length = square_length > T(0) ? inverse_root(square_length) : T(0);
  return inverse_length * v;
}
template <typename T> LUXEL_HD Vec3<T> normalized_vjp(Vec3<T> unit, T inverse_length, Vec3<T> g_unit) {
  return inverse_length * (g_unit - dot(g_unit, unit) * unit);
}

// a b - c d without cancellation from rounded products (Kahan): its sign is exact, 0 included.
LUXEL_HD double difference_of_products(double a, double b, double c, double d) {
  const double cd = c * d;
  return fma(a, b, -cd) + fma(-c, d, cd);
}
LUXEL_HD float difference_of_products(float a, float b, float c, float d) {
#if defined(__CUDA_ARCH__)
  const float cd = c * d;
  return fmaf(a, b, -cd) + fmaf(-c, d, cd);
#else
  return static_cast<float>(static_cast<double>(a) * b - static_cast<double>(c) * d);
#endif
}

}  // namespace luxel
