// The tile rasterizer as two plain loops, over pixels and splats, for any policy. Read this first; kernels/raster/blend computes
// the same with tiles, vectors and warps.
#pragma once

#include "math/raster/policy.h"

namespace luxel {

// D channels of values; `list`: indices of splats, nearest first.
template <typename T> struct WalkInputs {
  const T* rows;    // [N, kRow]
  const T* values;  // [N, D]
  const int* list;
  int count, width, height, channels;
  T max_alpha;
};

// image [H,W,D], transmittance [H,W], last [H,W]: one past the index in `list` of the last splat that contributes.
//
// image = sum_i T_i alpha_i value_i with T_i = prod_{j < i} (1 - alpha_j). A splat whose alpha is below kMinAlpha is skipped, and a
// pixel ends before T would fall to kMinTransmittance.
template <typename Policy, typename T>
void walk_forward(const WalkInputs<T>& in, T* image, T* transmittance, int* last) {
  for (int pixel = 0; pixel < in.width * in.height; ++pixel) {
    const T px = T(pixel % in.width) + T(0.5), py = T(pixel / in.width) + T(0.5);
    T before = T(1);
    last[pixel] = 0;
    for (int d = 0; d < in.channels; ++d) image[pixel * in.channels + d] = T(0);
    for (int i = 0; i < in.count; ++i) {
      const int id = in.list[i];
      const Policy splat = Policy::load(in.rows + Policy::kRow * id);
      const auto at = splat.at(px - splat.x, py - splat.y);
      const T alpha = smaller(in.max_alpha, splat.opacity * at.falloff);
      if (!at.valid || !(alpha >= T(kMinAlpha))) continue;
      const T after = before * (T(1) - alpha);
      if (after <= T(kMinTransmittance)) break;
      for (int d = 0; d < in.channels; ++d)
        image[pixel * in.channels + d] += alpha * before * in.values[in.channels * id + d];
      before = after;
      last[pixel] = i + 1;
    }
    transmittance[pixel] = before;
  }
}

// Adds to g_rows [N,kRow] and g_values [N,D], from g_image [H,W,D] and the outputs of walk_forward.
//
// The pixel is walked from its last splat to the first, and T_i recovered by dividing by 1 - alpha_i. With
// S_i = sum_{j > i} T_j alpha_j (g_image . value_j):   d loss / d alpha_i = T_i (g_image . value_i) - S_i / (1 - alpha_i).
template <typename Policy, typename T>
void walk_backward(const WalkInputs<T>& in, const T* transmittance, const int* last, const T* g_image, T* g_rows, T* g_values) {
  for (int pixel = 0; pixel < in.width * in.height; ++pixel) {
    const T px = T(pixel % in.width) + T(0.5), py = T(pixel / in.width) + T(0.5);
    const T* g = g_image + pixel * in.channels;
    T after = transmittance[pixel], behind = T(0);
    for (int i = last[pixel] - 1; i >= 0; --i) {
      const int id = in.list[i];
      const Policy splat = Policy::load(in.rows + Policy::kRow * id);
      const auto at = splat.at(px - splat.x, py - splat.y);
      const T raw = splat.opacity * at.falloff, alpha = smaller(in.max_alpha, raw);
      if (!at.valid || !(alpha >= T(kMinAlpha))) continue;
      const T before = after / (T(1) - alpha);
      T slope = T(0);  // g_image . value_i
      for (int d = 0; d < in.channels; ++d) {
        slope += g[d] * in.values[in.channels * id + d];
        g_values[in.channels * id + d] += alpha * before * g[d];
      }
      const T g_alpha = raw <= in.max_alpha ? before * slope - behind / (T(1) - alpha) : T(0);  // the cap has no gradient
      typename Policy::template Gradient<T, false> gradient = {};
      gradient.add(splat, at, g_alpha);
      T row[Policy::kRow];
      gradient.store(splat, [](T sum) { return sum; }, row);
      for (int k = 0; k < Policy::kRow; ++k) g_rows[Policy::kRow * id + k] += row[k];
      behind += alpha * before * slope;
      after = before;
    }
  }
}

}  // namespace luxel
