// One parameter of the stage view_adam; the loops around it, and what all views share, are in the .cpp and .cu of the same name.
#pragma once

#include "abi/train.h"
#include "math/hd.h"

namespace luxel {

constexpr int kMaxDirections = 8;

// b: index in the step. Does nothing where an earlier one is the same view.
LUXEL_HD void move_parameter(const luxel_view_adam_args& args, int b, int p) {
  const int64_t view = args.of_step[b];
  if (view < 0 || view >= args.views) return;
  for (int before = 0; before < b; ++before)
    if (args.of_step[before] == view) return;
  float gradient = 0.0f;
  for (int other = b; other < args.views_of_step; ++other)
    if (args.of_step[other] == view) gradient += args.gradients[static_cast<int64_t>(other) * args.width + p];
  const int64_t at = view * args.width + p;
  gradient += args.penalty * (args.values[at] - (args.centre ? args.centre[at] : 0.0f));
  const float first = args.beta1 * args.first[at] + (1.0f - args.beta1) * gradient;
  const float second = args.beta2 * args.second[at] + (1.0f - args.beta2) * gradient * gradient;
  args.first[at] = first;
  args.second[at] = second;
  args.values[at] -= args.schedule[0] * first / (root(second / args.schedule[1]) + args.eps);
}

}  // namespace luxel
