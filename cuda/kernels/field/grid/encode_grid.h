// What both backends of encode_grid share: levels from the arguments, and the choice of a template by D and F.
#pragma once

#include <type_traits>

#include "abi/field.h"
#include "math/field/grid.h"
#include "kernels/error.h"
#include "kernels/arguments.h"

namespace luxel {

struct GridLevels {
  GridLevel at[LUXEL_GRID_LEVELS];
};

inline int load_levels(const luxel_encode_grid_args& args, GridLevels* levels) {
  if (args.levels < 1 || args.levels > LUXEL_GRID_LEVELS) return fail("encode_grid: %d levels", args.levels);
  if (args.hashed < kGridWrapped || args.hashed > kGridHashedBlocks) return fail("encode_grid: hashed is %d, not 0 to 2", args.hashed);
  const auto beyond = static_cast<GridOrder>(args.hashed);
  for (int l = 0; l < args.levels; ++l)
    levels->at[l] = grid_level(args.scales[l], args.offsets[l], args.offsets[l + 1], args.dimensions, beyond);
  return 0;
}

template <int Value> using Fixed = std::integral_constant<int, Value>;

template <int D, typename Body> int with_features(const luxel_encode_grid_args& args, const Body& body) {
  switch (args.features) {
    case 1: return body(Fixed<D>(), Fixed<1>());
    case 2: return body(Fixed<D>(), Fixed<2>());
    case 4: return body(Fixed<D>(), Fixed<4>());
    case 8: return body(Fixed<D>(), Fixed<8>());
    default: return fail("encode_grid: %d features per level", args.features);
  }
}

// body(D, F) with both as constants.
template <typename Body> int with_sizes(const luxel_encode_grid_args& args, const Body& body) {
  switch (args.dimensions) {
    case 1: return with_features<1>(args, body);
    case 2: return with_features<2>(args, body);
    case 3: return with_features<3>(args, body);
    case 4: return with_features<4>(args, body);
    default: return fail("encode_grid: %d dimensions", args.dimensions);
  }
}

}  // namespace luxel
