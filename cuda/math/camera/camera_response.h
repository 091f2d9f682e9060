// How a camera makes an image's values of a scene's colours: exposure, vignetting and response curve, with the vjp.
//
// A colour is decoded from sRGB (IEC 61966-2-1) to linear light, multiplied by 2^(exposure + vignetting), encoded again and
// bent by the response h. All is the identity where the parameters are 0.
//   exposure   of each channel, in stops
//   vignetting v1 r^2 + v2 r^4 + v3 r^6 in stops, r the distance from the image's centre in half diagonals: the even
//              polynomial of Goldman 2010, "Vignette and exposure calibration and compensation", of the logarithm
//   response   a Bernstein polynomial of degree 4 from 0 to 1 whose control points rise by softmax(p1, p2, p3, 0): it rises
//              everywhere. Outside of [0, 1] its tangents continue it.
#pragma once

#include "math/hd.h"

namespace luxel {

constexpr int kCameraView = 3, kCameraShared = 6;  // parameters: exposure, red - green, blue - green; vignetting, response
constexpr int kCamera = kCameraView + kCameraShared;

template <typename T> struct Slope {
  T value, slope;
};

template <typename T> LUXEL_HD Slope<T> decode_srgb(T x) {
  if (!(x > T(0.04045))) return {x / T(12.92), T(1) / T(12.92)};
  const T base = (x + T(0.055)) / T(1.055), linear = exp_exact(T(2.4) * log_of(base));
  return {linear, T(2.4) / T(1.055) * linear / base};
}

template <typename T> LUXEL_HD Slope<T> encode_srgb(T x) {
  if (!(x > T(0.0031308))) return {T(12.92) * x, T(12.92)};
  const T power = T(1.055) * exp_exact(log_of(x) / T(2.4));
  return {power - T(0.055), power / (T(2.4) * x)};
}

template <typename T> struct CameraResponse {
  T gain[3];  // of each channel
  T vignetting[3];
  T rise[4];  // of the response's control points

  LUXEL_HD T falloff(T r2) const {
    return exp_exact(T(0.6931471805599453) * r2 * (vignetting[0] + r2 * (vignetting[1] + r2 * vignetting[2])));
  }

  // The response and its slope; shares[k]: its derivative by rise[k].
  LUXEL_HD Slope<T> respond(T s, T* shares) const {
    if (!(s > T(0))) {
      shares[0] = T(4) * s;
      shares[1] = shares[2] = shares[3] = T(0);
      return {rise[0] * shares[0], T(4) * rise[0]};
    }
    if (s > T(1)) {
      shares[0] = shares[1] = shares[2] = T(1);
      shares[3] = T(1) + T(4) * (s - T(1));
      return {T(1) + rise[3] * (shares[3] - T(1)), T(4) * rise[3]};
    }
    const T t = T(1) - s, s2 = s * s, t2 = t * t;
    shares[3] = s2 * s2;
    shares[2] = shares[3] + T(4) * s2 * s * t;
    shares[1] = shares[2] + T(6) * s2 * t2;
    shares[0] = shares[1] + T(4) * s * t2 * t;
    return {rise[0] * shares[0] + rise[1] * shares[1] + rise[2] * shares[2] + rise[3] * shares[3],
            T(4) * (rise[0] * t2 * t + rise[3] * s2 * s + T(3) * s * t * (rise[1] * t + rise[2] * s))};
  }
};

// parameters [9]: see kCameraView and kCameraShared.
template <typename T> LUXEL_HD CameraResponse<T> camera_response(const T* parameters) {
  CameraResponse<T> out;
  const T ln2 = T(0.6931471805599453);
  out.gain[0] = exp_exact(ln2 * (parameters[0] + parameters[1]));
  out.gain[1] = exp_exact(ln2 * parameters[0]);
  out.gain[2] = exp_exact(ln2 * (parameters[0] + parameters[2]));
  T sum = T(0), top = T(0);
  for (int i = 0; i < 3; ++i) {
    out.vignetting[i] = parameters[3 + i];
    top = larger(top, parameters[6 + i]);
  }
  for (int k = 0; k < 4; ++k) sum += out.rise[k] = exp_exact((k < 3 ? parameters[6 + k] : T(0)) - top);
  for (int k = 0; k < 4; ++k) out.rise[k] /= sum;
  return out;
}

// The value of a channel and its slope by the colour. falloff: of the pixel.
template <typename T> LUXEL_HD Slope<T> photograph_value(const CameraResponse<T>& camera, int channel, T falloff, T colour) {
  T shares[4];
  const Slope<T> linear = decode_srgb(colour);
  const T light = camera.gain[channel] * falloff;
  const Slope<T> encoded = encode_srgb(light * linear.value), value = camera.respond(encoded.value, shares);
  return {value.value, value.slope * encoded.slope * light * linear.slope};
}

// As photograph_value; adds the gradient by the parameters, g times the derivatives, to sums [9].
template <typename T, typename Sum>
LUXEL_HD Slope<T> photograph_value_vjp(const CameraResponse<T>& camera, int channel, T r2, T falloff, T colour, T g, Sum* sums) {
  T shares[4];
  const Slope<T> linear = decode_srgb(colour);
  const T light = camera.gain[channel] * falloff;
  const Slope<T> encoded = encode_srgb(light * linear.value), value = camera.respond(encoded.value, shares);
  const T g_stops = T(0.6931471805599453) * g * value.slope * encoded.slope * light * linear.value;
  sums[0] += g_stops;
  if (channel == 0) sums[1] += g_stops;
  if (channel == 2) sums[2] += g_stops;
  sums[3] += g_stops * r2;
  sums[4] += g_stops * r2 * r2;
  sums[5] += g_stops * r2 * r2 * r2;
  LUXEL_UNROLL
  for (int k = 0; k < 3; ++k) sums[6 + k] += g * camera.rise[k] * (shares[k] - value.value);
  return {value.value, value.slope * encoded.slope * light * linear.slope};
}

}  // namespace luxel
