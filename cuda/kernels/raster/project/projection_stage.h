// What the loops over cameras and primitives in forward/ and backward/ know of a stage that projects primitives. They are templates
// of a class Stage, which has
//
//   Args                              the argument struct
//   Camera<T, Optics>                 the type of a camera; Optics: Pinhole, LensCamera, RollingPinhole or RollingLens
//   Row<T>                            pointers to a primitive's parameters, in their order
//   Projected<T>                      its projection
//   Gradient<T>                       its gradient, with the members dc (by sh_dc) and pose, timestamp (by the camera in turn;
//                                     timestamp with kTimestamps only)
//   kSplat                            numbers of a splat
//   kParameters                       the parameters, sh_rest last
//   kNumbers                          numbers of a gradient but for sh_rest and, with kPoints, the points
//   width(i)                          those of parameter i; GPU only
//   kPoints                           whether the first parameter is points [N,points_each,3]; the member `points` of a Row and of a
//                                     Gradient then is where a row has them
//   kLenses                           whether cameras may have a lens and a rolling shutter
//   kTimestamps                       whether cameras have timestamps with a gradient
//   kChunk, kBlock                    primitives that a thread of the CPU takes at a time, forward and backward
//
// and which these are overloaded for, in a header that is included before the loops:
//
//   value_channels(args)              numbers of a row of values
//   parameters_of(args)               the parameters and their gradients
//   row_of<T>(args, n)                the Row of a primitive
//   project_geometry(args, cam, row, projected)            false if it is not visible
//   count_tiles(args, projected)                           the number of tiles that it touches
//   store_splat(args, cam, camera, n, row, projected)      writes splat and values; false if the colour is not finite
//   project_one_vjp<kAdd>(args, cam, row, g_splat, g_value, gradient, g_rest, statistics)
//                                                          adds the gradient through one camera in which it is visible; that by
//                                                          sh_rest and points is added to or (kAdd false) overwritten up to the
//                                                          active terms, and may then be the memory of the parameters
//   penalties_vjp(args, row, gradient)                     adds the gradient of terms that the backward pass adds to the loss
//   has_penalties(args)                                    whether there are such terms; GPU only
//   flatten(args, row, seen, gradient, numbers)            writes the kNumbers numbers of a gradient, which are 0 before
#pragma once

#include "kernels/raster/stage.h"

#include <type_traits>

namespace luxel {

// A parameter tensor, its gradient, the numbers per row, and its index in adam_schedule and adam_table.
struct Parameter {
  const void* rows;
  void* gradient;
  int width, place;
};
template <int P> struct ParameterList {
  Parameter of[P];
};

// A gradient by the parameters of a primitive, with that by sh_dc.
template <typename T, template <typename> typename Base> struct WithColour : Base<T> {
  Vec3<T> dc;
};

// Tiles that the outline of a splat touches; Bounds: of its policy.
template <typename Bounds> LUXEL_HD int touched_tiles(const Bounds& bounds, const luxel_projection& projection) {
  int tiles = 0;
  const int tiles_y = tiles_along(projection.height);
  for_tile_rows(bounds, tiles_along(projection.width), tiles_y, 0, tiles_y, [&](int, int first, int end) { tiles += end - first; });
  return tiles;
}

// Numbers of a primitive's points.
template <typename Stage> LUXEL_HD int points_width(const typename Stage::Args& args) {
  if constexpr (Stage::kPoints) return 3 * args.points_each;
  else return 0;
}

template <typename Camera, typename T> constexpr bool kHasLens = std::is_base_of_v<LensCamera<T>, Camera>;

// Calls run(CameraType<Camera>()) with the type of the cameras.
template <typename Stage, typename T, typename Run> auto with_camera_type(const typename Stage::Args& args, Run run) {
  if constexpr (Stage::kLenses) {
    if (args.shutters)
      return args.lens ? run(CameraType<typename Stage::template Camera<T, RollingLens>>())
                       : run(CameraType<typename Stage::template Camera<T, RollingPinhole>>());
    if (args.lens) return run(CameraType<typename Stage::template Camera<T, LensCamera>>());
  }
  return run(CameraType<typename Stage::template Camera<T, Pinhole>>());
}

}  // namespace luxel
