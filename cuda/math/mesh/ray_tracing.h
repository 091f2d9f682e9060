// Rays against the tree of boxes of a triangle mesh: the first triangle that each ray meets.
//
// R is a number, of one ray (GPU), or a vector (simd.h) of rays that walk through the tree together (CPU).
// Watertight: each vertex is projected once along a ray, the same for all its triangles, and the signs of edge functions are
// those of the exact ones of the projected vertices, or 0, which counts as inside (Woop, Benthin and Wald 2013, "Watertight
// Ray/Triangle Intersection"; here with a plane across the ray instead of sheared axes). Products are therefore never fused
// with a difference: see rounded_product.
#pragma once

#include "math/mesh/distance.h"
#if !defined(__CUDACC__)
#include "math/simd.h"
#endif

namespace luxel {

// The number of each ray's vector, and numbers of triangles, one per ray; whether a condition holds for any ray.
template <typename R> struct Lanes {
  using Number = R;
  using Index = int32_t;
};
#if !defined(__CUDACC__)
template <> struct Lanes<Vector<float>> {
  using Number = float;
  using Index = Mask<float>;
};
template <> struct Lanes<Vector<double>> {
  using Number = double;
  using Index = Mask<double>;
};
#endif

LUXEL_HD bool any_of_lanes(bool condition) { return condition; }
#if !defined(__CUDACC__)
LUXEL_HD bool any_of_lanes(Mask<float> condition) { return any_lane<float>(condition); }
LUXEL_HD bool any_of_lanes(Mask<double> condition) { return any_lane<double>(condition); }
#endif

// a b, rounded to its type. On the CPU the files that trace rays are compiled with -ffp-contract=off.
template <typename R> LUXEL_HD R rounded_product(R a, R b) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(R) == sizeof(float)) return __fmul_rn(a, b);
  else return __dmul_rn(a, b);
#else
  return a * b;
#endif
}

template <typename R> struct TracedRays {
  Vec3<R> origin;
  Vec3<R> side, upward;  // unit vectors across the ray: side x upward points along it
  Vec3<R> along;         // direction / |direction|^2
  Vec3<R> inverse;       // 1 / direction
  // The origin plus and minus the length by which boxes are widened, so that rounding never misses a triangle in them.
  Vec3<R> low_origin, high_origin;
};

template <typename R> struct FirstHits {
  R t;  // the last distance that is still wanted where nothing is met
  R b, c;  // barycentric coordinates
  R turn;  // above 0: viewed from the front
  typename Lanes<R>::Index slot;  // row of triangles; -1: none
};

template <typename R> LUXEL_HD R magnitude(R x) { return x < R{} ? -x : x; }
template <typename R> LUXEL_HD R root_of_lanes(R x) { return root(x); }
#if !defined(__CUDACC__)
LUXEL_HD Vector<float> root_of_lanes(Vector<float> x) {
  for (int i = 0; i < kLanes<float>; ++i) x[i] = root(x[i]);
  return x;
}
LUXEL_HD Vector<double> root_of_lanes(Vector<double> x) {
  for (int i = 0; i < kLanes<double>; ++i) x[i] = root(x[i]);
  return x;
}
#endif

// A component of a direction as a divisor: never 0.
template <typename R> LUXEL_HD R away_from_zero(R x) {
  using T = typename Lanes<R>::Number;
  const R tiny = R{} + T(1e-30);
  return magnitude(x) < tiny ? (x < R{} ? -tiny : tiny) : x;
}

// The largest distance, by coordinates, of an origin from a corner of the full mesh.
template <typename T, typename R> LUXEL_HD R reach(const TriangleTree<T>& tree, Vec3<R> origin) {
  T boxes[12];
  load_children(tree, 0, boxes);
  const R from[3] = {origin.x, origin.y, origin.z};
  R out = R{};
  for (int k = 0; k < 3; ++k) {
    const T low = smaller(boxes[k], boxes[k + 6]), high = larger(boxes[k + 3], boxes[k + 9]);
    out = larger(out, larger(from[k] - low, high - from[k]));
  }
  return out;
}

template <typename T, typename R>
LUXEL_HD TracedRays<R> prepare_rays(const TriangleTree<T>& tree, Vec3<R> origin, Vec3<R> direction) {
  TracedRays<R> rays;
  const R one = R{} + T(1), square = dot(direction, direction), length = root_of_lanes(square);
  const Vec3<R> d = (one / length) * direction;
  // An orthonormal basis without branches (Duff et al. 2017, "Building an Orthonormal Basis, Revisited").
  const R sign = d.z < R{} ? -one : one, p = -one / (sign + d.z), q = d.x * d.y * p;
  rays.origin = origin;
  rays.side = {one + sign * d.x * d.x * p, sign * q, -sign * d.x};
  rays.upward = {q, sign + d.y * d.y * p, -d.y};
  rays.along = (one / square) * direction;
  rays.inverse = {one / away_from_zero(direction.x), one / away_from_zero(direction.y), one / away_from_zero(direction.z)};
  const R slack = T(16) * machine_epsilon<T>() * reach(tree, origin);
  rays.low_origin = {origin.x + slack, origin.y + slack, origin.z + slack};
  rays.high_origin = {origin.x - slack, origin.y - slack, origin.z - slack};
  return rays;
}

// Whether rays meet a box between near_t and far_t, and where they enter it.
template <typename T, typename R>
LUXEL_HD auto enter_box(const TracedRays<R>& rays, const T* box, R near_t, R far_t, R& enter) {
  const R x0 = (box[0] - rays.low_origin.x) * rays.inverse.x;
  const R x1 = (box[3] - rays.high_origin.x) * rays.inverse.x;
  const R y0 = (box[1] - rays.low_origin.y) * rays.inverse.y;
  const R y1 = (box[4] - rays.high_origin.y) * rays.inverse.y;
  const R z0 = (box[2] - rays.low_origin.z) * rays.inverse.z;
  const R z1 = (box[5] - rays.high_origin.z) * rays.inverse.z;
  enter = larger(larger(smaller(x0, x1), smaller(y0, y1)), larger(smaller(z0, z1), near_t));
  const R leave = smaller(smaller(larger(x0, x1), larger(y0, y1)), smaller(larger(z0, z1), far_t));
  return enter <= leave;
}

template <typename R> LUXEL_HD R across(Vec3<R> axis, Vec3<R> v) {
  return fused(axis.x, v.x, fused(axis.y, v.y, axis.z * v.z));
}
template <typename R> LUXEL_HD R edge_function(R px, R py, R qx, R qy) {
  return rounded_product(px, qy) - rounded_product(py, qx);
}

// Takes a triangle for the hits of the rays that meet it earlier.
template <typename T, typename R>
LUXEL_HD void take_nearer(const TracedRays<R>& rays, const Triangle<T>& triangle, int32_t slot, R near_t, FirstHits<R>& hits) {
  const Vec3<R> o = rays.origin;
  const Vec3<R> a = {triangle.a.x - o.x, triangle.a.y - o.y, triangle.a.z - o.z};
  const Vec3<R> b = {triangle.b.x - o.x, triangle.b.y - o.y, triangle.b.z - o.z};
  const Vec3<R> c = {triangle.c.x - o.x, triangle.c.y - o.y, triangle.c.z - o.z};
  const R ax = across(rays.side, a), ay = across(rays.upward, a);
  const R bx = across(rays.side, b), by = across(rays.upward, b);
  const R cx = across(rays.side, c), cy = across(rays.upward, c);
  const R u = edge_function(cx, cy, bx, by), v = edge_function(ax, ay, cx, cy), w = edge_function(bx, by, ax, ay);
  const R zero = R{};
  const auto within = ((u >= zero) & (v >= zero) & (w >= zero)) | ((u <= zero) & (v <= zero) & (w <= zero));
  const R whole = u + v + w;
  if (!any_of_lanes(within & (whole != zero))) return;
  const R share = (R{} + T(1)) / whole, of_b = v * share, of_c = w * share;
  const R t = (u * share) * dot(rays.along, a) + of_b * dot(rays.along, b) + of_c * dot(rays.along, c);
  const auto taken = within & (whole != zero) & (t >= near_t) & (t < hits.t);
  hits.t = taken ? t : hits.t;
  hits.b = taken ? of_b : hits.b;
  hits.c = taken ? of_c : hits.c;
  hits.turn = taken ? whole : hits.turn;
  hits.slot = taken ? slot - typename Lanes<R>::Index{} : hits.slot;
}

// The first triangles that rays meet between near_t and far_t; boxes that are entered earlier are searched first.
template <typename T, typename R>
LUXEL_HD FirstHits<R> first_hits(const TriangleTree<T>& tree, const TracedRays<R>& rays, R near_t, R far_t) {
  using Index = typename Lanes<R>::Index;
  R waiting[kDeepestTree];  // where each ray enters the box; infinite where it does not
  int nodes[kDeepestTree];
  int top = 0, node = 0;
  const int inner = tree.inner();
  const R none = R{} + infinity<T>();
  FirstHits<R> hits = {far_t, R{}, R{}, R{}, Index{} - 1};
  for (;;) {
    if (node < inner) {
      T boxes[12];
      load_children(tree, node, boxes);
      R left_t, right_t;
      const auto in_left = enter_box(rays, boxes, near_t, hits.t, left_t);
      const auto in_right = enter_box(rays, boxes + 6, near_t, hits.t, right_t);
      const bool left = any_of_lanes(in_left), right = any_of_lanes(in_right);
      if (left && right) {
        left_t = in_left ? left_t : none;
        right_t = in_right ? right_t : none;
        const bool left_first = any_of_lanes(left_t < right_t);
        waiting[top] = left_first ? right_t : left_t;
        nodes[top++] = 2 * node + (left_first ? 2 : 1);
        node = 2 * node + (left_first ? 1 : 2);
        continue;
      }
      if (left || right) {
        node = 2 * node + (left ? 1 : 2);
        continue;
      }
    } else {
      const int32_t start = (node - inner) * tree.leaf;
      for (int32_t i = start; i < start + tree.leaf; ++i) take_nearer(rays, load_triangle(tree, i), i, near_t, hits);
    }
    do {
      if (top == 0) return hits;
      --top;
    } while (!any_of_lanes((waiting[top] <= hits.t) & (waiting[top] < none)));
    node = nodes[top];
  }
}

}  // namespace luxel
