// One camera of the stage view_pose, forward and backward. All arithmetic is double: there are few cameras.
#pragma once

#include "abi/train.h"
#include "math/hd.h"

namespace luxel {

// Rodrigues' formula: the rotation by vector w is I + first [w] + second [w]^2, and the derivatives of both by |w|^2.
struct RotationFactors {
  double first, second, d_first, d_second;
};

LUXEL_HD RotationFactors rotation_factors(const double* w) {
  const double s = w[0] * w[0] + w[1] * w[1] + w[2] * w[2];
  if (s < 1e-4)  // the next terms are below 1e-16
    return {1 - s / 6 * (1 - s / 20 * (1 - s / 42)), 0.5 - s / 24 * (1 - s / 30 * (1 - s / 56)),
            -1.0 / 6 + s / 60 * (1 - s / 28), -1.0 / 24 + s / 360 * (1 - s / 37.333333333333336)};
  const double angle = sqrt(s), sine = sin(angle), cosine = cos(angle);
  return {sine / angle, (1 - cosine) / s, (angle * cosine - sine) / (2 * s * angle), (angle * sine - 2 * (1 - cosine)) / (2 * s * s)};
}

LUXEL_HD void cross_matrix(const double* w, double out[3][3]) {
  const double rows[3][3] = {{0, -w[2], w[1]}, {w[2], 0, -w[0]}, {-w[1], w[0], 0}};
  for (int i = 0; i < 9; ++i) out[i / 3][i % 3] = rows[i / 3][i % 3];
}

LUXEL_HD void product(const double a[3][3], const double b[3][3], double out[3][3]) {
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j) out[i][j] = a[i][0] * b[0][j] + a[i][1] * b[1][j] + a[i][2] * b[2][j];
}

// What forward and backward share: the camera's rotation and new centre, and the rotation by the negative vector.
struct MovedCamera {
  double turn[3][3], centre[3], vector[3], cross[3][3], square[3][3], rotation[3][3];
  RotationFactors factors;
};

template <typename T> LUXEL_HD MovedCamera moved_camera(const luxel_view_pose_args& args, int view) {
  const T* given = static_cast<const T*>(args.world_to_cam) + 16 * static_cast<int64_t>(view);
  const T* parameters = static_cast<const T*>(args.parameters) + 6 * static_cast<int64_t>(view);
  MovedCamera out;
  for (int i = 0; i < 3; ++i) {
    out.vector[i] = -static_cast<double>(parameters[i]);
    for (int j = 0; j < 3; ++j) out.turn[i][j] = given[4 * i + j];
  }
  for (int i = 0; i < 3; ++i) {
    double centre = args.extent * parameters[3 + i];
    for (int j = 0; j < 3; ++j) centre -= out.turn[j][i] * given[4 * j + 3];
    out.centre[i] = centre;
  }
  out.factors = rotation_factors(out.vector);
  cross_matrix(out.vector, out.cross);
  product(out.cross, out.cross, out.square);
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j)
      out.rotation[i][j] = (i == j) + out.factors.first * out.cross[i][j] + out.factors.second * out.square[i][j];
  return out;
}

template <typename T> LUXEL_HD void move_camera(const luxel_view_pose_args& args, int view) {
  const MovedCamera camera = moved_camera<T>(args, view);
  const T* given = static_cast<const T*>(args.world_to_cam) + 16 * static_cast<int64_t>(view);
  T* to = static_cast<T*>(args.moved) + 16 * static_cast<int64_t>(view);
  double turned[3][3];
  product(camera.turn, camera.rotation, turned);
  for (int i = 0; i < 3; ++i) {
    double shift = 0;
    for (int j = 0; j < 3; ++j) {
      to[4 * i + j] = static_cast<T>(turned[i][j]);
      shift -= turned[i][j] * camera.centre[j];
    }
    to[4 * i + 3] = static_cast<T>(shift);
  }
  for (int j = 12; j < 16; ++j) to[j] = given[j];
}

template <typename T> LUXEL_HD void move_camera_gradient(const luxel_view_pose_args& args, int view) {
  const MovedCamera camera = moved_camera<T>(args, view);
  const T* g = static_cast<const T*>(args.g_moved) + 16 * static_cast<int64_t>(view);
  T* to = static_cast<T*>(args.g_parameters) + 6 * static_cast<int64_t>(view);
  double turned[3][3], slope[3][3] = {};  // gradient by the rotation
  product(camera.turn, camera.rotation, turned);
  for (int j = 0; j < 3; ++j) {
    double by_centre = 0;
    for (int i = 0; i < 3; ++i) {
      const double by_shift = g[4 * i + 3], by_turned = g[4 * i + j] - by_shift * camera.centre[j];
      by_centre -= turned[i][j] * by_shift;
      for (int k = 0; k < 3; ++k) slope[k][j] += camera.turn[i][k] * by_turned;
    }
    to[3 + j] = static_cast<T>(args.extent * by_centre);
  }
  double along_cross = 0, along_square = 0;
  for (int i = 0; i < 9; ++i) {
    along_cross += slope[i / 3][i % 3] * camera.cross[i / 3][i % 3];
    along_square += slope[i / 3][i % 3] * camera.square[i / 3][i % 3];
  }
  for (int axis = 0; axis < 3; ++axis) {
    const double unit[3] = {axis == 0 ? 1.0 : 0.0, axis == 1 ? 1.0 : 0.0, axis == 2 ? 1.0 : 0.0};
    double cross[3][3], before[3][3], after[3][3], sum = 0;
    cross_matrix(unit, cross);
    product(cross, camera.cross, before);
    product(camera.cross, cross, after);
    for (int i = 0; i < 9; ++i) {
      const int r = i / 3, c = i % 3;
      sum += slope[r][c] * (camera.factors.first * cross[r][c] + camera.factors.second * (before[r][c] + after[r][c]));
    }
    sum += 2 * camera.vector[axis] * (camera.factors.d_first * along_cross + camera.factors.d_second * along_square);
    to[axis] = static_cast<T>(-sum);
  }
}

}  // namespace luxel
