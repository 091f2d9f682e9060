// field forward in half. A warp has 32 rows at a time: it encodes them level by level into shared memory of its own, and takes
// them through the layers 16 by 16, in registers. Warps are at different points of this, so that reads of the
// table by one overlap with the products of another.
#pragma once

#include "kernels/field/grid_mlp/field_chain.cuh"

namespace luxel {

constexpr int kFieldRows = 32;                                       // of a warp
constexpr int kFieldWarps = 14, kFieldThreads = 32 * kFieldWarps;
// Resident blocks per multiprocessor, which limit the registers.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr int kFieldBlocks = 1;  // shared memory fits no more
#else
constexpr int kFieldBlocks = 2;
#endif
constexpr int kLevelWarps = 8, kLevelThreads = 32 * kLevelWarps;

struct FieldTable {
  const float* x;
  const __half* entries;
};

// Features of rows first .. first + 31 by a warp, to `stage` and, where they are stored, to memory.
template <int D, typename Features>
__device__ __forceinline__ void encode_rows(const GridLevels& levels, int level_count, const FieldTable& table,
                                            const Features& features, int64_t first, int64_t count, int lane, __half* stage) {
  const uint32_t end = lane % 2;
  const HeldPosition<D> a = load_held<D>(table.x, first + lane / 2, count);
  const HeldPosition<D> b = load_held<D>(table.x, first + lane / 2 + 16, count);
  const int own = lane / 2 + 16 * static_cast<int>(end);
  for (int l = 0; l < level_count; ++l) {
    const GridLevel& level = levels.at[l];
    float value[2];
    features_of_pair<D, 2>(level, a, b, end, reader<2>(table.entries, level), value);
    const __half2 pair = __floats2half2_rn(value[0], value[1]);
    *reinterpret_cast<__half2*>(stage + own * kFeatureRow + 2 * l) = pair;
    if (features.at) features.store(l, first + own, value[0], value[1]);
  }
}

// D = 0: the features are given, and not encoded.
template <int D, int kWidth, typename Features>
__global__ void __launch_bounds__(kFieldThreads, kFieldBlocks)
    field_kernel(const luxel_mlp_args args, const GridLevels levels, int level_count, const FieldTable table,
                 const Features features, const RowPlaces places) {
  constexpr int kRow = kWidth + kTilePadding;
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  __half* const matrices = reinterpret_cast<__half*>(shared_bytes);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, t = lane % 4;
  __shared__ int64_t count;  // registers are few
  __shared__ int stop;
  const int64_t rows = live_rows(args), tiles = (rows + kFieldRows - 1) / kFieldRows;
  const auto start = static_cast<int>(tiles * blockIdx.x / gridDim.x);  // neighbours of each other
  const auto end = static_cast<int>(tiles * (blockIdx.x + 1) / gridDim.x);
  if (start == end) return;
  if (threadIdx.x == 0) {
    count = rows;
    stop = end;
  }
  __half* const stage = load_matrices(args, matrices) + warp * kFieldRows * kFeatureRow;
  if constexpr (D > 0)
    for (int i = lane; i < kFieldRows * kFeatureRow / 8; i += 32) reinterpret_cast<uint4*>(stage)[i] = make_uint4(0, 0, 0, 0);
  __syncthreads();
  const int parts = (args.inputs + 15) / 16, first_row = MlpStep(args, 0, false).row(), first_size = kWidth * first_row;
  for (int tile = start + warp; tile < stop; tile += kFieldWarps) {
    const int64_t first = int64_t{tile} * kFieldRows;
    if constexpr (D > 0) {
      __syncwarp();  // all have read the last tile's
      encode_rows<D>(levels, level_count, table, features, first, count, lane, stage);
      __syncwarp();
    }
#pragma unroll 1
    for (int m = 0; m < kFieldRows; m += 16) {
      const int64_t row = first + m + lane / 4;
      uint32_t a[kWidth / 16][4];
      {
        float c[kWidth / 8][4] = {};
        for (int k = 0; k < parts; ++k) {
          uint32_t x[4];
          if constexpr (D > 0) load_tiles(x, stage + (m + lane % 16) * kFeatureRow + 16 * k + (lane & 16 ? 8 : 0));
          else load_factor(features, x, k, row, t);
          multiply_rows<kWidth / 8>(c, x, matrices + 16 * k, first_row, lane);
        }
        activate_rows<kWidth>(args.activation, c, a);
      }
      const __half* matrix = matrices + first_size;
      for (int layer = 1; layer < args.hidden_layers; ++layer, matrix += kWidth * kRow) {
        float c[kWidth / 8][4] = {};
#pragma unroll
        for (int k = 0; k < kWidth / 16; ++k) multiply_rows<kWidth / 8>(c, a[k], matrix + 16 * k, kRow, lane);
        activate_rows<kWidth>(args.activation, c, a);
      }
      float c[2][4] = {};
#pragma unroll
      for (int k = 0; k < kWidth / 16; ++k) multiply_rows<2>(c, a[k], matrix + 16 * k, kRow, lane);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (row + 8 * i >= count) continue;
        const int64_t place = places(row + 8 * i);
        const int activation = args.output_activation;
#pragma unroll
        for (int j = 0; j < 2; ++j)
          store_two(out<float>(args.out), place, 8 * j + 2 * t, args.outputs, activate_half(activation, c[j][2 * i]),
                    activate_half(activation, c[j][2 * i + 1]));
      }
    }
  }
}

// Encodes all positions, one level after the other in block order.
template <int D, int F, typename Stored>
__global__ void __launch_bounds__(kLevelThreads)
    field_levels_kernel(const float* x, const GridLevels levels, const Stored* table, const FieldFeatures features,
                        const int32_t* live) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t first = (int64_t{blockIdx.x} * kLevelWarps + warp) * kFieldRows;
  if (first >= features.count || (live && first >= *live)) return;
  const uint32_t end = lane % 2;
  const GridLevel& level = levels.at[blockIdx.y];
  float value[F];
  const HeldPosition<D> a = load_held<D>(x, first + lane / 2, features.count);
  const HeldPosition<D> b = load_held<D>(x, first + lane / 2 + 16, features.count);
  features_of_pair<D, F>(level, a, b, end, reader<F>(table, level), value);
  const int64_t own = first + lane / 2 + 16 * end;
#pragma unroll
  for (int f = 0; f < F; f += 2)
    features.store(static_cast<int>(blockIdx.y) * (F / 2) + f / 2, own, value[f], value[f + 1]);
}

template <int D, int kWidth, typename Features>
int launch_field(const luxel_mlp_args& args, const GridLevels& levels, int level_count, const FieldTable& table,
                 const Features& features, const int32_t* order) {
  const auto kernel = field_kernel<D, kWidth, Features>;
  const int stage = D > 0 ? kFieldWarps * kFieldRows * kFeatureRow : 0;
  const int shared = (size_of_matrices(args) + stage) * static_cast<int>(sizeof(__half));
  int per_multiprocessor = 0, most = 0;
  if (allow_shared(kernel, shared) < 0) return -1;
  LUXEL_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_multiprocessor, kernel, kFieldThreads, shared));
  if (resident_blocks(larger(per_multiprocessor, 1), args.device, &most) < 0) return -1;
  constexpr int kRowsOfBlock = kFieldWarps * kFieldRows;
  const auto blocks = static_cast<unsigned>(smaller<int64_t>((args.count + kRowsOfBlock - 1) / kRowsOfBlock, most));
  return launch(D > 0 ? "field" : "field, network", kernel, blocks, kFieldThreads, shared, args.stream, args, levels, level_count,
                table, features, RowPlaces{order, args.count});
}

// The perceptron alone.
template <typename Features> int launch_network(const luxel_mlp_args& args, const Features& features, const int32_t* order) {
  return with_field_width(args.width, [&](auto width) {
    return launch_field<0, decltype(width)::value>(args, GridLevels{}, 0, FieldTable{}, features, order);
  });
}

}  // namespace luxel
