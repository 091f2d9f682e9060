// Four numbers of the stage colour_inputs; the loops around them are in the .cpp and .cu of the same name.
#pragma once

#include "abi/field.h"
#include "math/raster/sh.h"
#include "kernels/arguments.h"

namespace luxel {

LUXEL_HD int64_t fours_of_inputs(const luxel_colour_inputs_args& args) { return live_rows(args) * ((args.width + kHarmonics) / 4); }
LUXEL_HD int64_t fours_of_features(const luxel_colour_inputs_args& args) { return args.count * (args.width / 4); }

template <typename T> LUXEL_HD void write_four_inputs(const luxel_colour_inputs_args& args, int64_t four) {
  const int of_features = args.width / 4, in_row = of_features + kHarmonics / 4;
  const int64_t s = four / in_row;
  const int part = static_cast<int>(four - s * in_row);
  T values[4];
  if (part < of_features) {
    load4(in<T>(args.features) + s * args.width + 4 * part, values);
    if (part == 0) out<T>(args.density)[s] = values[0];
  } else {
    T harmonics[kHarmonics];
    harmonics_of(load3(in<T>(args.directions) + 3 * s), harmonics);
    const int quarter = part - of_features;
    LUXEL_UNROLL
    for (int i = 0; i < 4; ++i)
      values[i] = quarter < 2 ? (quarter == 0 ? harmonics[i] : harmonics[4 + i]) : (quarter == 2 ? harmonics[8 + i] : harmonics[12 + i]);
  }
  store4(out<T>(args.inputs) + 4 * four, values);
}

template <typename T> LUXEL_HD void write_four_gradients(const luxel_colour_inputs_args& args, int64_t four) {
  const int in_row = args.width / 4;
  const int64_t s = four / in_row;
  const int part = static_cast<int>(four - s * in_row);
  T values[4];
  load4(in<T>(args.g_inputs) + s * (args.width + kHarmonics) + 4 * part, values);
  if (part == 0 && args.g_density) values[0] += in<T>(args.g_density)[s];
  store4(out<T>(args.g_features) + 4 * four, values);
}

}  // namespace luxel
