// Real spherical harmonics of degree 0 to 3 in the sign convention of 3D Gaussian Splatting (Kerbl et al. 2023), and the vjp of
// a sum of them by the direction. The constant of degree 0 is stored apart from the others.
#pragma once

#include "math/vec.h"

namespace luxel {

template <typename T> LUXEL_HD T sh_c0() { return T(0.28209479177387814); }

// basis[0 .. K-2]: the K - 1 = (degree + 1)^2 - 1 functions of degrees 1 .. `degree` at unit direction d.
template <typename T> LUXEL_HD void sh_basis(int degree, Vec3<T> d, T* basis) {
  if (degree < 1) return;
  const T x = d.x, y = d.y, z = d.z;
  const T c1 = T(0.4886025119029199);
  basis[0] = -c1 * y;
  basis[1] = c1 * z;
  basis[2] = -c1 * x;
  if (degree < 2) return;
  const T xx = x * x, yy = y * y, zz = z * z;
  basis[3] = T(1.0925484305920792) * x * y;
  basis[4] = T(-1.0925484305920792) * y * z;
  basis[5] = T(0.31539156525252005) * (2 * zz - xx - yy);
  basis[6] = T(-1.0925484305920792) * x * z;
  basis[7] = T(0.5462742152960396) * (xx - yy);
  if (degree < 3) return;
  basis[8] = T(-0.5900435899266435) * y * (3 * xx - yy);
  basis[9] = T(2.890611442640554) * x * y * z;
  basis[10] = T(-0.4570457994644658) * y * (4 * zz - xx - yy);
  basis[11] = T(0.3731763325901154) * z * (2 * zz - 3 * xx - 3 * yy);
  basis[12] = T(-0.4570457994644658) * x * (4 * zz - xx - yy);
  basis[13] = T(1.445305721320277) * z * (xx - yy);
  basis[14] = T(-0.5900435899266435) * x * (xx - 3 * yy);
}

// All 16 up to degree 3, the encoding of a direction for networks.
constexpr int kHarmonics = 16;
template <typename T> LUXEL_HD void harmonics_of(Vec3<T> direction, T* to) {
  to[0] = sh_c0<T>();
  sh_basis(3, direction, to + 1);
}

// Gradient by direction, given g[k] = sum over channels of g_rgb * coefficient k.
template <typename T> LUXEL_HD Vec3<T> sh_basis_vjp(int degree, Vec3<T> d, const T* g) {
  Vec3<T> out = {T(0), T(0), T(0)};
  if (degree < 1) return out;
  const T x = d.x, y = d.y, z = d.z;
  const T c1 = T(0.4886025119029199);
  out = {-c1 * g[2], -c1 * g[0], c1 * g[1]};
  if (degree < 2) return out;
  const T a = T(1.0925484305920792), b = T(0.31539156525252005), c = T(0.5462742152960396);
  out.x += a * (y * g[3] - z * g[6]) - 2 * b * x * g[5] + 2 * c * x * g[7];
  out.y += a * (x * g[3] - z * g[4]) - 2 * b * y * g[5] - 2 * c * y * g[7];
  out.z += -a * (y * g[4] + x * g[6]) + 4 * b * z * g[5];
  if (degree < 3) return out;
  const T xx = x * x, yy = y * y, zz = z * z;
  const T p = T(-0.5900435899266435), q = T(2.890611442640554), r = T(-0.4570457994644658);
  const T s = T(0.3731763325901154), t = T(1.445305721320277);
  out.x += p * 6 * x * y * g[8] + q * y * z * g[9] - r * 2 * x * y * g[10] - s * 6 * x * z * g[11] +
           r * (4 * zz - 3 * xx - yy) * g[12] + t * 2 * x * z * g[13] + p * 3 * (xx - yy) * g[14];
  out.y += p * 3 * (xx - yy) * g[8] + q * x * z * g[9] + r * (4 * zz - xx - 3 * yy) * g[10] - s * 6 * y * z * g[11] -
           r * 2 * x * y * g[12] - t * 2 * y * z * g[13] - p * 6 * x * y * g[14];
  out.z += q * x * y * g[9] + r * 8 * y * z * g[10] + s * 3 * (2 * zz - xx - yy) * g[11] + r * 8 * x * z * g[12] +
           t * (xx - yy) * g[13];
  return out;
}

}  // namespace luxel
