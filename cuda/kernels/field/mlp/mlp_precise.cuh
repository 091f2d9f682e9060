// mlp in float throughout, simple rather than fast: for tests against the CPU.
#pragma once

#include "kernels/field/mlp/mlp_weights.cuh"

namespace luxel {

constexpr int kPreciseRows = 16, kPreciseThreads = 128;  // of a block

struct MlpPreciseGradients {
  float* hidden;  // [H,N,W], as MlpSumGradients
  float* last;    // [N,O padded to 16]
};

__global__ void __launch_bounds__(kPreciseThreads) mlp_precise_fwd_kernel(const luxel_mlp_args args) {
  __shared__ float h[2][kPreciseRows][LUXEL_MLP_WIDEST];
  const int64_t first = int64_t{blockIdx.x} * kPreciseRows;
  const int rows = static_cast<int>(smaller<int64_t>(kPreciseRows, args.count - first));
  for (int i = threadIdx.x; i < rows * args.inputs; i += kPreciseThreads)
    h[0][i / args.inputs][i % args.inputs] = in<float>(args.x)[first * args.inputs + i];
  for (int layer = 0; layer <= args.hidden_layers; ++layer) {
    __syncthreads();
    const bool last = layer == args.hidden_layers;
    const int inputs = layer_inputs(args, layer), outputs = layer_outputs(args, layer);
    const float* const matrix = in<float>(args.weights) + layer_start(args, layer);
    float* to = out<float>(last ? args.out : args.hidden);
    if (to) to += ((last ? 0 : layer * args.count) + first) * outputs;
    for (int i = threadIdx.x; i < rows * outputs; i += kPreciseThreads) {
      const int r = i / outputs, o = i % outputs;
      float sum = 0;
      for (int k = 0; k < inputs; ++k) sum = fused(h[layer % 2][r][k], matrix[o * inputs + k], sum);
      sum = activate(last ? args.output_activation : args.activation, sum);
      h[(layer + 1) % 2][r][o] = sum;
      if (to) to[i] = sum;
    }
  }
}

__global__ void __launch_bounds__(kPreciseThreads)
    mlp_precise_bwd_kernel(const luxel_mlp_args args, const MlpPreciseGradients sums) {
  __shared__ float g[2][kPreciseRows][LUXEL_MLP_WIDEST];
  const int64_t first = int64_t{blockIdx.x} * kPreciseRows;
  const int rows = static_cast<int>(smaller<int64_t>(kPreciseRows, args.count - first));
  const int hidden = args.hidden_layers;
  for (int i = threadIdx.x; i < rows * args.outputs; i += kPreciseThreads) {
    const int r = i / args.outputs, o = i % args.outputs;
    const int64_t at = first * args.outputs + i;
    const float value = in<float>(args.g_out)[at] * activate_vjp(args.output_activation, in<float>(args.out)[at]);
    g[hidden % 2][r][o] = value;
    sums.last[(first + r) * round_up(args.outputs, 16) + o] = value;
  }
  for (int layer = hidden; layer >= (args.g_x ? 0 : 1); --layer) {
    __syncthreads();
    const int inputs = layer_inputs(args, layer), outputs = layer_outputs(args, layer);
    const float* const matrix = in<float>(args.weights) + layer_start(args, layer);
    for (int i = threadIdx.x; i < rows * inputs; i += kPreciseThreads) {
      const int r = i / inputs, n = i % inputs;
      float sum = 0;
      for (int k = 0; k < outputs; ++k) sum = fused(g[layer % 2][r][k], matrix[k * inputs + n], sum);
      if (layer == 0) {
        out<float>(args.g_x)[first * inputs + i] = sum;
        continue;
      }
      const int64_t at = ((layer - 1) * args.count + first) * inputs + i;
      sum *= activate_vjp(args.activation, in<float>(args.hidden)[at]);
      g[(layer + 1) % 2][r][n] = sum;
      sums.hidden[at] = sum;
    }
  }
}

// As mlp_weights_kernel: a thread has every kWeightThreads-th number of the matrix.
__global__ void __launch_bounds__(kWeightThreads)
    mlp_precise_weights_kernel(const luxel_mlp_args args, const MlpPreciseGradients sums, float* sums_of_runs) {
  const int layer = blockIdx.y, inputs = layer_inputs(args, layer), outputs = layer_outputs(args, layer);
  int g_row;
  const float* const g = layer_gradients(args, sums, layer, g_row);
  const float* const entered = layer ? in<float>(args.hidden) + (layer - 1) * args.count * args.width : in<float>(args.x);
  const int64_t start = blockIdx.x * rows_of_run(args.count), end = smaller(args.count, start + rows_of_run(args.count));
  float* const to = sums_of_runs + blockIdx.x * layer_start(args, args.hidden_layers + 1) + layer_start(args, layer);
  for (int i = threadIdx.x; i < inputs * outputs; i += kWeightThreads) {
    const int o = i / inputs, n = i % inputs;
    float sum = 0;
    for (int64_t r = start; r < end; ++r) sum = fused(g[r * g_row + o], entered[r * inputs + n], sum);
    to[i] = sum;
  }
}

}  // namespace luxel
