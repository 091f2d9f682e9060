// mlp in half: 128 rows of a block pass through all layers in registers, forward or backward; matrices lie in shared memory.
#pragma once

#include "kernels/field/mlp/mlp.h"
#include "device/mma.cuh"

namespace luxel {

constexpr int kChainRows = 128;                                             // of a block at a time
template <int kWidth> constexpr int kTilesOfWarp = kWidth <= 64 ? 2 : 1;    // of 16 rows
template <int kWidth> constexpr int kChainThreads = kChainRows / (16 * kTilesOfWarp<kWidth>) * 32;

// Gradients of what the layers sum, before their activations; null where only g_x is computed.
struct MlpSumGradients {
  __half* hidden;  // [H,N,W]
  __half* last;    // [N,O padded to 16]
};

// Step s of a chain multiplies by the matrix of layer s, or, backward, by that of layer H - s transposed.
struct MlpStep {
  int layer, columns, depth;  // of the product, unpadded
  __device__ __host__ MlpStep(const luxel_mlp_args& args, int s, bool backward)
      : layer(backward ? args.hidden_layers - s : s),
        columns(backward ? layer_inputs(args, layer) : layer_outputs(args, layer)),
        depth(backward ? layer_outputs(args, layer) : layer_inputs(args, layer)) {}
  __device__ __host__ int row() const { return round_up(depth, 16) + kTilePadding; }
  __device__ __host__ int size() const { return round_up(columns, 16) * row(); }  // halves of shared memory
};

// Activations by the hardware's exponential and logarithm, accurate enough for half.
__device__ __forceinline__ float activate_half(int activation, float x) {
  if (activation == LUXEL_SOFTPLUS) return fmaxf(x, 0.0f) + __logf(1.0f + __expf(-fabsf(x)));
  if (activation == LUXEL_SIGMOID) return inverse(1.0f + __expf(-x));
  return activate(activation == LUXEL_RELU ? LUXEL_RELU : LUXEL_LINEAR, x);
}
__device__ __forceinline__ float activate_half_vjp(int activation, float y) {
  if (activation == LUXEL_SOFTPLUS) return 1.0f - __expf(-y);
  return activate_vjp(activation, y);
}

// Columns of the matrix of a step become rows in shared memory, padded with zeros.
template <bool kBackward> __device__ void load_matrix(const luxel_mlp_args& args, const MlpStep& step, __half* to) {
  const float* from = in<float>(args.weights) + layer_start(args, step.layer);
  const int columns = round_up(step.columns, 16), depth = round_up(step.depth, 16);
  for (int i = threadIdx.x; i < columns * depth; i += blockDim.x) {
    const int n = kBackward ? i % columns : i / depth, k = kBackward ? i / columns : i % depth;
    const float value = n < step.columns && k < step.depth ? from[kBackward ? k * step.columns + n : n * step.depth + k] : 0.0f;
    to[n * step.row() + k] = __float2half_rn(value);
  }
}

// Two numbers of what a chain starts with: x, or the gradient by the sums of the last layer.
template <bool kBackward>
__device__ __forceinline__ uint32_t first_pair(const luxel_mlp_args& args, __half* last, int64_t row, int k) {
  const int depth = kBackward ? args.outputs : args.inputs;
  float pair[2] = {};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (row >= args.count || k + i >= depth) continue;
    const int64_t at = row * depth + k + i;
    pair[i] = kBackward ? in<float>(args.g_out)[at] * activate_vjp(args.output_activation, in<float>(args.out)[at])
                        : in<float>(args.x)[at];
  }
  const uint32_t packed = pack_halves(pair[0], pair[1]);
  if (kBackward && last && row < args.count)
    *reinterpret_cast<uint32_t*>(last + row * round_up(depth, 16) + k) = packed;
  return packed;
}

template <int kWidth, bool kBackward> struct MlpChain {
  static constexpr int kTiles = kTilesOfWarp<kWidth>;
  const luxel_mlp_args& args;
  const MlpSumGradients& sums;
  const int64_t row;  // of the warp's first row, plus g
  const int t;        // lane % 4
  const int corner_row, corner_column;  // where this lane's row of four tiles of a matrix starts

  // Sixteen columns of the factor on the left, of the first step.
  __device__ __forceinline__ void load_first(uint32_t (&a)[kTiles][4], int k0, bool store) const {
#pragma unroll
    for (int m = 0; m < kTiles; ++m)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        a[m][i] = first_pair<kBackward>(args, store ? sums.last : nullptr, row + 16 * m + 8 * (i % 2), k0 + 8 * (i / 2) + 2 * t);
  }

  // c += a times kColumns tiles of eight columns of a matrix.
  template <int kColumns>
  __device__ __forceinline__ void multiply(float (&c)[kTiles][kColumns][4], const uint32_t (&a)[kTiles][4], const __half* matrix,
                                           int matrix_row) const {
#pragma unroll
    for (int j = 0; j < kColumns; j += 2) {
      uint32_t b[4];
      load_tiles(b, matrix + (8 * j + corner_row) * matrix_row + corner_column);
#pragma unroll
      for (int m = 0; m < kTiles; ++m) {
        multiply_tiles(c[m][j], a[m], b[0], b[1]);
        multiply_tiles(c[m][j + 1], a[m], b[2], b[3]);
      }
    }
  }

  // c += all that step s multiplies, from memory in the first step, times columns of its matrix.
  template <int kColumns>
  __device__ __forceinline__ void multiply_all(float (&c)[kTiles][kColumns][4], const uint32_t (&a)[kTiles][kWidth / 16][4], int s,
                                               const MlpStep& step, const __half* matrix, bool store) const {
    if (s == 0) {
      for (int k0 = 0; k0 < step.depth; k0 += 16) {
        uint32_t first[kTiles][4];
        load_first(first, k0, store);
        multiply(c, first, matrix + k0, step.row());
      }
    } else {
#pragma unroll
      for (int k = 0; k < kWidth / 16; ++k) {
        uint32_t part[kTiles][4];
#pragma unroll
        for (int i = 0; i < 4 * kTiles; ++i) part[i / 4][i % 4] = a[i / 4][k][i % 4];
        multiply(c, part, matrix + 16 * k, kWidth + kTilePadding);
      }
    }
  }

  // Sums to what the next step multiplies, and to memory.
  template <int kActivation>
  __device__ __forceinline__ void finish_hidden(const float (&c)[kTiles][kWidth / 8][4], uint32_t (&a)[kTiles][kWidth / 16][4],
                                                int layer) const {
    __half* const kept = out<__half>(args.hidden) + (kBackward || args.hidden ? layer * args.count * kWidth : 0);
#pragma unroll
    for (int m = 0; m < kTiles; ++m)
#pragma unroll
      for (int j = 0; j < kWidth / 8; ++j)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int64_t r = row + 16 * m + 8 * i, at = r * kWidth + 8 * j + 2 * t;
          float x = c[m][j][2 * i], y = c[m][j][2 * i + 1];
          if constexpr (kBackward) {
            const float2 value = unpack_halves(r < args.count ? *reinterpret_cast<const uint32_t*>(kept + at) : 0u);
            x *= activate_half_vjp(kActivation, value.x);
            y *= activate_half_vjp(kActivation, value.y);
          } else {
            x = activate_half(kActivation, x);
            y = activate_half(kActivation, y);
          }
          const uint32_t packed = pack_halves(x, y);
          a[m][j / 2][2 * (j % 2) + i] = packed;
          __half* const to = kBackward ? sums.hidden + (sums.hidden ? layer * args.count * kWidth : 0) : kept;
          if ((kBackward ? sums.hidden : args.hidden) && r < args.count) *reinterpret_cast<uint32_t*>(to + at) = packed;
        }
  }

  __device__ __forceinline__ void finish_last(const float (&c)[kTiles][2][4], int first, int columns) const {
    float* const to = out<float>(kBackward ? args.g_x : args.out);
    if (!to) return;
#pragma unroll
    for (int m = 0; m < kTiles; ++m)
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int64_t r = row + 16 * m + 8 * (i / 2 % 2);
        const int n = first + 8 * (i / 4) + 2 * t + i % 2;
        const float value = c[m][i / 4][i % 4];
        if (r < args.count && n < columns) to[r * columns + n] = kBackward ? value : activate_half(args.output_activation, value);
      }
  }

  // A step to a hidden layer.
  __device__ __forceinline__ void hidden_step(uint32_t (&a)[kTiles][kWidth / 16][4], int s, const MlpStep& step,
                                              const __half* matrix) const {
    float c[kTiles][kWidth / 8][4] = {};
    multiply_all(c, a, s, step, matrix, true);
    const int layer = kBackward ? step.layer - 1 : s;
    switch (args.activation) {  // outside of the unrolled loops
      case LUXEL_RELU: finish_hidden<LUXEL_RELU>(c, a, layer); break;
      case LUXEL_SOFTPLUS: finish_hidden<LUXEL_SOFTPLUS>(c, a, layer); break;
      case LUXEL_SIGMOID: finish_hidden<LUXEL_SIGMOID>(c, a, layer); break;
      default: finish_hidden<LUXEL_LINEAR>(c, a, layer);
    }
  }

  __device__ __forceinline__ void last_step(const uint32_t (&a)[kTiles][kWidth / 16][4], int s, const MlpStep& step,
                                            const __half* matrix) const {
    for (int n0 = 0; n0 < step.columns; n0 += 16) {
      float c[kTiles][2][4] = {};
      multiply_all(c, a, s, step, matrix + n0 * step.row(), n0 == 0);
      finish_last(c, n0, step.columns);
    }
  }
};

// resident: shared memory holds all matrices; else the one that is in use.
template <int kWidth, bool kBackward>
__global__ void __launch_bounds__(kChainThreads<kWidth>, kWidth == 128 ? 1 : 2)
    mlp_chain_kernel(const luxel_mlp_args args, const MlpSumGradients sums, bool resident) {
  constexpr int kTiles = kTilesOfWarp<kWidth>;
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  auto* const shared = reinterpret_cast<__half*>(shared_bytes);
  const int hidden = args.hidden_layers, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (resident) {
    __half* to = shared;
    for (int s = 0; s <= hidden; ++s) {
      const MlpStep step(args, s, kBackward);
      load_matrix<kBackward>(args, step, to);
      to += step.size();
    }
    __syncthreads();
  }
  for (int64_t first = int64_t{blockIdx.x} * kChainRows; first < args.count; first += int64_t{gridDim.x} * kChainRows) {
    const MlpChain<kWidth, kBackward> chain{args, sums, first + warp * 16 * kTiles + lane / 4, lane % 4,
                                            lane % 8 + (lane & 16 ? 8 : 0), lane & 8 ? 8 : 0};
    uint32_t a[kTiles][kWidth / 16][4];
    const __half* matrix = shared;
    for (int s = 0; s <= hidden; ++s) {
      if (kBackward && s == hidden && hidden > 0 && !args.g_x) break;
      const MlpStep step(args, s, kBackward);
      if (!resident) {
        __syncthreads();
        load_matrix<kBackward>(args, step, shared);
        __syncthreads();
      }
      if (s < hidden) chain.hidden_step(a, s, step, matrix);
      else chain.last_step(a, s, step, matrix);
      if (resident) matrix += step.size();
    }
  }
}

}  // namespace luxel
