// A rolling shutter: rows of an image are exposed one after another while the camera moves, and the hand-written vjp.
//
// A point at m in camera axes at the middle of the readout is at m + tau (linear + angular x m) when its row is read, to first
// order in the motion. tau is the time of the row in readouts, from -1/2 to 1/2; since it depends on where the point is imaged,
// it is a fixed point, which two iterations from tau = 0 approximate: with k the vertical motion of the image in a readout as a
// share of its height, the remaining error of tau is k^2 / 2 and that of the position k^3 / 2 of the height. The shape of a
// Gaussian and its viewing direction are those at the middle of the readout.
#pragma once

#include "math/camera/lens.h"

namespace luxel {

// Numbers of a rolling shutter, in this order: linear (3), angular (3), and the direction of the readout.
enum { kShutterLinear = 0, kShutterAngular = 3, kShutterAcross = 6, kShutterDown = 7 };

// A camera with a rolling shutter; T: its numbers, Base: Pinhole or LensCamera.
template <typename T, template <typename> typename Base> struct Rolling : Base<T> {
  Vec3<T> linear, angular;  // velocities of the points in camera axes: length and radians per readout
  T across, down;           // tau = across (x / width - 1/2) + down (y / height - 1/2), within [-1/2, 1/2]
};
template <typename T> using RollingPinhole = Rolling<T, Pinhole>;
template <typename T> using RollingLens = Rolling<T, LensCamera>;

template <typename T, template <typename> typename Base> LUXEL_HD void load_shutter(Rolling<T, Base>& cam, const T* shutter) {
  cam.linear = load3(shutter + kShutterLinear);
  cam.angular = load3(shutter + kShutterAngular);
  cam.across = shutter[kShutterAcross];
  cam.down = shutter[kShutterDown];
}

// The image of a point, px, and the gradient by the point; `start` is the point that the fixed point begins at.
template <typename T> LUXEL_HD void image_of(const Pinhole<T>& cam, Vec3<T> point, Vec3<T>, T& x, T& y) {
  const T inverse_z = inverse(point.z);
  x = cam.fx * point.x * inverse_z + cam.cx;
  y = cam.fy * point.y * inverse_z + cam.cy;
}
template <typename T>
LUXEL_HD Vec3<T> image_of_vjp(const Pinhole<T>& cam, Vec3<T> point, Vec3<T>, T g_x, T g_y, Vec3<T>&) {
  const T inverse_z = inverse(point.z), g_u = cam.fx * g_x * inverse_z, g_v = cam.fy * g_y * inverse_z;
  return {g_u, g_v, -inverse_z * (g_u * point.x + g_v * point.y)};
}
constexpr double kMinRollingDepth = 0.25;  // of a point behind a radial lens, as a share of that of `start`
template <typename T> LUXEL_HD void image_of(const LensCamera<T>& cam, Vec3<T> point, Vec3<T> start, T& x, T& y) {
  const LensImage<T> image = image_through(cam, point, T(kMinRollingDepth) * start.z);
  x = image.x;
  y = image.y;
}
template <typename T>
LUXEL_HD Vec3<T> image_of_vjp(const LensCamera<T>& cam, Vec3<T> point, Vec3<T> start, T g_x, T g_y, Vec3<T>& g_start) {
  T g_least = T(0);
  const LensImage<T> image = image_through(cam, point, T(kMinRollingDepth) * start.z);
  const Vec3<T> g_point = image_through_vjp(cam, point, image, g_x, g_y, g_least);
  g_start.z += T(kMinRollingDepth) * g_least;
  return g_point;
}

// tau of a point.
template <typename T, template <typename> typename Base>
LUXEL_HD T readout_time(const Rolling<T, Base>& cam, Vec3<T> point, Vec3<T> start) {
  T x, y;
  image_of(cam, point, start, x, y);
  return clamp(cam.across * (x / cam.width - T(0.5)) + cam.down * (y / cam.height - T(0.5)), T(-0.5), T(0.5));
}
template <typename T, template <typename> typename Base>
LUXEL_HD Vec3<T> readout_time_vjp(const Rolling<T, Base>& cam, Vec3<T> point, Vec3<T> start, T tau, T g_tau, Vec3<T>& g_start) {
  if (!(tau > T(-0.5) && tau < T(0.5))) return {T(0), T(0), T(0)};  // clamped
  return image_of_vjp(cam, point, start, g_tau * cam.across / cam.width, g_tau * cam.down / cam.height, g_start);
}

// Moves a point in camera axes to where it is when its row is read. False if it is then out of range. Cameras without a rolling
// shutter leave it as it is.
template <typename T> LUXEL_HD bool roll(const Pinhole<T>&, Vec3<T>&) { return true; }
template <typename T, template <typename> typename Base> LUXEL_HD bool roll(const Rolling<T, Base>& cam, Vec3<T>& point) {
  const Vec3<T> velocity = cam.linear + cross(cam.angular, point);
  const T first = readout_time(cam, point, point);
  const T tau = readout_time(cam, point + first * velocity, point);
  point = point + tau * velocity;
  return in_range(cam, point);
}
// The gradient by the point before, from that by the point after; adds that by the velocities to `pose`.
template <typename T> LUXEL_HD Vec3<T> roll_vjp(const Pinhole<T>&, Vec3<T>, Vec3<T> g, PoseGradient<T>&) { return g; }
template <typename T, template <typename> typename Base>
LUXEL_HD Vec3<T> roll_vjp(const Rolling<T, Base>& cam, Vec3<T> mean, Vec3<T> g, PoseGradient<T>& pose) {
  const Vec3<T> point = mul(cam.rotation, mean) + cam.translation;
  const Vec3<T> velocity = cam.linear + cross(cam.angular, point);
  const T first = readout_time(cam, point, point);
  const Vec3<T> second = point + first * velocity;
  const T tau = readout_time(cam, second, point);
  Vec3<T> g_point = g;
  const Vec3<T> g_second = readout_time_vjp(cam, second, point, tau, dot(g, velocity), g_point);
  const Vec3<T> g_first = readout_time_vjp(cam, point, point, first, dot(g_second, velocity), g_point);
  const Vec3<T> g_velocity = tau * g + first * g_second;
  pose.linear = pose.linear + g_velocity;
  pose.angular = pose.angular + cross(point, g_velocity);
  return g_point + g_second + g_first + cross(g_velocity, cam.angular);
}

}  // namespace luxel
