// Quaternions wxyz: sums and products, and the rotation matrix of a quaternion of any length with its vjp.
#pragma once

#include "math/vec.h"

namespace luxel {

template <typename T> struct Quat {
  T w, x, y, z;
};

template <typename T> LUXEL_HD Quat<T> operator+(Quat<T> a, Quat<T> b) { return {a.w + b.w, a.x + b.x, a.y + b.y, a.z + b.z}; }
template <typename T> LUXEL_HD Quat<T> operator-(Quat<T> a, Quat<T> b) { return {a.w - b.w, a.x - b.x, a.y - b.y, a.z - b.z}; }
template <typename T> LUXEL_HD Quat<T> operator*(T s, Quat<T> a) { return {s * a.w, s * a.x, s * a.y, s * a.z}; }
template <typename T> LUXEL_HD T dot(Quat<T> a, Quat<T> b) { return a.w * b.w + a.x * b.x + a.y * b.y + a.z * b.z; }
template <typename T> LUXEL_HD Quat<T> by_parts(Quat<T> a, Quat<T> b) { return {a.w * b.w, a.x * b.x, a.y * b.y, a.z * b.z}; }
template <typename T> LUXEL_HD Quat<T> conjugate(Quat<T> a) { return {a.w, -a.x, -a.y, -a.z}; }
// Hamilton product; the gradient of <g, a b> is g conj(b) by a, and conj(a) g by b.
template <typename T> LUXEL_HD Quat<T> product(Quat<T> a, Quat<T> b) {
  return {a.w * b.w - a.x * b.x - a.y * b.y - a.z * b.z, a.w * b.x + a.x * b.w + a.y * b.z - a.z * b.y,
          a.w * b.y - a.x * b.z + a.y * b.w + a.z * b.x, a.w * b.z + a.x * b.y - a.y * b.x + a.z * b.w};
}

// q / |q| and its vjp; |q| = 0 gives NaN.
template <typename T> LUXEL_HD Quat<T> normalized(Quat<T> q, T& inverse_norm) {
  inverse_norm = inverse_root(dot(q, q));
  return inverse_norm * q;
}
template <typename T> LUXEL_HD Quat<T> normalized_vjp(Quat<T> unit, T inverse_norm, Quat<T> g_unit) {
  return inverse_norm * (g_unit - dot(g_unit, unit) * unit);
}

template <typename T> LUXEL_HD Mat3<T> quat_to_matrix(const T* raw, Quat<T>& unit, T& inverse_norm) {
  inverse_norm = inverse_root(raw[0] * raw[0] + raw[1] * raw[1] + raw[2] * raw[2] + raw[3] * raw[3]);
  unit = {raw[0] * inverse_norm, raw[1] * inverse_norm, raw[2] * inverse_norm, raw[3] * inverse_norm};
  const T w = unit.w, x = unit.x, y = unit.y, z = unit.z;
  return {{T(1) - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)},
          {2 * (x * y + w * z), T(1) - 2 * (x * x + z * z), 2 * (y * z - w * x)},
          {2 * (x * z - w * y), 2 * (y * z + w * x), T(1) - 2 * (x * x + y * y)}};
}

template <typename T> LUXEL_HD Quat<T> quat_to_matrix_vjp(Quat<T> unit, T inverse_norm, const Mat3<T>& g) {
  const T w = unit.w, x = unit.x, y = unit.y, z = unit.z;
  const T gw = 2 * (x * (g.r2.y - g.r1.z) + y * (g.r0.z - g.r2.x) + z * (g.r1.x - g.r0.y));
  const T gx = 2 * (w * (g.r2.y - g.r1.z) + y * (g.r0.y + g.r1.x) + z * (g.r0.z + g.r2.x) - 2 * x * (g.r1.y + g.r2.z));
  const T gy = 2 * (w * (g.r0.z - g.r2.x) + x * (g.r0.y + g.r1.x) + z * (g.r1.z + g.r2.y) - 2 * y * (g.r0.x + g.r2.z));
  const T gz = 2 * (w * (g.r1.x - g.r0.y) + x * (g.r0.z + g.r2.x) + y * (g.r1.z + g.r2.y) - 2 * z * (g.r0.x + g.r1.y));
  const T along = gw * w + gx * x + gy * y + gz * z;  // the part that normalisation removes
  return {(gw - along * w) * inverse_norm, (gx - along * x) * inverse_norm, (gy - along * y) * inverse_norm,
          (gz - along * z) * inverse_norm};
}

}  // namespace luxel
