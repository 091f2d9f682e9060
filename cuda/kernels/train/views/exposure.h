// One pixel of the stage view_exposure, forward and backward; the loops around it are in the .cpp and .cu of the same name.
#pragma once

#include "abi/train.h"
#include "math/camera/camera_response.h"
#include "math/vec.h"

namespace luxel {

constexpr int kGain = 3, kAffine = 12;  // parameters of a view

// What the pixels of a view have in common. P: kGain, kAffine or kCamera.
template <typename T, int P> struct ViewExposure {
  T values[P];  // factors, or the matrix row by row and the offset
  CameraResponse<T> camera;  // of kCamera
  Vec3<T> background;
  bool see_through;
};

template <typename T, int P> LUXEL_HD ViewExposure<T, P> exposure_of(const luxel_view_exposure_args& args, int view) {
  ViewExposure<T, P> out;
  const T* parameters = static_cast<const T*>(args.parameters) + static_cast<int64_t>(view) * P;
  if constexpr (P == kCamera) {
    out.camera = camera_response(parameters);
  } else {
    LUXEL_UNROLL
    for (int i = 0; i < P; ++i) out.values[i] = P == kGain ? exp_exact(parameters[i]) : parameters[i];
  }
  out.see_through = args.transmittance != nullptr;
  out.background = {T(0), T(0), T(0)};
  if (out.see_through) out.background = load3(static_cast<const T*>(args.background) + 3 * static_cast<int64_t>(view));
  return out;
}

template <typename T> LUXEL_HD T transmittance_of(const luxel_view_exposure_args& args, int64_t pixel) {
  return args.transmittance ? static_cast<const T*>(args.transmittance)[pixel] : T(0);
}

// Squared distance of a pixel from the centre of its image, in half diagonals.
template <typename T> LUXEL_HD T radius2_of(const luxel_view_exposure_args& args, int64_t pixel) {
  const T x = T(2) * static_cast<T>(pixel % args.width) + T(1) - args.width;
  const T y = T(2) * static_cast<T>(pixel / args.width % args.height) + T(1) - args.height;
  return (x * x + y * y) / (square(static_cast<T>(args.width)) + square(static_cast<T>(args.height)));
}

// Of a pixel that the scene covers less, the colour is not known well enough to be bent: it stays.
template <typename T> LUXEL_HD bool has_colour(T cover) { return cover > T(1e-4); }

// pixel: number among those of all views.
template <typename T, int P>
LUXEL_HD void expose_pixel(const luxel_view_exposure_args& args, const ViewExposure<T, P>& view, int64_t pixel) {
  const T through = transmittance_of<T>(args, pixel);
  const Vec3<T> behind = through * view.background;
  const Vec3<T> x = load3(static_cast<const T*>(args.image) + 3 * pixel) - behind;
  const T* v = view.values;
  Vec3<T> y;
  if constexpr (P == kGain) {
    y = {v[0] * x.x, v[1] * x.y, v[2] * x.z};
  } else if constexpr (P == kCamera) {
    const T cover = T(1) - through, falloff = view.camera.falloff(radius2_of<T>(args, pixel));
    y = x;
    if (has_colour(cover)) {
      y = {cover * photograph_value(view.camera, 0, falloff, x.x / cover).value,
           cover * photograph_value(view.camera, 1, falloff, x.y / cover).value,
           cover * photograph_value(view.camera, 2, falloff, x.z / cover).value};
    }
  } else {
    const T cover = T(1) - through;
    y = {x.x + (v[0] * x.x + v[1] * x.y + v[2] * x.z) + cover * v[9], x.y + (v[3] * x.x + v[4] * x.y + v[5] * x.z) + cover * v[10],
         x.z + (v[6] * x.x + v[7] * x.y + v[8] * x.z) + cover * v[11]};
  }
  store3(static_cast<T*>(args.shown) + 3 * pixel, y + behind);
}

// Writes the gradients by image and transmittance, and adds those by the parameters to `sums` [P].
template <typename T, int P, typename Sum>
LUXEL_HD void exposure_gradient(const luxel_view_exposure_args& args, const ViewExposure<T, P>& view, int64_t pixel, Sum* sums) {
  const T through = transmittance_of<T>(args, pixel);
  const Vec3<T> x = load3(static_cast<const T*>(args.image) + 3 * pixel) - through * view.background;
  const Vec3<T> g = load3(static_cast<const T*>(args.g_shown) + 3 * pixel);
  const T* v = view.values;
  Vec3<T> g_x;
  T g_cover = T(0);
  if constexpr (P == kGain) {
    g_x = {v[0] * g.x, v[1] * g.y, v[2] * g.z};
    sums[0] += g_x.x * x.x;
    sums[1] += g_x.y * x.y;
    sums[2] += g_x.z * x.z;
  } else if constexpr (P == kCamera) {
    const T cover = T(1) - through, r2 = radius2_of<T>(args, pixel), falloff = view.camera.falloff(r2);
    g_x = g;
    if (has_colour(cover)) {
      const T inverse = T(1) / cover, colours[3] = {x.x * inverse, x.y * inverse, x.z * inverse}, gs[3] = {g.x, g.y, g.z};
      T slopes[3];
      LUXEL_UNROLL
      for (int c = 0; c < 3; ++c) {
        const Slope<T> value = photograph_value_vjp(view.camera, c, r2, falloff, colours[c], cover * gs[c], sums);
        slopes[c] = value.slope;
        g_cover += gs[c] * (value.value - colours[c] * value.slope);
      }
      g_x = {slopes[0] * g.x, slopes[1] * g.y, slopes[2] * g.z};
    }
  } else {
    g_x = {g.x + (v[0] * g.x + v[3] * g.y + v[6] * g.z), g.y + (v[1] * g.x + v[4] * g.y + v[7] * g.z),
           g.z + (v[2] * g.x + v[5] * g.y + v[8] * g.z)};
    const T rows[3] = {g.x, g.y, g.z}, cover = T(1) - through;
    LUXEL_UNROLL
    for (int row = 0; row < 3; ++row) {
      sums[3 * row] += rows[row] * x.x;
      sums[3 * row + 1] += rows[row] * x.y;
      sums[3 * row + 2] += rows[row] * x.z;
      sums[9 + row] += rows[row] * cover;
      g_cover += rows[row] * v[9 + row];
    }
  }
  store3(static_cast<T*>(args.g_image) + 3 * pixel, g_x);
  if (args.g_transmittance) static_cast<T*>(args.g_transmittance)[pixel] = dot(view.background, g - g_x) - g_cover;
}

}  // namespace luxel
