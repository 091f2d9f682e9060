// field on the GPU: forward in one kernel (field_forward.cuh), backward in one for the network and one for the table
// (field_backward.cuh, field_scatter.cuh, or field_boxes.cuh for positions in order).
#include "kernels/field/grid_mlp/field_backward.cuh"
#include "kernels/field/grid_mlp/field_boxes.cuh"
#include "kernels/field/grid_mlp/field_forward.cuh"
#include "kernels/field/grid_mlp/field_scatter.cuh"
#include "device/launch.cuh"

namespace luxel {
namespace {

int check_field(const luxel_field_args& args) {
  const int features = args.features;
  if (args.dtype != 0) return fail("the GPU kernels take float32");
  if (args.dimensions != 2 && args.dimensions != 3) return fail("field: %d dimensions, not 2 or 3", args.dimensions);
  if (features != 2 && features != 4 && features != 8) return fail("field: %d features per level, not 2, 4 or 8", features);
  if (args.levels < 1 || args.levels * features > kFieldWidest)
    return fail("field: %d levels of %d features, not 1 to 32 in all", args.levels, features);
  if (args.outputs < 1 || !field_network(network_of(args)))
    return fail("field: width %d, %d hidden layers, %d outputs, not 16, 32 or 64, 1 or 2, 1 to 16", args.width, args.hidden_layers,
                args.outputs);
  for (const void* table : {args.table, args.half_table, const_cast<const void*>(args.g_table)})
    if (reinterpret_cast<uintptr_t>(table) % 16 != 0) return fail("field: tables must be 16-byte aligned");
  return 0;
}

// Whether one kernel does both the encoding and the network.
bool whole(const luxel_field_args& args) { return args.half_table && args.features == 2; }

int64_t encoded_size(const luxel_field_args& args) {  // bytes
  return aligned_size(args.count * args.levels * args.features * int64_t{sizeof(__half)});
}
FieldFeatures features_at(const luxel_field_args& args, void* at) {
  return {static_cast<__half2*>(at), args.levels * args.features / 2, args.count};
}

// Calls body(D, F) if the sizes are supported.
template <typename Body> int with_field_sizes(const luxel_field_args& args, const Body& body) {
  const auto of_features = [&](auto dimensions) {
    if (args.features == 2) return body(dimensions, Fixed<2>());
    return args.features == 4 ? body(dimensions, Fixed<4>()) : body(dimensions, Fixed<8>());
  };
  return args.dimensions == 2 ? of_features(Fixed<2>()) : of_features(Fixed<3>());
}

int encode_by_levels(const luxel_field_args& args, const GridLevels& levels, const FieldFeatures& features) {
  const dim3 grid(blocks_for(args.count, kLevelWarps * kFieldRows), args.levels);
  return with_field_sizes(args, [&](auto dimensions, auto number) {
    constexpr int D = decltype(dimensions)::value, F = decltype(number)::value;
    const char* const name = "field, features";
    const auto* const x = in<float>(args.x);
    if (args.half_table) {
      return launch(name, field_levels_kernel<D, F, __half>, grid, kLevelThreads, 0, args.stream, x, levels,
                    in<__half>(args.half_table), features, args.live);
    }
    return launch(name, field_levels_kernel<D, F, float>, grid, kLevelThreads, 0, args.stream, x, levels, in<float>(args.table),
                  features, args.live);
  });
}

int scatter(const luxel_field_args& args, const GridLevels& levels, const FieldFeatures& g_features) {
  const dim3 grid(blocks_for(args.count, kScatterWarps * kScatterRows), args.levels);
  return with_field_sizes(args, [&](auto dimensions, auto number) {
    constexpr int D = decltype(dimensions)::value, F = decltype(number)::value;
    const auto kernel = args.order ? field_boxes_kernel<D, F> : field_scatter_kernel<D, F>;
    return launch("field_bwd, table", kernel, grid, kScatterThreads, 0, args.stream, in<float>(args.x), levels, g_features,
                  out<float>(args.g_table));
  });
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
  const luxel_mlp_args network = network_of(*args);
  return backward_blocks(network, &blocks) < 0 ? -1 : encoded_size(*args) + backward_sums(network, blocks);
}

int luxel_field_fwd(const luxel_field_args* args) {
  using namespace luxel;
  GridLevels levels = {};
  if (check_field(*args) < 0 || load_levels(grid_of(*args), &levels) < 0) return -1;
  if (args->live && (args->order || args->kept)) return fail("field: live rows go with neither order nor kept features");
  if (!args->kept && !whole(*args) && args->workspace_bytes < encoded_size(*args)) return fail("field: workspace too small");
  LUXEL_CUDA(cudaSetDevice(args->device));
  const luxel_mlp_args network = network_of(*args);
  if (whole(*args)) {
    const FieldFeatures features = features_at(*args, args->kept);
    const FieldTable table = {in<float>(args->x), in<__half>(args->half_table)};
    return with_field_width(args->width, [&](auto width) {
      constexpr int W = decltype(width)::value;
      const auto of_dimensions = args->dimensions == 2 ? launch_field<2, W, FieldFeatures> : launch_field<3, W, FieldFeatures>;
      return of_dimensions(network, levels, args->levels, table, features, args->order);
    });
  }
  const FieldFeatures features = features_at(*args, args->kept ? args->kept : args->workspace);
  return encode_by_levels(*args, levels, features) < 0 ? -1 : launch_network(network, features, args->order);
}

int luxel_field_bwd(const luxel_field_args* args) {
  using namespace luxel;
  GridLevels levels = {};
  int blocks = 0;
  if (check_field(*args) < 0 || load_levels(grid_of(*args), &levels) < 0) return -1;
  const luxel_mlp_args network = network_of(*args);
  if (backward_blocks(network, &blocks) < 0) return -1;
  if (args->workspace_bytes < encoded_size(*args) + backward_sums(network, blocks)) return fail("field: workspace too small");
  LUXEL_CUDA(cudaSetDevice(args->device));
  const FieldFeatures g_features = features_at(*args, args->g_table ? args->workspace : nullptr);
  auto* const sums = reinterpret_cast<float*>(static_cast<char*>(args->workspace) + encoded_size(*args));
  if (network_backward(network, blocks, features_at(*args, args->kept), g_features, args->order, sums) < 0) return -1;
  return args->g_table ? scatter(*args, levels, g_features) : 0;
}
}
