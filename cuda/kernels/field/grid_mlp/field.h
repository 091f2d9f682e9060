// The stage field as its two parts: arguments of encode_grid and of mlp.
#pragma once

#include "kernels/field/grid/encode_grid.h"
#include "kernels/field/mlp/mlp.h"

namespace luxel {

inline luxel_encode_grid_args grid_of(const luxel_field_args& args) {
  luxel_encode_grid_args grid = {};
  grid.dtype = args.dtype;
  grid.device = args.device;
  grid.stream = args.stream;
  grid.x = args.x;
  grid.table = args.table;
  grid.half_table = args.half_table;
  grid.offsets = args.offsets;
  grid.scales = args.scales;
  grid.count = args.count;
  grid.dimensions = args.dimensions;
  grid.levels = args.levels;
  grid.features = args.features;
  grid.hashed = args.hashed;
  grid.g_table = args.g_table;
  return grid;
}

inline luxel_mlp_args network_of(const luxel_field_args& args) {
  luxel_mlp_args network = {};
  network.dtype = args.dtype;
  network.device = args.device;
  network.stream = args.stream;
  network.weights = args.weights;
  network.count = args.count;
  network.inputs = args.levels * args.features;
  network.width = args.width;
  network.hidden_layers = args.hidden_layers;
  network.outputs = args.outputs;
  network.activation = args.activation;
  network.output_activation = args.output_activation;
  network.out = args.out;
  network.g_out = args.g_out;
  network.g_weights = args.g_weights;
  network.live = args.live;
  return network;
}

inline int64_t aligned_size(int64_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace luxel
