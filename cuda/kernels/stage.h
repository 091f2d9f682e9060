// What the stages of the rasterizer share: arguments of their float type, the tiles of an image, and a stage's camera.
#pragma once

#include "../abi.h"
#include "../math/camera.h"

namespace luxel {

template <typename T> LUXEL_HD const T* in(const void* p) { return static_cast<const T*>(p); }
template <typename T> LUXEL_HD T* out(void* p) { return static_cast<T*>(p); }

LUXEL_HD int tiles_along(int pixels) { return (pixels + LUXEL_TILE - 1) / LUXEL_TILE; }

// Args: of a stage that projects.
template <typename T, typename Args> LUXEL_HD Pinhole<T> load_camera(const Args& args, int camera) {
  return load_pinhole(in<T>(args.world_to_cam) + 16 * camera, in<T>(args.intrinsics) + 4 * camera, args.width,
                      args.height, args.near_plane, args.far_plane);
}
template <typename T> LUXEL_HD Vec3<T> camera_position(const Pinhole<T>& cam) {
  return T(-1) * mul_transposed(cam.rotation, cam.translation);
}

}  // namespace luxel
