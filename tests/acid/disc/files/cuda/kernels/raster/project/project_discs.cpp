// project_discs on the CPU: a ball of radius R at depth z is a disc of radius fx R / z.
#include "abi/discs.h"
#include "math/raster/disc_policy.h"
#include "kernels/raster/project/project_each.h"
#include "kernels/raster/project/row_sink.h"

#include <vector>

namespace luxel {
namespace {

template <typename T> ShView<T> colour_of(const luxel_project_discs_args& args, int64_t n) {
  return {in<T>(args.sh_dc) + 3 * n, in<T>(args.sh_rest) + 3 * n * args.sh_stride, args.sh_stride, args.sh_degree};
}

template <typename T> int project_one(const luxel_project_discs_args& args, const Pinhole<T>& cam, int camera, int64_t n) {
  const Vec3<T> mean = load3(in<T>(args.means) + 3 * n), m = mul(cam.rotation, mean) + cam.translation;
  if (!(m.z > cam.near_plane && m.z < cam.far_plane)) return 0;
  const T opacity = sigmoid(in<T>(args.opacity_logits)[n]), scale = T(1) / m.z;
  const T row[8] = {cam.fx * m.x * scale + cam.cx, cam.fy * m.y * scale + cam.cy, opacity, m.z,
                    cam.fx * exp_exact(in<T>(args.log_radii)[n]) * scale};
  if (!(opacity >= T(kMinAlpha)) || !finite(row[0] + row[1] + row[4])) return 0;
  int tiles = 0;
  const int tiles_y = tiles_along(args.height);
  for_tile_rows(DiscBounds<T>::of(row), tiles_along(args.width), tiles_y, 0, tiles_y,
                [&](int, int first, int end) { tiles += end - first; });
  const Vec3<T> rgb = seen_colour(colour_of<T>(args, n), cam, mean);
  if (tiles == 0 || !finite(rgb.x + rgb.y + rgb.z)) return 0;
  const int64_t index = static_cast<int64_t>(camera) * args.count + n;
  for (int k = 0; k < 8; ++k) out<T>(args.splats)[8 * index + k] = row[k];
  store_values(out<T>(args.values) + value_channels(args.with_depth, 0) * index, rgb, args.with_depth, m.z, 0, {});
  return tiles;
}

// numbers: the gradient by mean, log_radius, opacity_logit, sh_dc, added to.
template <typename T>
void project_one_vjp(const luxel_project_discs_args& args, const Pinhole<T>& cam, int64_t n, const T* g, const T* g_value, T* numbers,
                     T* g_rest, PoseGradient<T>& pose) {
  const Vec3<T> mean = load3(in<T>(args.means) + 3 * n), m = mul(cam.rotation, mean) + cam.translation;
  const T opacity = sigmoid(in<T>(args.opacity_logits)[n]), scale = T(1) / m.z;
  const T radius = cam.fx * exp_exact(in<T>(args.log_radii)[n]) * scale, g_x = g[0] * cam.fx, g_y = g[1] * cam.fy;
  const T g_z = -scale * (scale * (g_x * m.x + g_y * m.y) + g[4] * radius) + (args.with_depth ? g_value[3] : T(0));
  const Vec3<T> g_camera = {g_x * scale, g_y * scale, g_z};
  Vec3<T> g_dc = {};
  const Vec3<T> g_seen = seen_colour_vjp<true>(colour_of<T>(args, n), cam, mean, g_value, g_dc, g_rest);
  pose.add_point(g_camera, mean);
  pose.add_seen(cam, g_seen);
  store3(numbers, load3(numbers) + mul_transposed(cam.rotation, g_camera) + g_seen);
  numbers[3] += g[4] * radius;
  numbers[4] += g[2] * opacity * (T(1) - opacity);
  store3(numbers + 5, load3(numbers + 5) + g_dc);
}

template <typename T> void backward(const luxel_project_discs_args& args) {
  if (args.skip && *args.skip != 0 && args.adam_schedule) return;
  const Parameter parameters[5] = {{args.means, args.g_means, 3, 0},
                                   {args.log_radii, args.g_log_radii, 1, 1},
                                   {args.opacity_logits, args.g_opacity_logits, 1, 2},
                                   {args.sh_dc, args.g_sh_dc, 3, 3},
                                   {args.sh_rest, args.g_sh_rest, 3 * args.sh_stride, 4}};
  const Sink<T, 5> sink(args, rows_of<T>(args, parameters));
  std::vector<PoseGradient<T>> poses(args.cameras);
  for (int64_t n = 0; n < args.count; ++n) {
    T numbers[8] = {}, g_rest[45] = {};
    bool seen = false;
    for (int camera = 0; camera < args.cameras; ++camera) {
      const int64_t index = static_cast<int64_t>(camera) * args.count + n;
      if (args.tile_counts[index] == 0) continue;
      seen = true;
      project_one_vjp(args, load_camera<T>(args, camera), n, in<T>(args.g_splats) + 8 * index,
                      in<T>(args.g_values) + value_channels(args.with_depth, 0) * index, numbers, g_rest, poses[camera]);
    }
    sink.take(n, numbers, g_rest, seen);
  }
  if (args.g_world_to_cam)
    for (int camera = 0; camera < args.cameras; ++camera) add_pose(poses[camera], out<T>(args.g_world_to_cam) + 16 * camera);
}

template <typename T> void forward(const luxel_project_discs_args& args) {
  project_each<Pinhole<T>>(args, 128, [&](const Pinhole<T>& cam, int camera, int64_t n) { return project_one(args, cam, camera, n); });
}

}  // namespace
}  // namespace luxel

extern "C" {

int luxel_project_discs_fwd(const luxel_project_discs_args* args) {
  args->dtype ? luxel::forward<double>(*args) : luxel::forward<float>(*args);
  return 0;
}

int luxel_project_discs_bwd(const luxel_project_discs_args* args) {
  args->dtype ? luxel::backward<double>(*args) : luxel::backward<float>(*args);
  return 0;
}
}
