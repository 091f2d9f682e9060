// The layers of the stage mlp: their sizes, and where their matrices lie.
#pragma once

#include "abi/field.h"
#include "math/field/mlp.h"
#include "math/raster/sh.h"
#include "kernels/error.h"
#include "kernels/arguments.h"

namespace luxel {

static_assert(int(kLinear) == LUXEL_LINEAR && int(kRelu) == LUXEL_RELU && int(kSoftplus) == LUXEL_SOFTPLUS && int(kSigmoid) == LUXEL_SIGMOID,
              "the activations of math/field/mlp.h and abi/field.h have the same numbers");

LUXEL_HD int layer_inputs(const luxel_mlp_args& args, int layer) { return layer == 0 ? args.inputs : args.width; }
LUXEL_HD int layer_outputs(const luxel_mlp_args& args, int layer) {
  return layer == args.hidden_layers ? args.outputs : args.width;
}
// Where the matrix of a layer starts in `weights`; of layer H + 1: P.
LUXEL_HD int64_t layer_start(const luxel_mlp_args& args, int layer) {
  const int64_t width = args.width, hidden = args.hidden_layers;
  if (layer == 0) return 0;
  if (layer <= hidden) return width * args.inputs + (layer - 1) * width * width;
  return hidden == 0 ? int64_t{args.inputs} * args.outputs
                     : width * args.inputs + (hidden - 1) * width * width + width * args.outputs;
}
LUXEL_HD int round_up(int n, int to) { return (n + to - 1) / to * to; }

// A run of rows is summed by one thread or block, the runs in their order. How many rows it has depends on N alone.
#if defined(__CUDACC__)
constexpr int kRowsOfPart = 64, kMaxRuns = 128;
#else
constexpr int kRowsOfPart = 48, kMaxRuns = 64;
#endif
LUXEL_HD int64_t rows_of_run(int64_t count) {
  const int64_t parts = (count + kRowsOfPart - 1) / kRowsOfPart, per_run = (parts + kMaxRuns - 1) / kMaxRuns;
  return (per_run < 1 ? 1 : per_run) * kRowsOfPart;
}
LUXEL_HD int64_t runs_of(int64_t count) { return (count + rows_of_run(count) - 1) / rows_of_run(count); }

inline int check_mlp(const luxel_mlp_args& args) {
  const int w = args.width;
  if (args.inputs < 1 || args.inputs > LUXEL_MLP_WIDEST) return fail("mlp: %d inputs, not 1..128", args.inputs);
  if (args.outputs < 1 || args.outputs > LUXEL_MLP_WIDEST) return fail("mlp: %d outputs, not 1..128", args.outputs);
  if (w != 16 && w != 32 && w != 64 && w != 128) return fail("mlp: width %d, not 16, 32, 64 or 128", w);
  if (args.hidden_layers < 0 || args.hidden_layers > LUXEL_MLP_DEEPEST)
    return fail("mlp: %d hidden layers, not 0..8", args.hidden_layers);
  if (args.directions && (args.inputs <= kHarmonics || args.inputs % 2))
    return fail("mlp: %d inputs with directions, not an even number above 16", args.inputs);
  return 0;
}

}  // namespace luxel
