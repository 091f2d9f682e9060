// A camera with a lens that bends rays: equidistant fisheye or radial and tangential distortion, as in OpenCV and COLMAP, and the
// vjp of the image of a point. Formulas hold up to a limit, up to which they are monotonic. Beyond, positions grow in proportion to the
// angle (fisheye) or to its tangent, so that a sigma point there retains its distance from its Gaussian.
#pragma once

#include "math/camera/camera.h"

namespace luxel {

// What follows the four intrinsics of a camera with a lens, in this order.
enum { kLensModel, kLensK1, kLensK2, kLensK3, kLensK4, kLensP1, kLensP2, kLensLimit };

template <typename T> struct LensCamera : Pinhole<T> {
  bool fisheye;
  T k1, k2, k3, k4;  // fisheye: theta (1 + k1 theta^2 + .. + k4 theta^8); otherwise r (1 + k1 r^2 + k2 r^4 + k3 r^6)
  T p1, p2;          // tangential, not of a fisheye
  T limit;           // largest theta (radians), or r = tan(theta)
};

template <typename T> LUXEL_HD void load_lens(LensCamera<T>& cam, const T* lens) {
  cam.fisheye = lens[kLensModel] != T(0);
  cam.k1 = lens[kLensK1];
  cam.k2 = lens[kLensK2];
  cam.k3 = lens[kLensK3];
  cam.k4 = lens[kLensK4];
  cam.p1 = lens[kLensP1];
  cam.p2 = lens[kLensP2];
  cam.limit = lens[kLensLimit];
}

// The position of a point on the screen, px, and what its vjp needs.
template <typename T> struct LensImage {
  T x, y;         // px
  T u, v;         // the position before focal length and principal point
  T ratio, slope;  // fisheye: u / point.x, and d u / d theta along the radius
  T radius, inverse_square;  // fisheye: distance from the axis; 1 / squared distance from the camera
  T across, down, depth, scale;  // otherwise: x/z, y/z within the limit, z within its bound, and r / limit, at least 1
};

// Depths less than `min_depth` count as that: the image of points next to or behind a lens that is no fisheye.
template <typename T> LUXEL_HD LensImage<T> image_through(const LensCamera<T>& cam, Vec3<T> point, T min_depth) {
  LensImage<T> i = {};
  if (cam.fisheye) {
    const T square_radius = point.x * point.x + point.y * point.y;
    i.radius = root(square_radius);
    i.inverse_square = inverse(square_radius + point.z * point.z);
    const T theta = angle_of(i.radius, point.z), t = smaller(theta, cam.limit), t2 = t * t;
    T distorted = t * (T(1) + t2 * (cam.k1 + t2 * (cam.k2 + t2 * (cam.k3 + t2 * cam.k4))));
    if (theta > cam.limit) {
      i.slope = distorted / cam.limit;
      distorted = i.slope * theta;
    } else {
      i.slope = T(1) + t2 * (3 * cam.k1 + t2 * (5 * cam.k2 + t2 * (7 * cam.k3 + t2 * (9 * cam.k4))));
    }
    i.ratio = i.radius > T(0) ? distorted / i.radius : inverse(point.z);
    i.u = i.ratio * point.x;
    i.v = i.ratio * point.y;
  } else {
    i.depth = larger(point.z, min_depth);
    const T inverse_z = inverse(i.depth), u = point.x * inverse_z, v = point.y * inverse_z;
    const T square_r = u * u + v * v;
    i.scale = square_r > cam.limit * cam.limit ? root(square_r) / cam.limit : T(1);
    const T inward = inverse(i.scale), a = inward * u, b = inward * v, r2 = a * a + b * b;
    const T radial = T(1) + r2 * (cam.k1 + r2 * (cam.k2 + r2 * cam.k3));
    i.across = a;
    i.down = b;
    i.u = i.scale * (a * radial + 2 * cam.p1 * a * b + cam.p2 * (r2 + 2 * a * a));
    i.v = i.scale * (b * radial + cam.p1 * (r2 + 2 * b * b) + 2 * cam.p2 * a * b);
  }
  i.x = cam.fx * i.u + cam.cx;
  i.y = cam.fy * i.v + cam.cy;
  return i;
}
// Returns the gradient by the point, and adds that by min_depth.
template <typename T>
LUXEL_HD Vec3<T> image_through_vjp(const LensCamera<T>& cam, Vec3<T> point, const LensImage<T>& i, T g_x, T g_y, T& g_least) {
  const T g_u = cam.fx * g_x, g_v = cam.fy * g_y;
  if (cam.fisheye) {
    const T g_ratio = g_u * point.x + g_v * point.y;
    const T bend = i.radius > T(0) ? (i.slope * point.z * i.inverse_square - i.ratio) / (i.radius * i.radius) * g_ratio : T(0);
    return {g_u * i.ratio + bend * point.x, g_v * i.ratio + bend * point.y, -i.slope * i.inverse_square * g_ratio};
  }
  const T a = i.across, b = i.down, r2 = a * a + b * b;
  const T radial = T(1) + r2 * (cam.k1 + r2 * (cam.k2 + r2 * cam.k3));
  const T g_radial = 2 * (cam.k1 + r2 * (2 * cam.k2 + r2 * (3 * cam.k3))) * (g_u * a + g_v * b);
  T g_a = g_u * radial + g_radial * a + g_u * (2 * cam.p1 * b + 6 * cam.p2 * a) + g_v * (2 * cam.p1 * a + 2 * cam.p2 * b);
  T g_b = g_v * radial + g_radial * b + g_v * (6 * cam.p1 * b + 2 * cam.p2 * a) + g_u * (2 * cam.p1 * a + 2 * cam.p2 * b);
  if (i.scale > T(1)) {  // u = s D(a, b), with s = r / limit and (a, b) the direction of (x/z, y/z) times the limit
    const T inverse_limit = inverse(cam.limit), e_a = a * inverse_limit, e_b = b * inverse_limit;
    const T along = g_a * e_a + g_b * e_b;
    const T g_scale = (g_u * i.u + g_v * i.v) * inverse_limit * inverse(i.scale);
    g_a += (g_scale - along) * e_a;
    g_b += (g_scale - along) * e_b;
  }
  const T inverse_z = inverse(i.depth);
  const T g_depth = -inverse_z * i.scale * (g_a * a + g_b * b);
  const bool free = i.depth == point.z;
  if (!free) g_least += g_depth;
  return {g_a * inverse_z, g_b * inverse_z, free ? g_depth : T(0)};
}

// By what splats are sorted: the distance of a fisheye, otherwise z.
template <typename T> LUXEL_HD T depth_of(const Pinhole<T>&, Vec3<T> point) { return point.z; }
template <typename T> LUXEL_HD T depth_of(const LensCamera<T>& cam, Vec3<T> point) {
  return cam.fisheye ? root(dot(point, point)) : point.z;
}
template <typename T> LUXEL_HD Vec3<T> depth_of_vjp(const LensCamera<T>& cam, Vec3<T> point, T g_depth) {
  if (!cam.fisheye) return {T(0), T(0), g_depth};
  return (g_depth * inverse_root(dot(point, point))) * point;
}

// Whether a point in camera axes is between near and far plane and within the limit of the lens; false for NaN.
template <typename T> LUXEL_HD bool in_range(const Pinhole<T>& cam, Vec3<T> point) {
  return point.z > cam.near_plane && point.z < cam.far_plane;
}
template <typename T> LUXEL_HD bool in_range(const LensCamera<T>& cam, Vec3<T> point) {
  const T depth = depth_of(cam, point);
  if (!(depth > cam.near_plane && depth < cam.far_plane)) return false;
  const T square_radius = point.x * point.x + point.y * point.y;
  return cam.fisheye ? angle_of(root(square_radius), point.z) < cam.limit : square_radius < square(cam.limit * point.z);
}

}  // namespace luxel
