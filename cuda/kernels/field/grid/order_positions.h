// What both backends of order_positions share.
#pragma once

#include "abi/field.h"
#include "math/field/hilbert.h"
#include "kernels/error.h"
#include "kernels/arguments.h"

namespace luxel {

inline int check_order(const luxel_order_positions_args& args) {
  if (args.dimensions != 2 && args.dimensions != 3) return fail("order_positions: %d dimensions, not 2 or 3", args.dimensions);
  if (args.count >= 1 << 30) return fail("order_positions: 2^30 positions are too many");  // the sort's limit
  return 0;
}

}  // namespace luxel
