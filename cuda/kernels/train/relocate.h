// Rows of the stage relocate, one at a time; the loops around them are in the .cpp and .cu of the same name.
#pragma once

#include "abi/train.h"
#include "math/philox.h"
#include "math/relocation.h"

namespace luxel {

constexpr int kTensors = 6;  // of a Gaussian: means, quats, log_scales, opacity_logits, sh_dc, sh_rest

// The tensors in their order: of parameters, first and second moments.
struct RelocatedRows {
  float* kinds[3][kTensors];
  int width[kTensors];

  LUXEL_HD explicit RelocatedRows(const luxel_relocate_args& a)
      : kinds{{a.means, a.quats, a.log_scales, a.opacity_logits, a.sh_dc, a.sh_rest},
              {a.m_means, a.m_quats, a.m_log_scales, a.m_opacity_logits, a.m_sh_dc, a.m_sh_rest},
              {a.v_means, a.v_quats, a.v_log_scales, a.v_opacity_logits, a.v_sh_dc, a.v_sh_rest}},
        width{3, 4, 3, 1, 3, 3 * a.sh_stride} {}
};

LUXEL_HD bool relocates(const luxel_relocate_args& args) { return args.added == 0; }
LUXEL_HD float opacity_of(const luxel_relocate_args& args, int64_t n) { return sigmoid(args.opacity_logits[n]); }

// Weight of a row in the draw: 32 bits behind the point, so that sums come out the same in whatever order.
LUXEL_HD int64_t weight_of(const luxel_relocate_args& args, int64_t n) {
  const double weight = opacity_of(args, n);
  return weight > 0 && finite(weight) ? static_cast<int64_t>(weight * 4294967296.0) : 0;
}

// Which of the weights' sum the row draws, in [0, total).
LUXEL_HD int64_t drawn(const luxel_relocate_args& args, int64_t row, int64_t total) {
  const Random4 random = philox({{static_cast<uint32_t>(row), static_cast<uint32_t>(args.step), relocates(args) ? 1u : 2u, 0u}},
                                static_cast<uint32_t>(args.seed), static_cast<uint32_t>(args.seed >> 32));
  const double u = ((random.v[0] >> 5) * 67108864.0 + (random.v[1] >> 6)) * (1.0 / 9007199254740992.0);
  return smaller(static_cast<int64_t>(u * static_cast<double>(total)), total - 1);
}

// The row whose part of the sum that is: the first whose cumulated weight is above it.
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

// Opacity and scales of a row that `copies` others share.
LUXEL_HD void share_row(const luxel_relocate_args& args, int64_t n, int copies) {
  float shared, factor;
  share_appearance(opacity_of(args, n), copies + 1, shared, factor);
  shared = clamp(larger(shared, args.min_opacity), 1e-7f, 1.0f - 1e-6f);
  args.opacity_logits[n] = std::log(shared) - std::log1p(-shared);
  const float grown = std::log(factor);
  for (int axis = 0; axis < 3; ++axis) args.log_scales[3 * n + axis] += grown;
}

}  // namespace luxel
