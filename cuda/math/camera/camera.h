// A pinhole camera in registers, with the limits that projection needs.
#pragma once

#include "math/vec.h"

namespace luxel {

template <typename T> struct Pinhole {
  Mat3<T> rotation;  // world to camera
  Vec3<T> translation;
  T fx, fy, cx, cy;
  T width, height;
  T u_min, u_max, v_min, v_max;  // where the EWA Jacobian's x/z and y/z are clamped: 15 % of the view beyond its edge
  T near_plane, far_plane;
};

template <typename T>
LUXEL_HD Pinhole<T> load_pinhole(const T* world_to_cam, const T* intrinsics, int width, int height, float near_plane,
                                 float far_plane) {
  Pinhole<T> cam;
  cam.rotation = {load3(world_to_cam), load3(world_to_cam + 4), load3(world_to_cam + 8)};
  cam.translation = {world_to_cam[3], world_to_cam[7], world_to_cam[11]};
  cam.fx = intrinsics[0];
  cam.fy = intrinsics[1];
  cam.cx = intrinsics[2];
  cam.cy = intrinsics[3];
  cam.width = T(width);
  cam.height = T(height);
  const T margin_x = T(0.15) * cam.width, margin_y = T(0.15) * cam.height;
  const T inverse_fx = inverse(cam.fx), inverse_fy = inverse(cam.fy);
  cam.u_min = (-cam.cx - margin_x) * inverse_fx;
  cam.u_max = (cam.width - cam.cx + margin_x) * inverse_fx;
  cam.v_min = (-cam.cy - margin_y) * inverse_fy;
  cam.v_max = (cam.height - cam.cy + margin_y) * inverse_fy;
  cam.near_plane = T(near_plane);
  cam.far_plane = T(far_plane);
  return cam;
}

// Gradient by a camera's pose, that is by rotation and translation of world_to_cam.
template <typename T> struct PoseGradient {
  Mat3<T> rotation;
  Vec3<T> translation;
  Vec3<T> linear, angular;  // by the velocities of a rolling shutter (math/camera/shutter.h)

  // Adds the gradient that reaches the pose through R point + t, given its gradient g in camera axes.
  LUXEL_HD void add_point(Vec3<T> g, Vec3<T> point) {
    rotation = {rotation.r0 + g.x * point, rotation.r1 + g.y * point, rotation.r2 + g.z * point};
    translation = translation + g;
  }
  // Adds the gradient that reaches the pose through the viewing direction `point - position`, with position = -R^T t; g_seen is
  // the gradient by that difference.
  LUXEL_HD void add_seen(const Pinhole<T>& cam, Vec3<T> g_seen) {
    const Vec3<T> t = cam.translation;
    rotation = {rotation.r0 + t.x * g_seen, rotation.r1 + t.y * g_seen, rotation.r2 + t.z * g_seen};
    translation = translation + mul(cam.rotation, g_seen);
  }
};

}  // namespace luxel
