// A smooth convex projected by a pinhole camera (Held et al. 2025, "3D Convex Splatting"): its points on the screen, their
// convex hull, the bounding box of the pixels that it can reach, and the hand-written vjp.
//
// The hull is found by gift wrapping: from the lowest corner, the next is the point that has all others on its left. It gives
// the polygon of Graham's scan, ties included, without its sort and its stack: all arrays are indexed by constants, so
// that the GPU keeps them in registers.
#pragma once

#include "math/camera/camera.h"
#include "math/raster/convex_bounds.h"

namespace luxel {

template <typename T> struct ConvexProjection {
  Vec3<T> centroid, camera_centroid;  // in the world, in the camera's axes
  T u, v;                             // x/z, y/z of the centroid
  T alpha, mask, opacity;             // sigmoid of opacity_logit and of mask_logit; alpha, or 0 where masked
  T delta, sigma;                     // times depth
  T spread;                           // px, largest distance of a point from the centroid on the screen
  int edges;
  uint32_t order;                                      // index of the point at corner j, four bits each
  T corner_x[kMaxCorners], corner_y[kMaxCorners];  // px, relative to the centroid
};

// The parameters of one convex besides its points and colour.
template <typename T> struct ConvexShape {
  T log_delta, log_sigma, opacity_logit, mask_logit;
};

// The corners of the convex hull of points x, y, by increasing angle about the corner with the smallest y (ties: smallest x).
// Returns their number, below 3 if all points are collinear. Points on an edge and duplicate points are dropped.
template <typename T> LUXEL_HD int hull2d(const T* x, const T* y, int count, T* corner_x, T* corner_y, uint32_t& order) {
  T from_x = x[0], from_y = y[0];
  order = 0;
LUXEL_UNROLL
  for (int k = 1; k < kMaxCorners; ++k) {
    if (k >= count) break;
    if (!(y[k] < from_y || (y[k] == from_y && x[k] < from_x))) continue;
    from_x = x[k];
    from_y = y[k];
    order = k;
  }
  corner_x[0] = from_x;
  corner_y[0] = from_y;
LUXEL_UNROLL
  for (int j = 1; j <= kMaxCorners; ++j) {
    T best_x = T(0), best_y = T(0), at_x = T(0), at_y = T(0);
    int best = -1;
LUXEL_UNROLL
    for (int k = 0; k < kMaxCorners; ++k) {
      if (k >= count) break;
      const T dx = x[k] - from_x, dy = y[k] - from_y;
      const T turn = difference_of_products(best_x, dy, best_y, dx);
      const bool further = turn < T(0) || (turn == T(0) && dx * dx + dy * dy > best_x * best_x + best_y * best_y);
      if ((dx == T(0) && dy == T(0)) || !(best < 0 || further)) continue;
      best = k;
      best_x = dx;
      best_y = dy;
      at_x = x[k];
      at_y = y[k];
    }
    if (best < 0 || (at_x == corner_x[0] && at_y == corner_y[0])) return j;
    if (j >= count) return 0;  // only by rounding: the polygon does not close
    if (j < kMaxCorners) {
      corner_x[j] = from_x = at_x;
      corner_y[j] = from_y = at_y;
      order |= static_cast<uint32_t>(best) << (4 * j);
    }
  }
  return 0;
}

// False if the convex is not visible; every comparison is phrased so that NaN fails it. points [count,3].
template <typename T>
LUXEL_HD bool project_convex(const Pinhole<T>& cam, const T* points, int count, const ConvexShape<T>& shape,
                             ConvexProjection<T>& p) {
  p.centroid = {T(0), T(0), T(0)};
LUXEL_UNROLL
  for (int k = 0; k < kMaxCorners; ++k) {
    if (k >= count) break;
    p.centroid = p.centroid + load3(points + 3 * k);
  }
  p.centroid = (T(1) / T(count)) * p.centroid;
  p.camera_centroid = mul(cam.rotation, p.centroid) + cam.translation;
  const T z = p.camera_centroid.z;
  if (!(z > T(0.2) && z > cam.near_plane && z < cam.far_plane)) return false;
  p.alpha = sigmoid(shape.opacity_logit);
  p.mask = sigmoid(shape.mask_logit);
  p.opacity = p.mask > T(0.01) ? p.alpha : T(0);
  if (!(p.opacity >= T(1.0 / 255.0))) return false;
  p.delta = z * exp_exact(shape.log_delta);
  p.sigma = z * exp_exact(shape.log_sigma);
  if (!finite(p.delta) || !finite(p.sigma)) return false;
  const T inverse_z = inverse(z);
  p.u = p.camera_centroid.x * inverse_z;
  p.v = p.camera_centroid.y * inverse_z;
  if (!finite(cam.fx * p.u + cam.cx) || !finite(cam.fy * p.v + cam.cy)) return false;

  T x[kMaxCorners] = {}, y[kMaxCorners] = {}, farthest = T(0);
  bool sound = true;
LUXEL_UNROLL
  for (int k = 0; k < kMaxCorners; ++k) {
    if (k >= count) break;
    // Computed relative to the centroid, so that precision does not depend on the distance from the camera.
    const Vec3<T> d = mul(cam.rotation, load3(points + 3 * k) - p.centroid);
    const T inverse_depth = inverse(z + d.z);
    x[k] = cam.fx * ((d.x - p.u * d.z) * inverse_depth);
    y[k] = cam.fy * ((d.y - p.v * d.z) * inverse_depth);
    const T distance = x[k] * x[k] + y[k] * y[k];
    sound &= z + d.z > cam.near_plane && distance <= T(1e8);
    farthest = larger(farthest, distance);
  }
  if (!sound) return false;
  p.spread = root(farthest);
  p.edges = hull2d(x, y, count, p.corner_x, p.corner_y, p.order);
  return p.edges >= 3;
}

// Where it can contribute: alpha is below 1/255 wherever an L_j is above reach, and outside of the box.
template <typename T> struct ConvexExtent {
  T reach, low_x, low_y, high_x, high_y;  // px
};

// The bounding box of the polygon {q: L_j(q) <= reach for all j}, by linear programming duality: the intersection q of two edges
// with normals n_i, n_j bounds the polygon along u if u = a n_i + b n_j with a, b >= 0; the tightest such bound is the extreme.
// False if the box lies outside of the image.
template <typename T>
LUXEL_HD bool convex_extent(const Pinhole<T>& cam, const ConvexProjection<T>& p, ConvexExtent<T>& e) {
  e.reach = clamp(log_of(T(255) * p.opacity - T(1)) / (p.delta * p.sigma), T(-1e15), T(1e15));
  if (!finite(e.reach)) return false;
  T nx[kMaxCorners], ny[kMaxCorners], c[kMaxCorners];
LUXEL_UNROLL
  for (int j = 0; j < kMaxCorners; ++j) {
    if (j >= p.edges) break;
    const bool closes = j + 1 >= p.edges;
    const int next = j + 1 < kMaxCorners ? j + 1 : 0;
    const T ax = p.corner_x[j], ay = p.corner_y[j];
    nx[j] = (closes ? p.corner_y[0] : p.corner_y[next]) - ay;
    ny[j] = ax - (closes ? p.corner_x[0] : p.corner_x[next]);
    c[j] = nx[j] * ax + ny[j] * ay + e.reach;
  }
  T left = -infinity<T>(), top = -infinity<T>(), right = infinity<T>(), bottom = infinity<T>();
LUXEL_UNROLL
  for (int i = 0; i < kMaxCorners - 1; ++i) {
    if (i + 1 >= p.edges) break;
LUXEL_UNROLL
    for (int j = i + 1; j < kMaxCorners; ++j) {
      if (j >= p.edges) break;
      const T det = nx[i] * ny[j] - ny[i] * nx[j];
      if (det == T(0)) continue;
      const T scale = T(1) / det, qx = (c[i] * ny[j] - c[j] * ny[i]) * scale, qy = (nx[i] * c[j] - nx[j] * c[i]) * scale;
      const T along_x0 = ny[j] * scale, along_x1 = -ny[i] * scale, along_y0 = -nx[j] * scale, along_y1 = nx[i] * scale;
      if (along_x0 >= T(0) && along_x1 >= T(0)) right = smaller(qx, right);
      if (along_x0 <= T(0) && along_x1 <= T(0)) left = larger(qx, left);
      if (along_y0 >= T(0) && along_y1 >= T(0)) bottom = smaller(qy, bottom);
      if (along_y0 <= T(0) && along_y1 <= T(0)) top = larger(qy, top);
    }
  }
  const T x = cam.fx * p.u + cam.cx, y = cam.fy * p.v + cam.cy;
  e.low_x = x + left;
  e.low_y = y + top;
  e.high_x = x + right;
  e.high_y = y + bottom;
  return e.low_x < cam.width && e.low_y < cam.height && e.high_x > T(0) && e.high_y > T(0);
}

template <typename T> struct ConvexGradient {
  T log_delta, log_sigma, opacity_logit, mask_logit;
  Vec3<T> centroid;
  PoseGradient<T> pose;
};

// Adds to `out`, and calls add(k, gradient by point k) for the corners; the gradient by the centroid is left in `out`, to be
// divided equally among all points. g_corners [edges,2]. The factor z of delta and sigma and the choice of corners have no
// gradient.
template <typename T, typename Add>
LUXEL_HD void project_convex_vjp(const Pinhole<T>& cam, const T* points, const ConvexProjection<T>& p, T g_opacity, T g_delta,
                                 T g_sigma, T g_depth, const T* g_corners, ConvexGradient<T>& out, Add add) {
  out.log_delta += g_delta * p.delta;
  out.log_sigma += g_sigma * p.sigma;
  out.opacity_logit += g_opacity * p.alpha * (T(1) - p.alpha);
  out.mask_logit += g_opacity * p.alpha * p.mask * (T(1) - p.mask);
  out.centroid = out.centroid + g_depth * cam.rotation.r2;
  out.pose.rotation.r2 = out.pose.rotation.r2 + g_depth * p.centroid;
  out.pose.translation.z += g_depth;
LUXEL_UNROLL
  for (int j = 0; j < kMaxCorners; ++j) {
    if (j >= p.edges) break;
    const int k = static_cast<int>(p.order >> (4 * j) & 15);
    const Vec3<T> point = load3(points + 3 * k), local = mul(cam.rotation, point) + cam.translation;
    const T inverse_z = inverse(local.z);
    const T g_x = cam.fx * inverse_z * g_corners[2 * j], g_y = cam.fy * inverse_z * g_corners[2 * j + 1];
    const Vec3<T> g = {g_x, g_y, -inverse_z * (g_x * local.x + g_y * local.y)};
    add(k, mul_transposed(cam.rotation, g));
    out.pose.add_point(g, point);
  }
}

}  // namespace luxel
