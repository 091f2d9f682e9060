// mlp in float throughout: tiles of rows in shared memory and of sums in registers, layer after layer.
#pragma once

#include "kernels/field/mlp/mlp_weights.cuh"

namespace luxel {

constexpr int kPreciseRows = 64, kPreciseThreads = 128;  // of a block
constexpr int kPreciseRow = kPreciseRows + 4;            // floats: columns of a tile begin in different banks
constexpr int kPreciseDepth = 16;                        // rows of a matrix in shared memory at a time
constexpr int kPreciseRowsOfPart = 32, kPreciseTile = 64;  // of the gradient by the weights

struct MlpPreciseGradients {
  float* hidden;  // [H,N,W], as MlpSumGradients
  float* last;    // [N,O padded to 16]
};

// What a block has in shared memory, for layers of at most kWidest inputs and outputs.
template <int kWidest> struct PreciseTile {
  __align__(16) float rows[kWidest][kPreciseRow];  // [column][row]
  __align__(16) float part[kPreciseDepth * (kWidest + 4)];
};

// kCount floats, 2 or a multiple of 4, aligned to their size.
template <int kCount> __device__ void load_floats(const float* from, float* to) {
  if constexpr (kCount == 2) {
    const float2 v = *reinterpret_cast<const float2*>(from);
    to[0] = v.x, to[1] = v.y;
  } else {
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
      const float4 v = *reinterpret_cast<const float4*>(from + i);
      to[i] = v.x, to[i + 1] = v.y, to[i + 2] = v.z, to[i + 3] = v.w;
    }
  }
}

// The rows of a tile, [rows, depth], times a matrix [depth, columns], in place. Each thread sums kR rows of kC columns;
// element(k, n) of the matrix; finish(row, column, sum) is what replaces the sum. kByDepth: elements of successive k lie
// beside each other in memory, else of successive n.
template <int kR, int kC, bool kByDepth, int kWidest, typename Element, typename Finish>
__device__ void multiply_tile(PreciseTile<kWidest>& tile, int depth, int columns, Element element, Finish finish) {
  constexpr int kRowGroups = kPreciseRows / kR, kColumnGroups = kPreciseThreads / kRowGroups;
  constexpr int kColumns = kC * kColumnGroups, kStride = kColumns + 4;
  static_assert(kColumns <= kWidest, "columns of a tile fit into it");
  const int group = threadIdx.x % kColumnGroups, first_row = kR * (threadIdx.x / kColumnGroups);
  float sums[kR][kC] = {};
  for (int k0 = 0; k0 < depth; k0 += kPreciseDepth) {
    const int deep = smaller(kPreciseDepth, depth - k0);
    __syncthreads();
    for (int i = threadIdx.x; i < kPreciseDepth * kColumns; i += kPreciseThreads) {
      const int k = kByDepth ? i % kPreciseDepth : i / kColumns, n = kByDepth ? i / kPreciseDepth : i % kColumns;
      const float value = k < deep && n < columns ? element(k0 + k, n) : 0.0f;
      tile.part[k * kStride + n % kColumnGroups * kC + n / kColumnGroups] = value;  // those of a thread side by side
    }
    __syncthreads();
#pragma unroll 4
    for (int k = 0; k < deep; ++k) {
      float a[kR], b[kC];
      load_floats<kR>(&tile.rows[k0 + k][first_row], a);
      load_floats<kC>(&tile.part[k * kStride + group * kC], b);
#pragma unroll
      for (int i = 0; i < kR; ++i)
#pragma unroll
        for (int j = 0; j < kC; ++j) sums[i][j] = fused(a[i], b[j], sums[i][j]);
    }
  }
  __syncthreads();
#pragma unroll
  for (int j = 0; j < kC; ++j) {
    const int column = group + kColumnGroups * j;
    if (column >= columns) continue;
#pragma unroll
    for (int i = 0; i < kR; ++i) tile.rows[column][first_row + i] = finish(first_row + i, column, sums[i][j]);
  }
}

template <bool kByDepth, int kWidest, typename Element, typename Finish>
__device__ void multiply_tile(PreciseTile<kWidest>& tile, int depth, int columns, Element element, Finish finish) {
  if (columns <= 16) return multiply_tile<2, 4, kByDepth>(tile, depth, columns, element, finish);
  if (columns <= 32) return multiply_tile<4, 4, kByDepth>(tile, depth, columns, element, finish);
  if (columns <= 64) return multiply_tile<8, 4, kByDepth>(tile, depth, columns, element, finish);
  if constexpr (kWidest > 64) multiply_tile<8, 8, kByDepth>(tile, depth, columns, element, finish);
}

template <int kWidest> __global__ void __launch_bounds__(kPreciseThreads) mlp_precise_fwd_kernel(const luxel_mlp_args args) {
  __shared__ PreciseTile<kWidest> tile;
  const int64_t first = int64_t{blockIdx.x} * kPreciseRows;
  if (args.live && first >= *in<int32_t>(args.live)) return;
  const int rows = static_cast<int>(smaller<int64_t>(kPreciseRows, args.count - first));
  for (int i = threadIdx.x; i < kPreciseRows * args.inputs; i += kPreciseThreads) {
    const int r = i / args.inputs;
    tile.rows[i % args.inputs][r] = r < rows ? in<float>(args.x)[first * args.inputs + i] : 0.0f;
  }
  for (int layer = 0; layer <= args.hidden_layers; ++layer) {
    const bool last = layer == args.hidden_layers;
    const int inputs = layer_inputs(args, layer), outputs = layer_outputs(args, layer);
    const int activation = last ? args.output_activation : args.activation;
    const float* const matrix = in<float>(args.weights) + layer_start(args, layer);
    float* to = out<float>(last ? args.out : args.hidden);
    if (to) to += ((last ? 0 : layer * args.count) + first) * outputs;
    const auto element = [=](int k, int n) { return matrix[n * inputs + k]; };
    multiply_tile<true>(tile, inputs, outputs, element, [=](int row, int column, float sum) {
      const float value = activate(activation, sum);
      if (to && row < rows) to[row * outputs + column] = value;
      return value;
    });
  }
}

template <int kWidest>
__global__ void __launch_bounds__(kPreciseThreads)
    mlp_precise_bwd_kernel(const luxel_mlp_args args, const MlpPreciseGradients sums) {
  __shared__ PreciseTile<kWidest> tile;
  const int64_t first = int64_t{blockIdx.x} * kPreciseRows;
  const int rows = static_cast<int>(smaller<int64_t>(kPreciseRows, args.count - first));
  for (int i = threadIdx.x; i < kPreciseRows * args.outputs; i += kPreciseThreads) {
    const int r = i / args.outputs, o = i % args.outputs;
    const int64_t at = first * args.outputs + i;
    float value = 0;
    if (r < rows) {
      value = in<float>(args.g_out)[at] * activate_vjp(args.output_activation, in<float>(args.out)[at]);
      sums.last[(first + r) * round_up(args.outputs, 16) + o] = value;
    }
    tile.rows[o][r] = value;
  }
  for (int layer = args.hidden_layers; layer >= (args.g_x ? 0 : 1); --layer) {
    const int inputs = layer_inputs(args, layer), outputs = layer_outputs(args, layer);
    const float* const matrix = in<float>(args.weights) + layer_start(args, layer);
    const int64_t start = layer ? ((layer - 1) * args.count + first) * inputs : first * inputs;
    const float* const entered = layer ? in<float>(args.hidden) + start : nullptr;
    float* const to = (layer ? sums.hidden : out<float>(args.g_x)) + start;
    const int activation = args.activation;
    const auto element = [=](int k, int n) { return matrix[k * inputs + n]; };
    multiply_tile<false>(tile, outputs, inputs, element, [=](int row, int column, float sum) {
      if (row >= rows) return 0.0f;
      const int at = row * inputs + column;
      const float value = entered ? sum * activate_vjp(activation, entered[at]) : sum;
      to[at] = value;
      return value;
    });
  }
}

// Columns first_column on of the rows of a part of a run in shared memory; what is beyond the run or the columns is 0.
__device__ inline void load_precise_part(const float* from, int columns, int first_column, int from_row, int64_t first,
                                         int64_t end, float (*to)[kPreciseTile]) {
  for (int i = threadIdx.x; i < kPreciseRowsOfPart * kPreciseTile; i += kWeightThreads) {
    const int r = i / kPreciseTile, n = first_column + i % kPreciseTile;
    to[r][i % kPreciseTile] = first + r < end && n < columns ? from[(first + r) * from_row + n] : 0.0f;
  }
}

// As mlp_weights_kernel: a block goes over its run once for each tile of the matrix, a thread has 4 x 4 numbers of a tile.
__global__ void __launch_bounds__(kWeightThreads)
    mlp_precise_weights_kernel(const luxel_mlp_args args, const MlpPreciseGradients sums, float* sums_of_runs) {
  __shared__ __align__(16) float g_part[kPreciseRowsOfPart][kPreciseTile], entered_part[kPreciseRowsOfPart][kPreciseTile];
  const int layer = blockIdx.y, inputs = layer_inputs(args, layer), outputs = layer_outputs(args, layer);
  int g_row;
  const float* const g = layer_gradients(args, sums, layer, g_row);
  const float* const entered = layer ? in<float>(args.hidden) + (layer - 1) * args.count * args.width : in<float>(args.x);
  const int64_t start = blockIdx.x * rows_of_run(args.count), end = smaller(args.count, start + rows_of_run(args.count));
  float* const to = sums_of_runs + blockIdx.x * layer_start(args, args.hidden_layers + 1) + layer_start(args, layer);
  const int output = 4 * (threadIdx.x / (kPreciseTile / 4)), input = 4 * (threadIdx.x % (kPreciseTile / 4));
  for (int o0 = 0; o0 < outputs; o0 += kPreciseTile)
    for (int n0 = 0; n0 < inputs; n0 += kPreciseTile) {
      float c[4][4] = {};
      const bool used = o0 + output < outputs && n0 + input < inputs;
      for (int64_t first = start; first < end; first += kPreciseRowsOfPart) {
        __syncthreads();
        load_precise_part(g, outputs, o0, g_row, first, end, g_part);
        load_precise_part(entered, inputs, n0, inputs, first, end, entered_part);
        __syncthreads();
        if (!used) continue;
#pragma unroll 8
        for (int r = 0; r < kPreciseRowsOfPart; ++r) {
          float a[4], b[4];
          load_floats<4>(&g_part[r][output], a);
          load_floats<4>(&entered_part[r][input], b);
#pragma unroll
          for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int j = 0; j < 4; ++j) c[i][j] = fused(a[i], b[j], c[i][j]);
        }
      }
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int o = o0 + output + i, n = n0 + input + j;
          if (o < outputs && n < inputs) to[o * inputs + n] = c[i][j];
        }
    }
}

}  // namespace luxel
