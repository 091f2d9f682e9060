// Distances to triangle meshes: the nearest point of a triangle, a tree of boxes over triangles, and inside tests.
#pragma once

#include "math/vec.h"

namespace luxel {

// The part of a triangle that is nearest: its face, one of its edges ab, bc, ca, or one of its corners a, b, c.
enum Feature { kFace = 0, kEdgeAb = 1, kEdgeBc = 2, kEdgeCa = 3, kCornerA = 4, kCornerB = 5, kCornerC = 6 };
constexpr int kFeatures = 7;

template <typename T> struct OnTriangle {
  Vec3<T> point;
  int feature;
};

// The point at part / whole of the way from a to b; a if the edge has no length.
template <typename T> LUXEL_HD Vec3<T> along(Vec3<T> a, Vec3<T> b, T part, T whole) {
  return a + (whole > T(0) ? part / whole : T(0)) * (b - a);
}

// The nearest point of a triangle by the Voronoi regions of its features (Ericson 2004, "Real-Time Collision Detection",
// 5.1.5). Degenerate triangles are handled as their edges.
template <typename T> LUXEL_HD OnTriangle<T> nearest_on_triangle(Vec3<T> p, Vec3<T> a, Vec3<T> b, Vec3<T> c) {
  const Vec3<T> ab = b - a, ac = c - a, ap = p - a, bp = p - b, cp = p - c;
  const T d1 = dot(ab, ap), d2 = dot(ac, ap);
  if (d1 <= T(0) && d2 <= T(0)) return {a, kCornerA};
  const T d3 = dot(ab, bp), d4 = dot(ac, bp);
  if (d3 >= T(0) && d4 <= d3) return {b, kCornerB};
  const T d5 = dot(ab, cp), d6 = dot(ac, cp);
  if (d6 >= T(0) && d5 <= d6) return {c, kCornerC};
  const T vc = d1 * d4 - d3 * d2;
  if (vc <= T(0) && d1 >= T(0) && d3 <= T(0)) return {along(a, b, d1, d1 - d3), kEdgeAb};
  const T vb = d5 * d2 - d1 * d6;
  if (vb <= T(0) && d2 >= T(0) && d6 <= T(0)) return {along(a, c, d2, d2 - d6), kEdgeCa};
  const T va = d3 * d6 - d5 * d4;
  if (va <= T(0) && d4 - d3 >= T(0) && d5 - d6 >= T(0)) return {along(b, c, d4 - d3, (d4 - d3) + (d5 - d6)), kEdgeBc};
  const T whole = va + vb + vc;
  if (!(whole > T(0))) return {a, kCornerA};
  return {a + (vb / whole) * ab + (vc / whole) * ac, kFace};
}

constexpr int kDeepestTree = 27;

// A complete binary tree of boxes: node n has the children 2n + 1 and 2n + 2, inner nodes come first, and leaf k holds the
// rows [k leaf, (k + 1) leaf) of triangles, NaN where unused.
template <typename T> struct TriangleTree {
  const T* boxes;          // [inner nodes, 2, 6] boxes of both children: low x y z, high x y z
  const T* triangles;      // [leaves * leaf, 9]
  const T* pseudonormals;  // [leaves * leaf, kFeatures, 3]
  int depth, leaf;

  LUXEL_HD int inner() const { return (1 << depth) - 1; }
};

// Squared distance of a point from a box.
template <typename T> LUXEL_HD T square_gap(Vec3<T> p, const T* box) {
  const T x = larger(larger(box[0] - p.x, p.x - box[3]), T(0));
  const T y = larger(larger(box[1] - p.y, p.y - box[4]), T(0));
  const T z = larger(larger(box[2] - p.z, p.z - box[5]), T(0));
  return x * x + y * y + z * z;
}

template <typename T> LUXEL_HD void load_children(const TriangleTree<T>& tree, int node, T* twelve) {
  const T* row = tree.boxes + static_cast<int64_t>(node) * 12;
  load4(row, twelve);
  load4(row + 4, twelve + 4);
  load4(row + 8, twelve + 8);
}

template <typename T> struct Triangle {
  Vec3<T> a, b, c;
};
template <typename T> LUXEL_HD Triangle<T> load_triangle(const TriangleTree<T>& tree, int64_t slot) {
  const T* nine = tree.triangles + slot * 9;
  return {load3(nine), load3(nine + 3), load3(nine + 6)};
}

// Index of the nearest triangle, by branch and bound, nearer boxes first; -1 if p is not finite.
template <typename T> LUXEL_HD int64_t nearest_triangle(const TriangleTree<T>& tree, Vec3<T> p) {
  T waiting[kDeepestTree];
  int nodes[kDeepestTree];
  int top = 0, node = 0;
  const int inner = tree.inner();
  T best = infinity<T>();
  int64_t slot = -1;
  for (;;) {
    if (node < inner) {
      T boxes[12];
      load_children(tree, node, boxes);
      const T left = square_gap(p, boxes), right = square_gap(p, boxes + 6);
      const bool left_first = left <= right;
      const T near = left_first ? left : right, far = left_first ? right : left;
      if (near < best) {
        if (far < best) {
          waiting[top] = far;
          nodes[top++] = 2 * node + (left_first ? 2 : 1);
        }
        node = 2 * node + (left_first ? 1 : 2);
        continue;
      }
    } else {
      const int64_t first = static_cast<int64_t>(node - inner) * tree.leaf;
      for (int i = 0; i < tree.leaf; ++i) {
        const Triangle<T> t = load_triangle(tree, first + i);
        const Vec3<T> away = p - nearest_on_triangle(p, t.a, t.b, t.c).point;
        const T distance = dot(away, away);
        if (distance < best) {
          best = distance;
          slot = first + i;
        }
      }
    }
    do {
      if (top == 0) return slot;
      --top;
    } while (!(waiting[top] < best));
    node = nodes[top];
  }
}

// Whether the ray from p meets a box.
template <typename T> LUXEL_HD bool meets(Vec3<T> p, Vec3<T> inverse_direction, const T* box) {
  const T x0 = (box[0] - p.x) * inverse_direction.x, x1 = (box[3] - p.x) * inverse_direction.x;
  const T y0 = (box[1] - p.y) * inverse_direction.y, y1 = (box[4] - p.y) * inverse_direction.y;
  const T z0 = (box[2] - p.z) * inverse_direction.z, z1 = (box[5] - p.z) * inverse_direction.z;
  const T enter = larger(larger(smaller(x0, x1), smaller(y0, y1)), smaller(z0, z1));
  const T leave = smaller(smaller(larger(x0, x1), larger(y0, y1)), larger(z0, z1));
  const T slack = T(1e-5) * (T(1) + (leave < T(0) ? -leave : leave));  // so that rounding never misses a flat box
  return leave >= -slack && enter <= leave + slack;
}

// Whether the ray from p meets a triangle (Moeller and Trumbore 1997).
template <typename T> LUXEL_HD bool meets(Vec3<T> p, Vec3<T> direction, const Triangle<T>& t) {
  const Vec3<T> ab = t.b - t.a, ac = t.c - t.a, from = p - t.a;
  const Vec3<T> h = cross(direction, ac), q = cross(from, ab);
  const T area = dot(ab, h);
  const T turn = area < T(0) ? T(-1) : T(1);
  const T size = turn * area, u = turn * dot(from, h), v = turn * dot(direction, q), ray_t = turn * dot(ac, q);
  return size > T(0) && u >= T(0) && v >= T(0) && u + v < size && ray_t > T(0);
}

// Whether the ray from p crosses the mesh an odd number of times.
template <typename T> LUXEL_HD bool odd_crossings(const TriangleTree<T>& tree, Vec3<T> p, Vec3<T> direction) {
  int nodes[kDeepestTree];
  int top = 0, node = 0;
  const int inner = tree.inner();
  const Vec3<T> inverse_direction = {T(1) / direction.x, T(1) / direction.y, T(1) / direction.z};
  bool odd = false;
  for (;;) {
    if (node < inner) {
      T boxes[12];
      load_children(tree, node, boxes);
      const bool left = meets(p, inverse_direction, boxes), right = meets(p, inverse_direction, boxes + 6);
      if (left && right) nodes[top++] = 2 * node + 2;
      if (left || right) {
        node = 2 * node + (left ? 1 : 2);
        continue;
      }
    } else {
      const int64_t first = static_cast<int64_t>(node - inner) * tree.leaf;
      for (int i = 0; i < tree.leaf; ++i) {
        if (meets(p, direction, load_triangle(tree, first + i))) odd = !odd;
      }
    }
    if (top == 0) return odd;
    node = nodes[--top];
  }
}

// Inside by the angle-weighted pseudonormal of the nearest feature (Baerentzen and Aanaes 2005); away = p - nearest point.
template <typename T> LUXEL_HD bool inside_by_pseudonormal(const TriangleTree<T>& tree, int64_t slot, int feature, Vec3<T> away) {
  return dot(away, load3(tree.pseudonormals + (slot * kFeatures + feature) * 3)) < T(0);
}

// Inside by the majority of five rays, none of them close to an axis or a diagonal.
template <typename T> LUXEL_HD bool inside_by_parity(const TriangleTree<T>& tree, Vec3<T> p) {
  const T directions[5][3] = {{T(0.5377), T(0.2913), T(0.7912)},
                              {T(-0.8421), T(0.4839), T(0.2383)},
                              {T(0.3171), T(-0.8719), T(0.3732)},
                              {T(-0.2237), T(-0.4171), T(-0.8809)},
                              {T(0.7243), T(0.5519), T(-0.4133)}};
  int votes = 0;
  for (int k = 0; k < 5; ++k) votes += odd_crossings(tree, p, load3(directions[k]));
  return votes >= 3;
}

}  // namespace luxel
