// The gradient of mlp by its weights: sums over runs of rows, of a layer and a run by one block, then over the runs.
#pragma once

#include "kernels/field/mlp/mlp_chain.cuh"

namespace luxel {

constexpr int kWeightThreads = 256, kWeightWarps = kWeightThreads / 32;

// Where the gradients by a layer's sums lie, and their row.
template <typename Sums> __device__ auto layer_gradients(const luxel_mlp_args& args, const Sums& sums, int layer, int& row) {
  const bool last = layer == args.hidden_layers;
  row = last ? round_up(args.outputs, 16) : args.width;
  return last ? sums.last : sums.hidden + layer * args.count * args.width;
}

// A part of a run in shared memory, [kRowsOfPart, columns padded to 16 + kTilePadding]; rows beyond the run are 0.
template <typename T>
__device__ void load_part(const T* from, int columns, int from_row, int64_t first, int64_t end, __half* to) {
  const int wide = round_up(columns, 16);
  for (int i = threadIdx.x; i < kRowsOfPart * wide; i += kWeightThreads) {
    const int r = i / wide, n = i % wide;
    const bool there = first + r < end && n < columns;
    to[r * (wide + kTilePadding) + n] = there ? static_cast<__half>(from[(first + r) * from_row + n]) : __half(0.0f);
  }
}
// The same of halves whose columns are a multiple of 16, eight at a time.
__device__ inline void load_part(const __half* from, int columns, int64_t first, int64_t end, __half* to) {
  const int words = columns / 8;
  for (int i = threadIdx.x; i < kRowsOfPart * words; i += kWeightThreads) {
    const int r = i / words, n = 8 * (i % words);
    const uint4 none = {0, 0, 0, 0};
    *reinterpret_cast<uint4*>(to + r * (columns + kTilePadding) + n) =
        first + r < end ? *reinterpret_cast<const uint4*>(from + (first + r) * columns + n) : none;
  }
}

// Warps share out the tiles of a matrix: each has 16 outputs, and every groups-th tile of 8 inputs.
__device__ __host__ inline int warps_of_outputs(int outputs) { return kWeightWarps / (round_up(outputs, 16) / 16); }
__device__ __host__ inline int weight_tiles(int inputs, int outputs) {
  const int groups = warps_of_outputs(outputs), tiles = round_up(inputs, 16) / 8;
  return (tiles + groups - 1) / groups;
}

// kTiles: at least weight_tiles of every layer. sums_of_runs [runs, P].
template <int kTiles>
__global__ void __launch_bounds__(kWeightThreads, kTiles > 4 ? 1 : 2)
    mlp_weights_kernel(const luxel_mlp_args args, const MlpSumGradients sums, float* sums_of_runs) {
  constexpr int kRow = LUXEL_MLP_WIDEST + kTilePadding;
  __shared__ __align__(16) __half g_part[kRowsOfPart * kRow], entered_part[kRowsOfPart * kRow];
  const int layer = blockIdx.y, inputs = layer_inputs(args, layer), outputs = layer_outputs(args, layer);
  const int g_columns = round_up(outputs, 16), g_row = g_columns + kTilePadding;
  const int columns = round_up(inputs, 16), entered_row = columns + kTilePadding;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, groups = warps_of_outputs(outputs);
  const int output = 16 * (warp % (g_columns / 16)), group = warp / (g_columns / 16);
  int from_row;
  const __half* const g = layer_gradients(args, sums, layer, from_row);
  const int64_t per_run = rows_of_run(args.count), start = blockIdx.x * per_run;
  const int64_t end = smaller(args.count, start + per_run);
  float c[kTiles][4] = {};
  for (int64_t first = start; first < end; first += kRowsOfPart) {
    __syncthreads();
    load_part(g, from_row, first, end, g_part);
    if (layer == 0) load_part(in<float>(args.x), inputs, inputs, first, end, entered_part);
    else load_part(in<__half>(args.hidden) + (layer - 1) * args.count * args.width, args.width, first, end, entered_part);
    __syncthreads();
    if (group >= groups) continue;
#pragma unroll
    for (int k0 = 0; k0 < kRowsOfPart; k0 += 16) {
      uint32_t a[4];
      load_tiles_transposed(a, g_part + (k0 + lane % 8 + (lane & 16 ? 8 : 0)) * g_row + output + (lane & 8 ? 8 : 0));
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
        const int n = 8 * (group + j * groups);
        if (n >= columns) break;
        uint32_t b[2];
        load_two_tiles_transposed(b, entered_part + (k0 + lane % 16) * entered_row + n);
        multiply_tiles(c[j], a, b[0], b[1]);
      }
    }
  }
  if (group >= groups) return;
  float* const to = sums_of_runs + blockIdx.x * layer_start(args, args.hidden_layers + 1) + layer_start(args, layer);
#pragma unroll
  for (int j = 0; j < kTiles; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int o = output + lane / 4 + 8 * (i / 2), n = 8 * (group + j * groups) + 2 * (lane % 4) + i % 2;
      if (o < outputs && n < inputs) to[o * inputs + n] = c[j][i];
    }
}

__global__ void __launch_bounds__(kWeightThreads)
    mlp_sum_kernel(const luxel_mlp_args args, const float* sums_of_runs, int64_t size, int64_t runs) {
  const int64_t p = int64_t{blockIdx.x} * kWeightThreads + threadIdx.x;
  if (p >= size) return;
  float total = 0;
  for (int64_t run = 0; run < runs; ++run) total += sums_of_runs[run * size + p];
  out<float>(args.g_weights)[p] = total;
}

}  // namespace luxel
