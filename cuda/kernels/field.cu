// field on the GPU: forward in one kernel (field_forward.cuh), backward in one for the network and one for the table
// (field_backward.cuh, field_scatter.cuh).
#include "field_backward.cuh"
#include "field_forward.cuh"
#include "field_scatter.cuh"
#include "launch.cuh"

namespace luxel {
namespace {

int check_field(const luxel_field_args& args) {
  const int features = args.features;
  if (args.dtype != 0) return fail("the GPU kernels take float32");
  if (args.dimensions != 2 && args.dimensions != 3) return fail("field: %d dimensions, not 2 or 3", args.dimensions);
  if (features != 2 && features != 4 && features != 8) return fail("field: %d features per level, not 2, 4 or 8", features);
  if (args.levels < 1 || args.levels * features > kFieldWidest)
    return fail("field: %d levels of %d features, not 1 to 32 in all", args.levels, features);
  if (args.width != 32 && args.width != 64) return fail("field: width %d, not 32 or 64", args.width);
  if (args.hidden_layers != 1 && args.hidden_layers != 2) return fail("field: %d hidden layers, not 1 or 2", args.hidden_layers);
  if (args.outputs < 1 || args.outputs > 16) return fail("field: %d outputs, not 1 to 16", args.outputs);
  for (const void* table : {args.table, args.half_table, const_cast<const void*>(args.g_table)})
    if (reinterpret_cast<uintptr_t>(table) % 16 != 0) return fail("field: tables must be 16-byte aligned");
  return 0;
}

// One kernel encodes and multiplies.
bool whole(const luxel_field_args& args) {
  return args.half_table && args.features == 2 && !(args.options & LUXEL_FIELD_BY_LEVELS);
}

int64_t encoded_size(const luxel_field_args& args) {  // bytes
  return aligned_size(args.count * args.levels * args.features * int64_t{sizeof(__half)});
}
FieldFeatures features_at(const luxel_field_args& args, void* at) {
  return {static_cast<__half2*>(at), args.levels * args.features / 2, args.count};
}

int backward_blocks(const luxel_field_args& args, int* blocks) {
  int most = 0;
  if (resident_blocks(kBackBlocks, args.device, &most) < 0) return -1;
  *blocks = static_cast<int>(smaller<int64_t>((args.count + kBackRows - 1) / kBackRows, most));
  return 0;
}

// The parts of a workspace of bwd, in bytes.
struct Parts {
  int64_t g_features, sums, g_table;
  int64_t bytes() const { return g_features + sums + g_table; }
  Parts(const luxel_field_args& args, int blocks) {
    const int64_t parameters = layer_start(network_of(args), args.hidden_layers + 1);
    g_features = encoded_size(args);
    sums = aligned_size(blocks * parameters * int64_t{sizeof(float)});
    g_table = args.options & LUXEL_FIELD_HALF_GRADIENTS ? aligned_size(table_numbers(args) * int64_t{sizeof(__half)}) : 0;
  }
  static int64_t table_numbers(const luxel_field_args& args) { return args.offsets[args.levels] * args.features; }
};

// body(D, F) of those that there are.
template <typename Body> int with_field_sizes(const luxel_field_args& args, const Body& body) {
  const auto of_features = [&](auto dimensions) {
    if (args.features == 2) return body(dimensions, Fixed<2>());
    return args.features == 4 ? body(dimensions, Fixed<4>()) : body(dimensions, Fixed<8>());
  };
  return args.dimensions == 2 ? of_features(Fixed<2>()) : of_features(Fixed<3>());
}

// Dynamic shared memory beyond what a kernel has unasked.
template <typename Kernel> int allow_shared(Kernel kernel, int bytes) {
  constexpr int kWithoutAsking = 48 << 10;
  if (bytes > kWithoutAsking) LUXEL_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  return 0;
}

template <int D, int kWidth>
int forward(const luxel_field_args& args, const luxel_mlp_args& network, const GridLevels& levels, const FieldFeatures& features) {
  const auto kernel = field_kernel<D, kWidth>;
  const int stage = D > 0 ? kFieldWarps * kFieldRows * kFeatureRow : 0;
  const int shared = (size_of_matrices(network) + stage) * static_cast<int>(sizeof(__half));
  int per_multiprocessor = 0, most = 0;
  if (allow_shared(kernel, shared) < 0) return -1;
  LUXEL_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_multiprocessor, kernel, kFieldThreads, shared));
  if (resident_blocks(larger(per_multiprocessor, 1), args.device, &most) < 0) return -1;
  constexpr int kRowsOfBlock = kFieldWarps * kFieldRows;
  const auto blocks = static_cast<unsigned>(smaller<int64_t>((args.count + kRowsOfBlock - 1) / kRowsOfBlock, most));
  const FieldTable table = {in<float>(args.x), in<__half>(args.half_table), (args.options & LUXEL_FIELD_PAST_L1) != 0};
  return launch("field", kernel, blocks, kFieldThreads, shared, args.stream, network, levels, args.levels, table, features);
}

int encode_by_levels(const luxel_field_args& args, const GridLevels& levels, const FieldFeatures& features) {
  const dim3 grid(blocks_for(args.count, kLevelWarps * kFieldRows), args.levels);
  return with_field_sizes(args, [&](auto dimensions, auto number) {
    constexpr int D = decltype(dimensions)::value, F = decltype(number)::value;
    const char* const name = "field, features";
    const auto* const x = in<float>(args.x);
    if (args.half_table) {
      return launch(name, field_levels_kernel<D, F, __half>, grid, kLevelThreads, 0, args.stream, x, levels,
                    in<__half>(args.half_table), features);
    }
    return launch(name, field_levels_kernel<D, F, float>, grid, kLevelThreads, 0, args.stream, x, levels, in<float>(args.table),
                  features);
  });
}

template <int kWidth, int kHidden>
int backward(const luxel_field_args& args, const luxel_mlp_args& network, int blocks, const FieldFeatures& g_features, float* sums) {
  const auto kernel = field_bwd_kernel<kWidth, kHidden>;
  const int shared = (size_of_matrices(network) + BackTiles<kWidth, kHidden>::kSize) * static_cast<int>(sizeof(__half));
  if (allow_shared(kernel, shared) < 0) return -1;
  return launch("field_bwd", kernel, blocks, kBackThreads, shared, args.stream, network, features_at(args, args.kept),
                g_features, sums);
}

template <typename Sum>
int scatter(const luxel_field_args& args, const GridLevels& levels, const FieldFeatures& g_features, Sum* sums) {
  const dim3 grid(blocks_for(args.count, kScatterWarps * kScatterRows), args.levels);
  return with_field_sizes(args, [&](auto dimensions, auto number) {
    constexpr int D = decltype(dimensions)::value, F = decltype(number)::value;
    return launch("field_bwd, table", field_scatter_kernel<D, F, Sum>, grid, kScatterThreads, 0, args.stream, in<float>(args.x),
                  levels, g_features, sums);
  });
}

int scatter_in_half(const luxel_field_args& args, const GridLevels& levels, const FieldFeatures& g_features, void* at) {
  auto* const sums = static_cast<__half*>(at);
  const int64_t numbers = Parts::table_numbers(args);
  LUXEL_CUDA(cudaMemsetAsync(sums, 0, numbers * sizeof(__half), static_cast<cudaStream_t>(args.stream)));
  if (scatter(args, levels, g_features, sums) < 0) return -1;
  return launch("field_bwd, sum of the table", field_widen_kernel, blocks_for(numbers, 8 * 256), 256, 0, args.stream, sums, numbers,
                out<float>(args.g_table));
}

}  // namespace
}  // namespace luxel

extern "C" {

int64_t luxel_field_fwd_workspace(const luxel_field_args* args) {
  using namespace luxel;
  return args->kept || whole(*args) ? 0 : encoded_size(*args);
}

int64_t luxel_field_bwd_workspace(const luxel_field_args* args) {
  using namespace luxel;
  int blocks = 0;
  return backward_blocks(*args, &blocks) < 0 ? -1 : Parts(*args, blocks).bytes();
}

int luxel_field_fwd(const luxel_field_args* args) {
  using namespace luxel;
  GridLevels levels = {};
  if (check_field(*args) < 0 || load_levels(grid_of(*args), &levels) < 0) return -1;
  if (!args->kept && !whole(*args) && args->workspace_bytes < encoded_size(*args)) return fail("field: workspace too small");
  LUXEL_CUDA(cudaSetDevice(args->device));
  const luxel_mlp_args network = network_of(*args);
  const bool wide = args->width == 64;
  if (whole(*args)) {
    const FieldFeatures features = features_at(*args, args->kept);
    if (args->dimensions == 2) return wide ? forward<2, 64>(*args, network, levels, features) : forward<2, 32>(*args, network, levels, features);
    return wide ? forward<3, 64>(*args, network, levels, features) : forward<3, 32>(*args, network, levels, features);
  }
  const FieldFeatures features = features_at(*args, args->kept ? args->kept : args->workspace);
  if (encode_by_levels(*args, levels, features) < 0) return -1;
  return wide ? forward<0, 64>(*args, network, levels, features) : forward<0, 32>(*args, network, levels, features);
}

int luxel_field_bwd(const luxel_field_args* args) {
  using namespace luxel;
  GridLevels levels = {};
  int blocks = 0;
  if (check_field(*args) < 0 || load_levels(grid_of(*args), &levels) < 0 || backward_blocks(*args, &blocks) < 0) return -1;
  const Parts parts(*args, blocks);
  if (args->workspace_bytes < parts.bytes()) return fail("field: workspace too small");
  LUXEL_CUDA(cudaSetDevice(args->device));
  const luxel_mlp_args network = network_of(*args);
  char* const workspace = static_cast<char*>(args->workspace);
  const FieldFeatures g_features = features_at(*args, args->g_table ? workspace : nullptr);
  float* const sums = args->g_weights ? reinterpret_cast<float*>(workspace + parts.g_features) : nullptr;
  const bool deep = args->hidden_layers == 2;
  const int failed = args->width == 64 ? (deep ? backward<64, 2>(*args, network, blocks, g_features, sums)
                                               : backward<64, 1>(*args, network, blocks, g_features, sums))
                                       : (deep ? backward<32, 2>(*args, network, blocks, g_features, sums)
                                               : backward<32, 1>(*args, network, blocks, g_features, sums));
  if (failed < 0) return -1;
  if (args->g_weights) {
    const int64_t size = layer_start(network, args->hidden_layers + 1);
    if (launch("field_bwd, sum", field_sum_kernel, blocks_for(size, 32), kSumThreads, 0, args->stream, sums, blocks, size,
               out<float>(args->g_weights)) < 0)
      return -1;
  }
  if (!args->g_table) return 0;
  if (args->options & LUXEL_FIELD_HALF_GRADIENTS)
    return scatter_in_half(*args, levels, g_features, workspace + parts.g_features + parts.sums);
  return scatter(*args, levels, g_features, out<float>(args->g_table));
}
}
