// The values (colour, depth, normal) of a primitive for one camera, with a colour in spherical harmonics, and the vjp of the
// colour.
#pragma once

#include "math/raster/sh.h"
#include "kernels/raster/stage.h"

namespace luxel {

LUXEL_HD int value_channels(int with_depth, int with_normals) { return 3 + (with_depth ? 1 : 0) + (with_normals ? 3 : 0); }

// Number of coefficients above degree 0 to evaluate.
LUXEL_HD int sh_terms(int degree, int stride) { return smaller((degree + 1) * (degree + 1) - 1, stride); }

// Calls visit(0) .. visit(terms - 1), with terms of 0, 3, 8 or 15: a branch per degree, not per term.
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

// Args: the argument struct of a projection stage.
template <typename Args> LUXEL_HD int sh_terms(const Args& args) {
  return sh_terms(args.projection.sh_degree, args.projection.sh_stride);
}

// Pointers to the coefficients of one primitive, in global or shared memory.
template <typename T> struct ShView {
  const T *sh_dc, *sh_rest;  // [3], [stride,3]
  int stride, degree;        // stored above degree 0; to evaluate
};

template <typename T, typename Args, template <typename> typename Row>
LUXEL_HD ShView<T> sh_view(const Args& args, const Row<T>& row) {
  return {row.sh_dc, row.sh_rest, args.projection.sh_stride, args.projection.sh_degree};
}

// Colour along the unit direction, before clamping; basis is stored for the vjp.
template <typename T> LUXEL_HD Vec3<T> sh_colour(const ShView<T>& sh, Vec3<T> direction, T* basis) {
  const int terms = sh_terms(sh.degree, sh.stride);
  Vec3<T> rgb = sh_c0<T>() * load3(sh.sh_dc) + Vec3<T>{T(0.5), T(0.5), T(0.5)};
  if (terms == 0) return rgb;
  sh_basis(sh.degree, direction, basis);
  for_terms(terms, [&](int k) { rgb = rgb + basis[k] * load3(sh.sh_rest + 3 * k); });
  return rgb;
}

// The colour of a primitive at `mean` as viewed from the camera.
template <typename T> LUXEL_HD Vec3<T> seen_colour(const ShView<T>& sh, const Pinhole<T>& cam, Vec3<T> mean) {
  T inverse_length, basis[15] = {};
  return sh_colour(sh, normalized(mean - camera_position(cam), inverse_length), basis);
}

// Returns the gradient by the mean through the viewing direction. Adds to g_dc; g_rest, the gradient by sh.sh_rest, is added to or
// (kAdd false) overwritten up to the active terms, and may then be the memory of sh.sh_rest.
template <bool kAdd, typename T>
LUXEL_HD Vec3<T> seen_colour_vjp(const ShView<T>& sh, const Pinhole<T>& cam, Vec3<T> mean, const T* g_value, Vec3<T>& g_dc,
                                 T* g_rest) {
  T inverse_length, basis[15] = {};
  const Vec3<T> direction = normalized(mean - camera_position(cam), inverse_length);
  const Vec3<T> rgb = sh_colour(sh, direction, basis);
  const Vec3<T> g_rgb = {rgb.x > T(0) ? g_value[0] : T(0), rgb.y > T(0) ? g_value[1] : T(0),
                         rgb.z > T(0) ? g_value[2] : T(0)};
  g_dc = g_dc + sh_c0<T>() * g_rgb;
  const int terms = sh_terms(sh.degree, sh.stride);
  if (terms == 0) return {T(0), T(0), T(0)};
  T g_basis[15] = {};
  for_terms(terms, [&](int k) {
    g_basis[k] = dot(g_rgb, load3(sh.sh_rest + 3 * k));
    const Vec3<T> g = basis[k] * g_rgb;
    store3(g_rest + 3 * k, kAdd ? load3(g_rest + 3 * k) + g : g);
  });
  return normalized_vjp(direction, inverse_length, sh_basis_vjp(sh.degree, direction, g_basis));
}

// Writes the values of a primitive: its colour, then depth and normal if enabled.
template <typename T>
LUXEL_HD void store_values(T* value, Vec3<T> rgb, int with_depth, T depth, int with_normals, Vec3<T> normal) {
  store3(value, Vec3<T>{larger(rgb.x, T(0)), larger(rgb.y, T(0)), larger(rgb.z, T(0))});
  value += 3;
  if (with_depth) *value++ = depth;
  if (with_normals) store3(value, normal);
}

}  // namespace luxel
