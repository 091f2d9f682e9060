// Rows of the stage relocate, one at a time; the loops around them are in the .cpp and .cu of the same name.
#pragma once

#include "abi/train.h"
#include "math/philox.h"
#include "math/train/relocation.h"

namespace luxel {

constexpr int kTensors = 6;  // of a Gaussian: means, quats, log_scales, opacity_logits, sh_dc, sh_rest

LUXEL_HD int scale_axes(const luxel_relocate_args& args) { return args.flat ? 2 : 3; }

// The tensors of a Gaussian: kinds[0] parameters, kinds[1] first moments, kinds[2] second moments.
struct RelocatedRows {
  float* kinds[3][kTensors];
  int width[kTensors];

  LUXEL_HD explicit RelocatedRows(const luxel_relocate_args& a)
      : kinds{{a.means, a.quats, a.log_scales, a.opacity_logits, a.sh_dc, a.sh_rest},
              {a.m_means, a.m_quats, a.m_log_scales, a.m_opacity_logits, a.m_sh_dc, a.m_sh_rest},
              {a.v_means, a.v_quats, a.v_log_scales, a.v_opacity_logits, a.v_sh_dc, a.v_sh_rest}},
        width{3, 4, scale_axes(a), 1, 3, 3 * a.sh_stride} {}
};

LUXEL_HD bool relocates(const luxel_relocate_args& args) { return args.added == 0; }
LUXEL_HD float opacity_of(const luxel_relocate_args& args, int64_t n) { return sigmoid(args.opacity_logits[n]); }

// Weight of a row in the draw, its opacity in fixed point with 32 fractional bits: sums do not depend on their order.
LUXEL_HD int64_t weight_of(const luxel_relocate_args& args, int64_t n) {
  const double weight = opacity_of(args, n);
  return weight > 0 && finite(weight) ? static_cast<int64_t>(weight * 4294967296.0) : 0;
}

// A uniform random number in [0, total) for a row to be overwritten.
LUXEL_HD int64_t drawn(const luxel_relocate_args& args, int64_t row, int64_t total) {
  const Random4 random = philox({{static_cast<uint32_t>(row), static_cast<uint32_t>(args.step), relocates(args) ? 1u : 2u, 0u}},
                                static_cast<uint32_t>(args.seed), static_cast<uint32_t>(args.seed >> 32));
  const double u = ((random.v[0] >> 5) * 67108864.0 + (random.v[1] >> 6)) * (1.0 / 9007199254740992.0);
  return smaller(static_cast<int64_t>(u * static_cast<double>(total)), total - 1);
}

// The row drawn by that number: the first whose cumulative weight exceeds it.
LUXEL_HD int32_t row_at(const int64_t* cumulated, int64_t count, int64_t sum) {
  int64_t low = 0, high = count - 1;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (cumulated[middle] > sum)
      high = middle;
    else
      low = middle + 1;
  }
  return static_cast<int32_t>(low);
}

// Sets opacity and scales of a source of which `copies` copies are made.
LUXEL_HD void share_row(const luxel_relocate_args& args, int64_t n, int copies) {
  float shared, factor;
  share_appearance(opacity_of(args, n), copies + 1, shared, factor);
  shared = clamp(larger(shared, args.min_opacity), 1e-7f, 1.0f - 1e-6f);
  args.opacity_logits[n] = std::log(shared) - std::log1p(-shared);
  const float grown = std::log(factor);
  const int axes = scale_axes(args);
  for (int axis = 0; axis < axes; ++axis) args.log_scales[axes * n + axis] += grown;
}

}  // namespace luxel
