// One point of the stage mesh_distance; the loops around it are in the .cpp and .cu of the same name.
#pragma once

#include "abi/mesh.h"
#include "math/mesh/distance.h"
#include "kernels/error.h"
#include "kernels/arguments.h"

namespace luxel {

inline int check(const luxel_mesh_distance_args& args) {
  if (args.depth < 1 || args.depth > kDeepestTree) return fail("mesh_distance: a tree of depth %d", args.depth);
  if (args.sign == LUXEL_PSEUDONORMAL && !args.pseudonormals) return fail("mesh_distance: no pseudonormals");
  return 0;
}

template <typename T> LUXEL_HD void measure_point(const luxel_mesh_distance_args& args, int64_t n) {
  const TriangleTree<T> tree = {in<T>(args.boxes), in<T>(args.triangles), in<T>(args.pseudonormals), args.depth, args.leaf};
  const Vec3<T> p = load3(in<T>(args.points) + 3 * n);
  const int64_t slot = nearest_triangle(tree, p);
  const T nan = T(NAN);
  Vec3<T> nearest = {nan, nan, nan};
  T distance = nan;
  if (slot >= 0) {
    const Triangle<T> t = load_triangle(tree, slot);
    const OnTriangle<T> closest = nearest_on_triangle(p, t.a, t.b, t.c);
    const Vec3<T> away = p - closest.point;
    nearest = closest.point;
    distance = root(dot(away, away));
    bool inside = false;
    if (args.sign == LUXEL_PSEUDONORMAL) inside = inside_by_pseudonormal(tree, slot, closest.feature, away);
    if (args.sign == LUXEL_PARITY) inside = inside_by_parity(tree, p);
    if (inside) distance = -distance;
  }
  out<T>(args.distance)[n] = distance;
  if (args.nearest) store3(out<T>(args.nearest) + 3 * n, nearest);
}

}  // namespace luxel
