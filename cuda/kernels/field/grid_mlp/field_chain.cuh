// Shared by the forward and the backward pass of field: products of a warp's 16 rows with a matrix in shared memory.
#pragma once

#include "kernels/field/grid_mlp/field.h"
#include "kernels/field/grid/grid_access.cuh"
#include "device/launch.cuh"
#include "kernels/field/mlp/mlp_chain.cuh"

namespace luxel {

constexpr int kFieldWidest = 32;  // features of a position
constexpr int kFeatureRow = kFieldWidest + kTilePadding;  // of features in shared memory

// Whether rows of `columns` numbers can be read and written two numbers at a time.
__device__ __forceinline__ bool in_twos(const float* rows, int columns) {
  return columns % 2 == 0 && reinterpret_cast<uintptr_t>(rows) % 8 == 0;
}
// Two numbers of a row, at an even column.
__device__ __forceinline__ float2 load_two(const float* from, int64_t row, int column, int columns) {
  const float* const at = from + row * columns + column;
  if (in_twos(from, columns)) return column < columns ? __ldg(reinterpret_cast<const float2*>(at)) : make_float2(0.0f, 0.0f);
  return make_float2(column < columns ? __ldg(at) : 0.0f, column + 1 < columns ? __ldg(at + 1) : 0.0f);
}
__device__ __forceinline__ void store_two(float* to, int64_t row, int column, int columns, float x, float y) {
  float* const at = to + row * columns + column;
  if (in_twos(to, columns)) {
    if (column < columns) *reinterpret_cast<float2*>(at) = make_float2(x, y);
    return;
  }
  if (column < columns) at[0] = x;
  if (column + 1 < columns) at[1] = y;
}

// Maps rows of x to rows of out and g_out.
struct RowPlaces {
  const int32_t* order;  // null: the same rows
  int64_t count;
  __device__ __forceinline__ int64_t operator()(int64_t row) const { return order && row < count ? __ldg(order + row) : row; }
};

// Features of all positions in pairs, [pairs,N]: neighbouring lanes have neighbouring positions, whichever way they are read.
struct FieldFeatures {
  __half2* at;
  int pairs;
  int64_t count;
  __device__ __forceinline__ uint32_t packed(int pair, int64_t row) const {
    return row < count && pair < pairs ? __ldg(reinterpret_cast<const uint32_t*>(at) + pair * count + row) : 0u;
  }
  __device__ __forceinline__ void store(int pair, int64_t row, float x, float y) const {
    if (row < count && pair < pairs) at[pair * count + row] = __floats2half2_rn(x, y);
  }
};

// The same of float rows, [N,columns].
struct FloatRows {
  float* at;
  int columns;
  int64_t count;
  __device__ __forceinline__ uint32_t packed(int pair, int64_t row) const {
    const float2 two = row < count ? load_two(at, row, 2 * pair, columns) : make_float2(0.0f, 0.0f);
    return pack_halves(two.x, two.y);
  }
  __device__ __forceinline__ void store(int pair, int64_t row, float x, float y) const {
    if (row < count) store_two(at, row, 2 * pair, columns, x, y);
  }
};

// Float rows [N,columns] followed by the harmonics of their directions; the thread that reads the first pair also writes the first
// column to luxel_mlp_args::first.
struct DirectedRows {
  FloatRows rows;
  const float* directions;
  float* first;
  __device__ __forceinline__ uint32_t packed(int pair, int64_t row) const {
    if (row >= rows.count) return 0u;
    const int harmonic = 2 * pair - rows.columns;
    if (harmonic < 0) {
      const float2 two = load_two(rows.at, row, 2 * pair, rows.columns);
      if (pair == 0) first[row] = two.x;
      return pack_halves(two.x, two.y);
    }
    float of_direction[kHarmonics], x = 0.0f, y = 0.0f;
    const float* const d = directions + 3 * row;
    harmonics_of(Vec3<float>{__ldg(d), __ldg(d + 1), __ldg(d + 2)}, of_direction);
#pragma unroll
    for (int i = 0; i < kHarmonics; i += 2) {  // no index that registers do not have
      x = harmonic == i ? of_direction[i] : x;
      y = harmonic == i ? of_direction[i + 1] : y;
    }
    return pack_halves(x, y);
  }
};

// Sixteen features from the 16 k-th on, of rows `row` and `row` + 8, as a factor on the left.
template <typename Features>
__device__ __forceinline__ void load_factor(const Features& features, uint32_t (&a)[4], int k, int64_t row, int t) {
#pragma unroll
  for (int i = 0; i < 4; ++i) a[i] = features.packed(8 * k + t + 4 * (i / 2), row + 8 * (i % 2));
}

// c += a b for kColumns tiles of eight columns of b, of which shared memory has the transpose: a column's numbers in a row.
template <int kColumns>
__device__ __forceinline__ void multiply_rows(float (&c)[kColumns][4], const uint32_t (&a)[4], const __half* columns, int row,
                                              int lane) {
#pragma unroll
  for (int j = 0; j < kColumns; j += 2) {
    uint32_t b[4];
    load_tiles(b, columns + (8 * j + lane % 8 + (lane & 16 ? 8 : 0)) * row + (lane & 8 ? 8 : 0));
    multiply_tiles(c[j], a, b[0], b[1]);
    multiply_tiles(c[j + 1], a, b[2], b[3]);
  }
}
// The same with b as it is.
template <int kColumns>
__device__ __forceinline__ void multiply_rows_plain(float (&c)[kColumns][4], const uint32_t (&a)[4], const __half* b_rows, int row,
                                                    int lane) {
#pragma unroll
  for (int j = 0; j < kColumns; j += 2) {
    uint32_t b[4];
    load_tiles_transposed(b, b_rows + lane % 16 * row + 8 * j + (lane & 16 ? 8 : 0));
    multiply_tiles(c[j], a, b[0], b[1]);
    multiply_tiles(c[j + 1], a, b[2], b[3]);
  }
}

// Applies a hidden layer's activation to its accumulators; the result is the next left factor.
template <int kActivation, int kWidth>
__device__ __forceinline__ void activate_rows_by(const float (&c)[kWidth / 8][4], uint32_t (&a)[kWidth / 16][4]) {
#pragma unroll
  for (int j = 0; j < kWidth / 8; ++j)
#pragma unroll
    for (int i = 0; i < 2; ++i)
      a[j / 2][2 * (j % 2) + i] = pack_halves(activate_half(kActivation, c[j][2 * i]), activate_half(kActivation, c[j][2 * i + 1]));
}
template <int kWidth>
__device__ __forceinline__ void activate_rows(int activation, const float (&c)[kWidth / 8][4], uint32_t (&a)[kWidth / 16][4]) {
  switch (activation) {  // outside of the unrolled loops
    case LUXEL_RELU: activate_rows_by<LUXEL_RELU, kWidth>(c, a); break;
    case LUXEL_SOFTPLUS: activate_rows_by<LUXEL_SOFTPLUS, kWidth>(c, a); break;
    case LUXEL_SIGMOID: activate_rows_by<LUXEL_SIGMOID, kWidth>(c, a); break;
    default: activate_rows_by<LUXEL_LINEAR, kWidth>(c, a);
  }
}

// All matrices to shared memory; returns what follows them.
__device__ __forceinline__ __half* load_matrices(const luxel_mlp_args& args, __half* to) {
  for (int s = 0; s <= args.hidden_layers; ++s) {
    const MlpStep step(args, s, false);
    load_matrix<false>(args, step, to);
    to += step.size();
  }
  return to;
}
inline int size_of_matrices(const luxel_mlp_args& args) {  // halves
  int all = 0;
  for (int s = 0; s <= args.hidden_layers; ++s) all += MlpStep(args, s, false).size();
  return all;
}

// Sizes that the kernels have, besides those of the grid.
inline bool field_network(const luxel_mlp_args& args) {
  return args.inputs <= kFieldWidest && (args.width == 16 || args.width == 32 || args.width == 64) &&
         (args.hidden_layers == 1 || args.hidden_layers == 2) && args.outputs <= 16;
}

// Calls body(W) if the width is supported.
template <typename Body> int with_field_width(int width, const Body& body) {
  if (width == 64) return body(Fixed<64>());
  return width == 32 ? body(Fixed<32>()) : body(Fixed<16>());
}

// Raises a kernel's limit of dynamic shared memory if needed.
template <typename Kernel> int allow_shared(Kernel kernel, int bytes) {
  constexpr int kWithoutAsking = 48 << 10;
  if (bytes > kWithoutAsking) LUXEL_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  return 0;
}

}  // namespace luxel
