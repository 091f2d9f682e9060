// field backward in half, up to the gradient by the features. A block has 64 rows at a time, a warp 16 of them: it recomputes the
// hidden layers, then their gradients, all in shared memory, from which the block's warps accumulate the gradients of the
// matrices, a part each, in registers; each block writes one sum to global memory at the end.
#pragma once

#include "kernels/field/grid_mlp/field_chain.cuh"

namespace luxel {

constexpr int kBackWarps = 4, kBackThreads = 32 * kBackWarps, kBackRows = 16 * kBackWarps;
constexpr int kBackBlocks = 3;  // per multiprocessor

// Shared memory of a block after the matrices, in halves.
template <int kWidth, int kHidden> struct BackTiles {
  static constexpr int kRow = kWidth + kTilePadding, kLastRow = 16 + kTilePadding;
  static constexpr int kHiddenAt = kBackRows * kFeatureRow;  // features are at 0
  static constexpr int kGradientAt = kHiddenAt + kHidden * kBackRows * kRow;
  static constexpr int kLastAt = kGradientAt + kHidden * kBackRows * kRow;
  static constexpr int kSize = kLastAt + kBackRows * kLastRow;
};

// A factor on the left in a tile of shared memory; row: of lane / 4, in halves.
template <int kParts> __device__ __forceinline__ void store_factor(const uint32_t (&a)[kParts][4], __half* tile, int row, int lane) {
#pragma unroll
  for (int k = 0; k < kParts; ++k)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      *reinterpret_cast<uint32_t*>(tile + (lane / 4 + 8 * (i % 2)) * row + 16 * k + 8 * (i / 2) + 2 * (lane % 4)) = a[k][i];
}

// Multiplies accumulators by the derivative of the activations whose values this lane stored in `tile`; the result is the next left
// factor.
template <int kActivation, int kWidth>
__device__ __forceinline__ void slope_rows_by(const float (&c)[kWidth / 8][4], const __half* tile, uint32_t (&a)[kWidth / 16][4],
                                              int lane) {
#pragma unroll
  for (int j = 0; j < kWidth / 8; ++j)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const __half* const at = tile + (lane / 4 + 8 * i) * (kWidth + kTilePadding) + 8 * j + 2 * (lane % 4);
      const float2 y = unpack_halves(*reinterpret_cast<const uint32_t*>(at));
      a[j / 2][2 * (j % 2) + i] = pack_halves(c[j][2 * i] * activate_half_vjp(kActivation, y.x),
                                              c[j][2 * i + 1] * activate_half_vjp(kActivation, y.y));
    }
}
template <int kWidth>
__device__ __forceinline__ void slope_rows(int activation, const float (&c)[kWidth / 8][4], const __half* tile,
                                           uint32_t (&a)[kWidth / 16][4], int lane) {
  switch (activation) {
    case LUXEL_RELU: slope_rows_by<LUXEL_RELU, kWidth>(c, tile, a, lane); break;
    case LUXEL_SOFTPLUS: slope_rows_by<LUXEL_SOFTPLUS, kWidth>(c, tile, a, lane); break;
    case LUXEL_SIGMOID: slope_rows_by<LUXEL_SIGMOID, kWidth>(c, tile, a, lane); break;
    default: slope_rows_by<LUXEL_LINEAR, kWidth>(c, tile, a, lane);
  }
}

// The gradient by the sums of the last layer.
__device__ __forceinline__ void load_last(const luxel_mlp_args& args, const RowPlaces& places, int64_t row, int t,
                                          uint32_t (&a)[1][4]) {
  const int64_t at[2] = {places(row), places(row + 8)};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int64_t r = at[i % 2];
    const int n = 8 * (i / 2) + 2 * t;
    if (row + 8 * (i % 2) >= args.count) {
      a[0][i] = 0;
      continue;
    }
    float2 g = load_two(in<float>(args.g_out), r, n, args.outputs);
    if (args.output_activation != LUXEL_LINEAR) {
      const float2 y = load_two(in<float>(args.out), r, n, args.outputs);
      g.x *= activate_vjp(args.output_activation, y.x);
      g.y *= activate_vjp(args.output_activation, y.y);
    }
    a[0][i] = pack_halves(g.x, g.y);
  }
}

// sums += the transpose of 16 columns of g times kTiles tiles of eight columns of `entered`, over the block's rows.
template <int kTiles>
__device__ __forceinline__ void add_weights(float (&sums)[kTiles][4], const __half* g, int g_row, const __half* entered,
                                            int entered_row, int lane) {
#pragma unroll
  for (int k0 = 0; k0 < kBackRows; k0 += 16) {
    uint32_t a[4];
    load_tiles_transposed(a, g + (k0 + lane % 8 + (lane & 16 ? 8 : 0)) * g_row + (lane & 8 ? 8 : 0));
    if constexpr (kTiles == 1) {
      uint32_t b[2];
      load_two_tiles_transposed(b, entered + (k0 + lane % 16) * entered_row);
      multiply_tiles(sums[0], a, b[0], b[1]);
    } else {
      multiply_rows_plain<kTiles>(sums, a, entered + k0 * entered_row, entered_row, lane);
    }
  }
}
template <int kTiles>
__device__ __forceinline__ void store_weights(const float (&sums)[kTiles][4], float* to, int output, int outputs, int input,
                                              int inputs, int lane) {
#pragma unroll
  for (int j = 0; j < kTiles; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int o = output + lane / 4 + 8 * (i / 2), n = input + 8 * j + 2 * (lane % 4) + i % 2;
      if (o < outputs && n < inputs) to[o * inputs + n] = sums[j][i];
    }
}

// g_features: at is null where absent. sums [blocks,P]: null where absent.
template <int kWidth, int kHidden, typename Features>
__global__ void __launch_bounds__(kBackThreads, kBackBlocks)
    field_bwd_kernel(const luxel_mlp_args args, const Features features, const Features g_features, const RowPlaces places,
                     float* sums) {
  using Tiles = BackTiles<kWidth, kHidden>;
  constexpr int kRow = Tiles::kRow, kParts = kWidth / 16, kColumns = kWidth / 8;
  constexpr int kOutputs = kWidth / 16, kGroups = kBackWarps / kOutputs;  // tiles of a hidden layer's outputs; warps on each
  constexpr int kFirst = kFieldWidest / 8 / kGroups;
  constexpr int kMiddle = (kColumns + kGroups - 1) / kGroups, kLast = (kColumns + kBackWarps - 1) / kBackWarps;
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  __half* const matrices = reinterpret_cast<__half*>(shared_bytes);
  __half* const tiles = load_matrices(args, matrices);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, t = lane % 4;
  const int parts = (args.inputs + 15) / 16, first_row = MlpStep(args, 0, false).row();
  const __half* const middle = matrices + kWidth * first_row;  // matrices of layers 1 .. H, each of so many halves:
  constexpr int kMatrix = kWidth * kRow;
  const int output = 16 * (warp % kOutputs), group = warp / kOutputs;
  // Of 16 columns the last warps have none.
  const bool in_middle = kColumns >= kGroups || 8 * kMiddle * group < kWidth;
  const bool in_last = kColumns >= kBackWarps || 8 * kLast * warp < kWidth;
  float of_first[kFirst][4] = {}, of_middle[kHidden > 1 ? kHidden - 1 : 1][kMiddle][4] = {}, of_last[kLast][4] = {};
  __half* const hidden = tiles + Tiles::kHiddenAt;
  __half* const g_hidden = tiles + Tiles::kGradientAt;
  __half* const g_last = tiles + Tiles::kLastAt;
  __syncthreads();
  for (int64_t first = int64_t{blockIdx.x} * kBackRows; first < args.count; first += int64_t{gridDim.x} * kBackRows) {
    const int64_t row = first + 16 * warp + lane / 4;
    const int of_warp = 16 * warp;
    uint32_t a[kParts][4];
#pragma unroll
    for (int layer = 0; layer < kHidden; ++layer) {
      float c[kColumns][4] = {};
      if (layer == 0) {
#pragma unroll
        for (int k = 0; k < kFieldWidest / 16; ++k) {
          uint32_t x[1][4];
          load_factor(features, x[0], k, row, t);
          store_factor(x, tiles + of_warp * kFeatureRow + 16 * k, kFeatureRow, lane);
          if (k < parts) multiply_rows<kColumns>(c, x[0], matrices + 16 * k, first_row, lane);
        }
      } else {
#pragma unroll
        for (int k = 0; k < kParts; ++k) multiply_rows<kColumns>(c, a[k], middle + (layer - 1) * kMatrix + 16 * k, kRow, lane);
      }
      activate_rows<kWidth>(args.activation, c, a);
      store_factor(a, hidden + (layer * kBackRows + of_warp) * kRow, kRow, lane);
    }
    uint32_t last[1][4];
    load_last(args, places, row, t, last);
    store_factor(last, g_last + of_warp * Tiles::kLastRow, Tiles::kLastRow, lane);
#pragma unroll
    for (int layer = kHidden - 1; layer >= 0; --layer) {
      float c[kColumns][4] = {};
      if (layer == kHidden - 1) {
        multiply_rows_plain<kColumns>(c, last[0], middle + layer * kMatrix, kRow, lane);
      } else {
#pragma unroll
        for (int k = 0; k < kParts; ++k) multiply_rows_plain<kColumns>(c, a[k], middle + layer * kMatrix + 16 * k * kRow, kRow, lane);
      }
      slope_rows<kWidth>(args.activation, c, hidden + (layer * kBackRows + of_warp) * kRow, a, lane);
      store_factor(a, g_hidden + (layer * kBackRows + of_warp) * kRow, kRow, lane);
    }
    if (g_features.at) {
      for (int part = 0; part < parts; ++part) {
        float c[2][4] = {};
#pragma unroll
        for (int k = 0; k < kParts; ++k) multiply_rows_plain<2>(c, a[k], matrices + 16 * k * first_row + 16 * part, first_row, lane);
#pragma unroll
        for (int i = 0; i < 4; ++i)
          g_features.store(8 * part + 4 * (i / 2) + t, row + 8 * (i % 2), c[i / 2][2 * (i % 2)], c[i / 2][2 * (i % 2) + 1]);
      }
    }
    if (!sums) continue;
    __syncthreads();
    add_weights<kFirst>(of_first, g_hidden + output, kRow, tiles + 8 * kFirst * group, kFeatureRow, lane);
#pragma unroll
    for (int layer = 1; layer < kHidden; ++layer)
      if (in_middle)
        add_weights<kMiddle>(of_middle[layer - 1], g_hidden + layer * kBackRows * kRow + output, kRow,
                             hidden + (layer - 1) * kBackRows * kRow + 8 * kMiddle * group, kRow, lane);
    if (in_last)
      add_weights<kLast>(of_last, g_last, Tiles::kLastRow, hidden + (kHidden - 1) * kBackRows * kRow + 8 * kLast * warp, kRow, lane);
    __syncthreads();
  }
  if (!sums) return;
  float* const to = sums + blockIdx.x * layer_start(args, kHidden + 1);
  store_weights<kFirst>(of_first, to, output, kWidth, 8 * kFirst * group, args.inputs, lane);
#pragma unroll
  for (int layer = 1; layer < kHidden; ++layer)
    store_weights<kMiddle>(of_middle[layer - 1], to + layer_start(args, layer), output, kWidth, 8 * kMiddle * group, kWidth, lane);
  store_weights<kLast>(of_last, to + layer_start(args, kHidden), 0, args.outputs, 8 * kLast * warp, kWidth, lane);
}

constexpr int kSumThreads = 256;
// Adds up the blocks' sums in order; a block adds 32 numbers, and each of its warps every eighth sum.
static __global__ void __launch_bounds__(kSumThreads) field_sum_kernel(const float* sums, int blocks, int64_t size, float* to) {
  constexpr int kWarps = kSumThreads / 32;
  __shared__ float parts[kWarps][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t p = int64_t{blockIdx.x} * 32 + lane;
  float total = 0;
  if (p < size) {
#pragma unroll 8
    for (int block = warp; block < blocks; block += kWarps) total += sums[block * size + p];
  }
  parts[warp][lane] = total;
  __syncthreads();
  if (warp > 0 || p >= size) return;
#pragma unroll
  for (int w = 1; w < kWarps; ++w) total += parts[w][lane];
  to[p] = total;
}

inline int backward_blocks(const luxel_mlp_args& args, int* blocks) {
  int most = 0;
  if (resident_blocks(kBackBlocks, args.device, &most) < 0) return -1;
  *blocks = static_cast<int>(smaller<int64_t>((args.count + kBackRows - 1) / kBackRows, most));
  return 0;
}
inline int64_t backward_sums(const luxel_mlp_args& args, int blocks) {  // bytes
  return aligned_size(blocks * layer_start(args, args.hidden_layers + 1) * int64_t{sizeof(float)});
}

template <int kWidth, int kHidden, typename Features>
int launch_backward(const luxel_mlp_args& args, int blocks, const Features& features, const Features& g_features,
                    const int32_t* order, float* sums) {
  const auto kernel = field_bwd_kernel<kWidth, kHidden, Features>;
  const int shared = (size_of_matrices(args) + BackTiles<kWidth, kHidden>::kSize) * static_cast<int>(sizeof(__half));
  if (allow_shared(kernel, shared) < 0) return -1;
  return launch("field_bwd", kernel, blocks, kBackThreads, shared, args.stream, args, features, g_features,
                RowPlaces{order, args.count}, sums);
}

// The perceptron's gradients: by the features, where g_features.at is not null, and by the weights, where args.g_weights is not.
template <typename Features>
int network_backward(const luxel_mlp_args& args, int blocks, const Features& features, const Features& g_features,
                     const int32_t* order, float* sums) {
  if (!args.g_weights) sums = nullptr;
  const int failed = with_field_width(args.width, [&](auto width) {
    constexpr int W = decltype(width)::value;
    const auto of_depth = args.hidden_layers == 2 ? launch_backward<W, 2, Features> : launch_backward<W, 1, Features>;
    return of_depth(args, blocks, features, g_features, order, sums);
  });
  if (failed < 0 || !args.g_weights) return failed;
  const int64_t size = layer_start(args, args.hidden_layers + 1);
  return launch("field_bwd, sum", field_sum_kernel, blocks_for(size, 32), kSumThreads, 0, args.stream, sums, blocks, size,
                out<float>(args.g_weights));
}

}  // namespace luxel
