// The colour of a primitive as a camera sees it, by the direction to its centre, and the vjp of that.
#pragma once

#include "../math/sh.h"
#include "stage.h"

namespace luxel {

// Coefficients above degree 0 that are evaluated, of those that are stored.
LUXEL_HD int sh_terms(int degree, int stride) { return smaller((degree + 1) * (degree + 1) - 1, stride); }

// The coefficients of one primitive, wherever they are at hand.
template <typename T> struct ShRow {
  const T *dc, *rest;
  int degree, terms;
};

// visit(0) .. visit(terms - 1) for the numbers of terms that there are, 0 3 8 15: a branch per degree, not per term.
template <typename Visit> LUXEL_HD void for_terms(int terms, Visit visit) {
  if (terms < 3) return;
LUXEL_UNROLL
  for (int k = 0; k < 3; ++k) visit(k);
  if (terms < 8) return;
LUXEL_UNROLL
  for (int k = 3; k < 8; ++k) visit(k);
  if (terms < 15) return;
LUXEL_UNROLL
  for (int k = 8; k < 15; ++k) visit(k);
}

// Unclamped colour seen along the unit direction; basis is left filled for the vjp.
template <typename T> LUXEL_HD Vec3<T> sh_colour(const ShRow<T>& sh, Vec3<T> direction, T* basis) {
  Vec3<T> rgb = sh_c0<T>() * load3(sh.dc) + Vec3<T>{T(0.5), T(0.5), T(0.5)};
  if (sh.terms == 0) return rgb;
  sh_basis(sh.degree, direction, basis);
  for_terms(sh.terms, [&](int k) { rgb = rgb + basis[k] * load3(sh.rest + 3 * k); });
  return rgb;
}

// Unclamped colour of a primitive centred at `centre`.
template <typename T> LUXEL_HD Vec3<T> colour_seen(const Pinhole<T>& cam, const ShRow<T>& sh, Vec3<T> centre) {
  T inverse_length, basis[15] = {};
  return sh_colour(sh, normalized(centre - camera_position(cam), inverse_length), basis);
}
template <typename T> LUXEL_HD void store_colour(Vec3<T> rgb, T* value) {
  store3(value, Vec3<T>{larger(rgb.x, T(0)), larger(rgb.y, T(0)), larger(rgb.z, T(0))});
}

// The gradient of the centre through the direction in which the colour is seen. Adds to g_dc; g_rest, the gradient of
// sh.rest, is added to or (kAdd false) overwritten up to the active terms, and may then be the same memory.
template <bool kAdd, typename T>
LUXEL_HD Vec3<T> colour_vjp(const Pinhole<T>& cam, const ShRow<T>& sh, Vec3<T> centre, const T* g_value, Vec3<T>& g_dc,
                            T* g_rest) {
  T inverse_length, basis[15] = {};
  const Vec3<T> direction = normalized(centre - camera_position(cam), inverse_length);
  const Vec3<T> rgb = sh_colour(sh, direction, basis);
  const Vec3<T> g_rgb = {rgb.x > T(0) ? g_value[0] : T(0), rgb.y > T(0) ? g_value[1] : T(0),
                         rgb.z > T(0) ? g_value[2] : T(0)};
  g_dc = g_dc + sh_c0<T>() * g_rgb;
  if (sh.terms == 0) return {T(0), T(0), T(0)};
  T g_basis[15] = {};
  for_terms(sh.terms, [&](int k) {
    g_basis[k] = dot(g_rgb, load3(sh.rest + 3 * k));
    const Vec3<T> g = basis[k] * g_rgb;
    store3(g_rest + 3 * k, kAdd ? load3(g_rest + 3 * k) + g : g);
  });
  return normalized_vjp(direction, inverse_length, sh_basis_vjp(sh.degree, direction, g_basis));
}

// The camera's position -R^T t moves against the centre: adds what its gradient is by rotation and translation.
template <typename T>
LUXEL_HD void seen_from_vjp(const Pinhole<T>& cam, Vec3<T> g_centre, Mat3<T>& g_rotation, Vec3<T>& g_translation) {
  const Vec3<T> t = cam.translation;
  g_rotation = {g_rotation.r0 + t.x * g_centre, g_rotation.r1 + t.y * g_centre, g_rotation.r2 + t.z * g_centre};
  g_translation = g_translation + mul(cam.rotation, g_centre);
}

}  // namespace luxel
