// One convex of the stage project_convexes, for one camera: its polygon, its colour, and the vjp of both. The loops around these are
// in forward/ and backward/.
#pragma once

#include "abi/raster.h"
#include "math/raster/convex.h"
#include "math/raster/convex_policy.h"
#include "kernels/raster/project/projection_stage.h"
#include "kernels/raster/project/sh_values.h"

#include <type_traits>

namespace luxel {

static_assert(kMaxCorners == LUXEL_CORNERS, "the rows of math/raster/convex_bounds.h have the corners of abi/raster.h");

LUXEL_HD int value_channels(const luxel_project_convexes_args& args) { return value_channels(args.projection.with_depth, 0); }

// The parameters of one convex; pointers in global or shared memory.
template <typename T> struct ConvexRow {
  const T* points;
  ConvexShape<T> shape;
  const T *sh_dc, *sh_rest;
};
template <typename T> LUXEL_HD ConvexRow<T> row_of(const luxel_project_convexes_args& args, int64_t n) {
  const ConvexShape<T> shape = {in<T>(args.log_delta)[n], in<T>(args.log_sigma)[n], in<T>(args.opacity_logits)[n],
                                in<T>(args.mask_logits)[n]};
  return {in<T>(args.points) + 3 * args.points_each * n, shape, in<T>(args.sh_dc) + 3 * n,
          in<T>(args.sh_rest) + 3 * n * args.projection.sh_stride};
}

// Writes the corners into a splat row.
template <typename T> LUXEL_HD void store_corners(const ConvexProjection<T>& p, T* row) {
LUXEL_UNROLL
  for (int j = 0; j < LUXEL_CORNERS; ++j) {
    row[kConvexCorners + 2 * j] = j < p.edges ? p.corner_x[j] : T(0);
    row[kConvexCorners + 2 * j + 1] = j < p.edges ? p.corner_y[j] : T(0);
  }
}

// Geometry of a projected convex, input of store_splat().
template <typename T> struct ProjectedConvex {
  ConvexProjection<T> p;
  T splat[kConvexRow];
  int tiles;
};

// False if the convex is not visible.
template <typename T>
LUXEL_HD bool project_geometry(const luxel_project_convexes_args& args, const Pinhole<T>& cam, const ConvexRow<T>& row,
                               ProjectedConvex<T>& projected) {
  ConvexProjection<T>& p = projected.p;
  ConvexExtent<T> e;
  if (!project_convex(cam, row.points, args.points_each, row.shape, p) || !convex_extent(cam, p, e)) return false;
  const T head[kConvexCorners] = {cam.fx * p.u + cam.cx, cam.fy * p.v + cam.cy, p.opacity, p.camera_centroid.z,
                                           p.delta,               p.sigma,               T(p.edges), e.reach,
                                           e.low_x,               e.low_y,               e.high_x,  e.high_y};
LUXEL_UNROLL
  for (int k = 0; k < kConvexCorners; ++k) projected.splat[k] = head[k];
  store_corners(p, projected.splat);
  projected.tiles = touched_tiles(ConvexBounds<T>::of(projected.splat), args.projection);
  return projected.tiles > 0;
}
template <typename T> LUXEL_HD int count_tiles(const luxel_project_convexes_args&, const ProjectedConvex<T>& projected) {
  return projected.tiles;
}

// Writes splat and values of a convex that touches tiles. Returns false and writes nothing if its colour is not finite.
template <typename T>
LUXEL_HD bool store_splat(const luxel_project_convexes_args& args, const Pinhole<T>& cam, int camera, int64_t n,
                          const ConvexRow<T>& row, const ProjectedConvex<T>& projected) {
  const Vec3<T> rgb = seen_colour(sh_view(args, row), cam, projected.p.centroid);
  if (!finite(rgb.x + rgb.y + rgb.z)) return false;
  const int64_t index = static_cast<int64_t>(camera) * args.projection.count + n;
  T* target = out<T>(args.projection.splats) + kConvexRow * index;
LUXEL_UNROLL
  for (int k = 0; k < kConvexRow; k += 4) store4(target + k, projected.splat + k);
  store_values(out<T>(args.projection.values) + value_channels(args) * index, rgb, args.projection.with_depth,
               projected.p.camera_centroid.z, 0, {});
  return true;
}

// Turns the raw moments of a convex, left by the blending, into the gradient by its row, in place.
LUXEL_HD void moments_to_gradient(const ConvexProjection<float>& p, float* g) {
  float row[kConvexRow] = {0.0f, 0.0f, p.opacity, 0.0f, p.delta, p.sigma, static_cast<float>(p.edges)};
  store_corners(p, row);
  ConvexPolicy<float>::moments_to_gradient(row, g);
}

// Gradients of one convex; points: where those by its points, through the corners only, are gathered.
template <typename T> struct ConvexTotal : WithColour<T, ConvexGradient> {
  T* points;
};

// Adds the gradients of a convex through one camera in which it is visible, given those by its splat and values. The gradients by
// the points are added to total.points or (kAdd false) overwrite it, which may then be the memory of the points; g_rest and kAdd as
// in seen_colour_vjp.
template <bool kAdd, typename T>
LUXEL_HD void project_one_vjp(const luxel_project_convexes_args& args, const Pinhole<T>& cam, const ConvexRow<T>& row,
                              const T* g_splat, const T* g_value, ConvexTotal<T>& total, T* g_rest, T* statistics) {
  T* const g_points = total.points;
  ConvexProjection<T> p;
  unsigned corners = 0;
  if (project_convex(cam, row.points, args.points_each, row.shape, p)) {  // always true: it was visible in the forward pass
    const Vec3<T> g_seen = seen_colour_vjp<kAdd>(sh_view(args, row), cam, p.centroid, g_value, total.dc, g_rest);
    total.centroid = total.centroid + g_seen;
    total.pose.add_seen(cam, g_seen);
    T g[kConvexRow];
LUXEL_UNROLL
    for (int k = 0; k < kConvexRow; k += 4) load4(g_splat + k, g + k);
    if constexpr (std::is_same_v<T, float>)
      if (args.raw_moments) moments_to_gradient(p, g);
    if (statistics != nullptr) {
      T sums[4];
      load4(statistics, sums);
      sums[0] += p.camera_centroid.z * g[5];
      sums[2] += T(1);
      sums[3] = larger(sums[3], p.spread / larger(cam.width, cam.height));
      store4(statistics, sums);
    }
    project_convex_vjp(cam, row.points, p, g[2], g[4], g[5], args.projection.with_depth ? g_value[3] : T(0), g + kConvexCorners,
                       total, [&](int k, Vec3<T> g_point) {
                         store3(g_points + 3 * k, kAdd ? load3(g_points + 3 * k) + g_point : g_point);
                         corners |= 1u << k;
                       });
  }
  for (int k = 0; !kAdd && k < args.points_each; ++k)
    if (!(corners >> k & 1)) store3(g_points + 3 * k, Vec3<T>{T(0), T(0), T(0)});
}

LUXEL_HD bool has_penalties(const luxel_project_convexes_args& args) { return args.mask_penalty != 0.0f; }
// Adds the gradient of penalty_factor * mask_penalty * sigmoid(mask_logit); spare rows (opacity_logit not finite) have none.
template <typename T>
LUXEL_HD void penalties_vjp(const luxel_project_convexes_args& args, const ConvexRow<T>& row, ConvexGradient<T>& g) {
  const ConvexShape<T>& shape = row.shape;
  if (args.mask_penalty == 0.0f || !finite(shape.opacity_logit)) return;
  const T factor = args.penalty_factor ? in<T>(args.penalty_factor)[0] : T(1), mask = sigmoid(shape.mask_logit);
  g.mask_logit += factor * T(args.mask_penalty) * mask * (T(1) - mask);
}

LUXEL_HD ParameterList<7> parameters_of(const luxel_project_convexes_args& args) {
  return {{{args.points, args.g_points, 3 * args.points_each, 0},
           {args.log_delta, args.g_log_delta, 1, 1},
           {args.log_sigma, args.g_log_sigma, 1, 2},
           {args.opacity_logits, args.g_opacity_logits, 1, 3},
           {args.sh_dc, args.g_sh_dc, 3, 4},
           {args.mask_logits, args.g_mask_logits, 1, 6},
           {args.sh_rest, args.g_sh_rest, 3 * args.projection.sh_stride, 5}}};
}

// Also adds the gradient by the centroid, summed over all cameras, in equal parts to all points.
template <typename T>
LUXEL_HD void flatten(const luxel_project_convexes_args& args, const ConvexRow<T>&, bool, const ConvexTotal<T>& total, T* numbers) {
  const Vec3<T> g = (T(1) / T(args.points_each)) * total.centroid;
  for (int k = 0; k < args.points_each; ++k) store3(total.points + 3 * k, load3(total.points + 3 * k) + g);
  numbers[0] = total.log_delta;
  numbers[1] = total.log_sigma;
  numbers[2] = total.opacity_logit;
  store3(numbers + 3, total.dc);
  numbers[6] = total.mask_logit;
}

struct ConvexStage {
  using Args = luxel_project_convexes_args;
  template <typename T, template <typename> typename Optics> using Camera = Optics<T>;
  template <typename T> using Row = ConvexRow<T>;
  template <typename T> using Projected = ProjectedConvex<T>;
  template <typename T> using Gradient = ConvexTotal<T>;
  static constexpr int kSplat = kConvexRow, kParameters = 7, kNumbers = 7, kChunk = 128, kBlock = 256;
  static constexpr bool kPoints = true, kLenses = false, kTimestamps = false;
  static constexpr int width(int i) { return i == 0 ? 0 : (i == 4 ? 3 : 1); }
};

}  // namespace luxel
