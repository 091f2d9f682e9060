// One pixel of a view of the stage gather_view; the loops around it are in the .cpp and .cu of the same name.
#pragma once

#include "abi/train.h"
#include "math/hd.h"

namespace luxel {

constexpr int kRowNumbers = 28, kRowBackground = 12;

LUXEL_HD const int32_t* present_row(const luxel_gather_view_args& args, int view) {
  const int32_t cursor = args.table[0] + view;
  const int32_t held = cursor < 0 ? 0 : (cursor < args.table_rows ? cursor : args.table_rows - 1);
  return args.table + kRowNumbers * (1 + static_cast<int64_t>(held));
}

LUXEL_HD void gather_pixel(const luxel_gather_view_args& args, int view, const int32_t* row, int64_t pixel) {
  const int64_t pixels = static_cast<int64_t>(args.width) * args.height;
  const int64_t from = row[0] * pixels + pixel, to = view * pixels + pixel;
  const float* background = reinterpret_cast<const float*>(row + kRowBackground);
  const float cover = args.alphas ? static_cast<float>(args.alphas[from]) / 255.0f : 1.0f;
  for (int d = 0; d < 3; ++d) {
    const float colour = static_cast<float>(args.images[3 * from + d]) / 255.0f;
    args.rgb[3 * to + d] = args.alphas ? background[d] + cover * (colour - background[d]) : colour;
  }
  if (args.alphas) args.alpha[to] = cover;
  if (args.weights) args.weight[to] = static_cast<float>(args.weights[from]) / 255.0f;
}

// Copies pose, intrinsics and table row of a view; to be called for i = 0 .. 31.
LUXEL_HD void gather_number(const luxel_gather_view_args& args, int view, const int32_t* row, int i) {
  if (i < kRowNumbers) args.row[kRowNumbers * view + i] = row[i];
  if (i < 16) args.world_to_cam[16 * view + i] = args.poses[16 * static_cast<int64_t>(row[1]) + i];
  const int numbers = 4 + args.lens;
  if (i < numbers) args.camera[numbers * view + i] = args.intrinsics[numbers * static_cast<int64_t>(row[1]) + i];
}

// status[1] is set by an overflow, now or in an earlier step.
LUXEL_HD void count_one_step(const luxel_count_step_args& args) {
  if (args.overflow[0] != 0) args.status[1] = 1;
  if (args.status[1] == 0) args.status[0] += 1;
  const int64_t each = (args.totals[1] + args.views - 1) / args.views;
  const int64_t needed = each < 0x7fffffff ? each : 0x7fffffff;
  if (needed > args.status[2]) args.status[2] = static_cast<int32_t>(needed);
  args.table[0] += args.views;
}

}  // namespace luxel
