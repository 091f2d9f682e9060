// encode_grid on the GPU: two lanes per position, one for each end of its cell along the first axis; one group of levels after the
// other, so that a group's entries stay in the cache. Gradients by positions have a thread per position, which adds up the levels
// in order.
#include "kernels/field/grid/encode_grid.h"

#include "kernels/field/grid/grid_scatter.cuh"
#include "device/launch.cuh"

namespace luxel {
namespace {

constexpr int kThreads = 256;

template <int Count> __device__ __forceinline__ void load_row(const void* from, int64_t row, float* to) {
#pragma unroll
  for (int i = 0; i < Count; ++i) to[i] = static_cast<const float*>(from)[row * Count + i];
}
template <int Count> __device__ __forceinline__ void store_row(const float* from, int64_t row, void* to) {
#pragma unroll
  for (int i = 0; i < Count; ++i) static_cast<float*>(to)[row * Count + i] = from[i];
}

__device__ __forceinline__ int64_t position_of_thread() { return static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; }

constexpr int kRowsOfWarp = 32, kRowsOfBlock = kRowsOfWarp * kThreads / 32;
template <int F> constexpr int kGroup = 8 / F;  // levels whose features of a position are 32 bytes: a sector of memory

__device__ __forceinline__ int64_t first_row_of_warp() {
  return int64_t{blockIdx.x} * kRowsOfBlock + static_cast<int64_t>(threadIdx.x / 32) * kRowsOfWarp;
}

// Address of the features of the levels from `first` on, in a row of [N, L * F].
template <int F, typename Row> __device__ __forceinline__ Row* group_of_row(Row* rows, int64_t row, int levels, int first) {
  return rows + (row * levels + first) * F;
}

template <int D, int F, typename Stored>
__global__ void __launch_bounds__(kThreads)
    encode_grid_kernel(const luxel_encode_grid_args args, const GridLevels levels, const Stored* table) {
  const int lane = threadIdx.x % 32, end = lane % 2, group = static_cast<int>(blockIdx.y) * kGroup<F>;
  const int64_t first = first_row_of_warp(), own = first + lane / 2 + 16 * end;
  if (first >= args.count) return;
  const auto* const x = static_cast<const float*>(args.x);
  const HeldPosition<D> a = load_held<D>(x, first + lane / 2, args.count);
  const HeldPosition<D> b = load_held<D>(x, first + lane / 2 + 16, args.count);
  float values[kGroup<F>][F] = {};
#pragma unroll
  for (int i = 0; i < kGroup<F>; ++i) {
    if (group + i >= args.levels) break;
    const GridLevel& level = levels.at[group + i];
    features_of_pair<D, F>(level, a, b, end, reader<F>(table, level), values[i]);
  }
  if (own >= args.count) return;
  float* const to = group_of_row<F>(static_cast<float*>(args.out), own, args.levels, group);
  if (args.levels % kGroup<F> == 0) {  // aligned, and a full group
    const auto value = [&](int i) { return values[i / F][i % F]; };
    reinterpret_cast<float4*>(to)[0] = make_float4(value(0), value(1), value(2), value(3));
    reinterpret_cast<float4*>(to)[1] = make_float4(value(4), value(5), value(6), value(7));
    return;
  }
#pragma unroll
  for (int i = 0; i < kGroup<F>; ++i) {
    if (group + i >= args.levels) break;
#pragma unroll
    for (int f = 0; f < F; ++f) to[i * F + f] = values[i][f];
  }
}

template <int D, int F>
__global__ void __launch_bounds__(kThreads) encode_grid_table_kernel(const luxel_encode_grid_args args, const GridLevels levels) {
  const int lane = threadIdx.x % 32, group = static_cast<int>(blockIdx.y) * kGroup<F>;
  const int64_t first = first_row_of_warp();
#pragma unroll 1
  for (int part = 0; part < kRowsOfWarp; part += 16) {
    const int64_t row = first + part + lane / 2;
    const HeldPosition<D> position = load_held<D>(static_cast<const float*>(args.x), row, args.count);
    const float* const from = group_of_row<F>(static_cast<const float*>(args.g_out), row, args.levels, group);
#pragma unroll 1
    for (int i = 0; i < kGroup<F>; ++i) {
      if (group + i >= args.levels) break;
      const GridLevel& level = levels.at[group + i];
      float g[F];
#pragma unroll
      for (int f = 0; f < F; ++f) g[f] = row < args.count ? __ldg(from + i * F + f) : 0.0f;
      scatter_level<D, F>(level, position, g, lane, static_cast<float*>(args.g_table) + int64_t{level.offset} * F);
    }
  }
}

// Gradient by the table of bwd_bwd: of the derivative of the features along gg_x.
template <int D, int F>
__global__ void __launch_bounds__(kThreads)
    encode_grid_table_second_kernel(const luxel_encode_grid_args args, const GridLevels levels) {
  const int64_t n = position_of_thread();
  if (n >= args.count) return;
  const GridLevel& level = levels.at[blockIdx.y];
  float* const g_table = static_cast<float*>(args.g_table) + static_cast<int64_t>(level.offset) * F;
  float x[D], v[D], g[F];
  load_row<D>(args.x, n, x);
  load_row<D>(args.gg_x, n, v);
  load_row<F>(args.g_out, n * args.levels + blockIdx.y, g);
  grid_vjp_x_vjp_table<float, D>(level, x, v, [&](uint32_t entry, float weight) {
    float values[F];
#pragma unroll
    for (int f = 0; f < F; ++f) values[f] = weight * g[f];
    add_atomically<F>(g_table + static_cast<int64_t>(entry) * F, values);
  });
}

template <int D, int F, typename Stored>
__global__ void __launch_bounds__(kThreads)
    encode_grid_x_kernel(const luxel_encode_grid_args args, const GridLevels levels, const Stored* table) {
  const int64_t n = position_of_thread();
  if (n >= args.count) return;
  float x[D], g_x[D] = {};
  load_row<D>(args.x, n, x);
  for (int l = 0; l < args.levels; ++l) {
    float g[F];
    load_row<F>(args.g_out, n * args.levels + l, g);
    const GridLevel& level = levels.at[l];
    grid_vjp_x<float, D, F>(level, x, reader<F>(table, level), g, g_x);
  }
  store_row<D>(g_x, n, args.g_x);
}

template <int D, int F, typename Stored>
__global__ void __launch_bounds__(kThreads)
    encode_grid_second_kernel(const luxel_encode_grid_args args, const GridLevels levels, const Stored* table) {
  const int64_t n = position_of_thread();
  if (n >= args.count) return;
  float x[D], v[D], g_x[D] = {};
  load_row<D>(args.x, n, x);
  load_row<D>(args.gg_x, n, v);
  for (int l = 0; l < args.levels; ++l) {
    float g[F], gg[F];
    load_row<F>(args.g_out, n * args.levels + l, g);
    const GridLevel& level = levels.at[l];
    grid_vjp_x_vjp<float, D, F>(level, x, reader<F>(table, level), v, g, gg, g_x);
    if (args.gg_out) store_row<F>(gg, n * args.levels + l, args.gg_out);
  }
  if (args.g_x) store_row<D>(g_x, n, args.g_x);
}

dim3 rows_and_groups(const luxel_encode_grid_args& args) {
  const int group = 8 / args.features;
  return dim3(blocks_for(args.count, kRowsOfBlock), (args.levels + group - 1) / group);
}

bool aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

// Checks the arguments, then calls body(D, F, table to read, levels, blocks per level).
template <typename Body> int prepare(const luxel_encode_grid_args& args, const Body& body) {
  if (args.dtype != 0) return fail("the GPU kernels take float32");
  if (!aligned(args.table) || !aligned(args.half_table) || !aligned(args.g_table))
    return fail("encode_grid: tables must be 16-byte aligned");
  GridLevels levels;
  if (load_levels(args, &levels) < 0) return -1;
  LUXEL_CUDA(cudaSetDevice(args.device));
  const unsigned blocks = blocks_for(args.count, kThreads);
  return with_sizes(args, [&](auto dimensions, auto features) {
    return args.half_table ? body(dimensions, features, static_cast<const __half*>(args.half_table), levels, blocks)
                           : body(dimensions, features, static_cast<const float*>(args.table), levels, blocks);
  });
}

}  // namespace
}  // namespace luxel

extern "C" {

int luxel_encode_grid_fwd(const luxel_encode_grid_args* args) {
  using namespace luxel;
  return prepare(*args, [&](auto dimensions, auto features, auto* table, const GridLevels& levels, unsigned) {
    constexpr int D = decltype(dimensions)::value, F = decltype(features)::value;
    using Stored = std::remove_const_t<std::remove_pointer_t<decltype(table)>>;
    const dim3 grid = rows_and_groups(*args);
    return launch("encode_grid", encode_grid_kernel<D, F, Stored>, grid, kThreads, 0, args->stream, *args, levels, table);
  });
}

int luxel_encode_grid_bwd(const luxel_encode_grid_args* args) {
  using namespace luxel;
  return prepare(*args, [&](auto dimensions, auto features, auto* table, const GridLevels& levels, unsigned blocks) {
    constexpr int D = decltype(dimensions)::value, F = decltype(features)::value;
    using Stored = std::remove_const_t<std::remove_pointer_t<decltype(table)>>;
    const char* const name = "encode_grid_bwd";
    void* const stream = args->stream;
    const dim3 grid = rows_and_groups(*args);
    if (args->g_table && launch(name, encode_grid_table_kernel<D, F>, grid, kThreads, 0, stream, *args, levels) < 0) return -1;
    return args->g_x ? launch(name, encode_grid_x_kernel<D, F, Stored>, blocks, kThreads, 0, stream, *args, levels, table) : 0;
  });
}

int luxel_encode_grid_bwd_bwd(const luxel_encode_grid_args* args) {
  using namespace luxel;
  return prepare(*args, [&](auto dimensions, auto features, auto* table, const GridLevels& levels, unsigned blocks) {
    constexpr int D = decltype(dimensions)::value, F = decltype(features)::value;
    using Stored = std::remove_const_t<std::remove_pointer_t<decltype(table)>>;
    const char* const name = "encode_grid_bwd_bwd";
    void* const stream = args->stream;
    const dim3 grid(blocks, args->levels);
    if (args->g_table && launch(name, encode_grid_table_second_kernel<D, F>, grid, kThreads, 0, stream, *args, levels) < 0) return -1;
    if (!args->g_x && !args->gg_out) return 0;
    return launch(name, encode_grid_second_kernel<D, F, Stored>, blocks, kThreads, 0, stream, *args, levels, table);
  });
}
}
