// Gradients of the cameras on the CPU, as blocks of primitives leave them.
#pragma once

#include "../math/vec.h"

#include <vector>

namespace luxel {

template <typename T> struct Pose {
  Mat3<T> rotation;
  Vec3<T> translation;
};

// Adds what each block left for each camera to g_world_to_cam [cameras,4,4], block after block.
template <typename T> void add_poses(const std::vector<Pose<T>>& poses, int cameras, T* g_world_to_cam) {
  for (size_t i = 0; i < poses.size(); ++i) {
    T* g_camera = g_world_to_cam + 16 * (i % cameras);
    const Vec3<T> rows[3] = {poses[i].rotation.r0, poses[i].rotation.r1, poses[i].rotation.r2};
    const T translation[3] = {poses[i].translation.x, poses[i].translation.y, poses[i].translation.z};
    for (int row = 0; row < 3; ++row) {
      g_camera[4 * row] += rows[row].x;
      g_camera[4 * row + 1] += rows[row].y;
      g_camera[4 * row + 2] += rows[row].z;
      g_camera[4 * row + 3] += translation[row];
    }
  }
}

}  // namespace luxel
