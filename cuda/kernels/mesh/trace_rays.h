// The rays of the stage trace_rays, one or a vector of them; the loops around it are in the .cpp and .cu of the same name.
#pragma once

#include "abi/mesh.h"
#include "math/mesh/ray_tracing.h"
#include "kernels/error.h"
#include "kernels/arguments.h"

namespace luxel {

inline int check(const luxel_trace_rays_args& args) {
  if (args.depth < 1 || args.depth > kDeepestTree) return fail("trace_rays: a tree of depth %d", args.depth);
  if (!args.rays && (args.width < 1 || args.count % args.width != 0)) {
    return fail("trace_rays: a camera of %d columns for %lld rays", args.width, static_cast<long long>(args.count));
  }
  return 0;
}

// The ray through the centre of a pixel of the camera; its direction has the length 1 along the optical axis.
template <typename T, typename R>
LUXEL_HD void pixel_ray(const luxel_trace_rays_args& args, R column, R row, Vec3<R>& origin, Vec3<R>& direction) {
  const T* pose = in<T>(args.cam_to_world);
  const T* lens = in<T>(args.intrinsics);
  const R x = (column + T(0.5) - lens[2]) / lens[0], y = (row + T(0.5) - lens[3]) / lens[1];
  const R zero = R{};
  origin = {zero + pose[3], zero + pose[7], zero + pose[11]};
  direction = {pose[0] * x + pose[1] * y + pose[2], pose[4] * x + pose[5] * y + pose[6], pose[8] * x + pose[9] * y + pose[10]};
}

template <typename T, typename R>
LUXEL_HD FirstHits<R> trace(const luxel_trace_rays_args& args, Vec3<R> origin, Vec3<R> direction) {
  const TriangleTree<T> tree = {in<T>(args.boxes), in<T>(args.triangles), nullptr, args.depth, args.leaf};
  return first_hits(tree, prepare_rays(tree, origin, direction), R{} + T(args.near_t), R{} + T(args.far_t));
}

template <typename T>
LUXEL_HD void store_hit(const luxel_trace_rays_args& args, int64_t n, int64_t slot, T t, T b, T c, T turn) {
  const bool met = slot >= 0;
  args.face[n] = met ? args.numbers[slot] : -1;
  out<T>(args.t)[n] = met ? t : T(0);
  out<T>(args.weights)[2 * n] = b;
  out<T>(args.weights)[2 * n + 1] = c;
  args.front[n] = met && turn > T(0);
}

}  // namespace luxel
