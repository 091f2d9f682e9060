// Shared by the stages of the rasterizer: tiles of an image, a stage's camera, and the gradient by its pose.
#pragma once

#include "abi/raster.h"
#include "math/camera/shutter.h"
#include "kernels/arguments.h"

namespace luxel {

LUXEL_HD int tiles_along(int pixels) { return (pixels + LUXEL_TILE - 1) / LUXEL_TILE; }

// intrinsics: of the camera.
template <typename T> LUXEL_HD Pinhole<T> load_camera(const luxel_projection& projection, int camera, const T* intrinsics) {
  return load_pinhole(in<T>(projection.world_to_cam) + 16 * camera, intrinsics, projection.width, projection.height,
                      projection.near_plane, projection.far_plane);
}
// Args: the argument struct of a projection stage.
template <typename T, typename Args> LUXEL_HD Pinhole<T> load_camera(const Args& args, int camera) {
  return load_camera(args.projection, camera, in<T>(args.projection.intrinsics) + 4 * camera);
}
// A camera of the given type, of a stage that has `lens`, and `shutters` where it is a Rolling<T, ..>.
template <typename T> struct CameraType {
  using Type = T;
};
template <typename T, typename Args> LUXEL_HD Pinhole<T> load_camera(const Args& args, int camera, CameraType<Pinhole<T>>) {
  return load_camera<T>(args, camera);
}
template <typename T, typename Args>
LUXEL_HD LensCamera<T> load_camera(const Args& args, int camera, CameraType<LensCamera<T>>) {
  const T* intrinsics = in<T>(args.projection.intrinsics) + (4 + LUXEL_LENS) * camera;
  LensCamera<T> out;
  static_cast<Pinhole<T>&>(out) = load_camera(args.projection, camera, intrinsics);
  load_lens(out, intrinsics + 4);
  return out;
}
template <typename T, typename Args, template <typename> typename Base>
LUXEL_HD Rolling<T, Base> load_camera(const Args& args, int camera, CameraType<Rolling<T, Base>>) {
  Rolling<T, Base> out;
  static_cast<Base<T>&>(out) = load_camera(args, camera, CameraType<Base<T>>());
  load_shutter(out, in<T>(args.shutters) + LUXEL_SHUTTER * camera);
  return out;
}
template <typename T> LUXEL_HD Vec3<T> camera_position(const Pinhole<T>& cam) {
  return T(-1) * mul_transposed(cam.rotation, cam.translation);
}

// The gradient by a pose in the order of the first three rows of world_to_cam.
template <typename T> LUXEL_HD void flatten(const PoseGradient<T>& g, T* twelve) {
  store3(twelve, g.rotation.r0);
  store3(twelve + 4, g.rotation.r1);
  store3(twelve + 8, g.rotation.r2);
  twelve[3] = g.translation.x;
  twelve[7] = g.translation.y;
  twelve[11] = g.translation.z;
}
// Adds it to g_world_to_cam [4,4]; not thread-safe.
template <typename T> LUXEL_HD void add_pose(const PoseGradient<T>& g, T* g_world_to_cam) {
  T twelve[12];
  flatten(g, twelve);
  for (int k = 0; k < 12; ++k) g_world_to_cam[k] += twelve[k];
}
// Adds the gradient by the velocities of a rolling shutter to g_shutters [8]; not thread-safe.
template <typename T> LUXEL_HD void add_shutter(const PoseGradient<T>& g, T* g_shutter) {
  store3(g_shutter + kShutterLinear, load3(g_shutter + kShutterLinear) + g.linear);
  store3(g_shutter + kShutterAngular, load3(g_shutter + kShutterAngular) + g.angular);
}

}  // namespace luxel
