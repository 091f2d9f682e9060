// mlp on the GPU. Half precision on tensor cores: by the kernels of field for sizes that they support (field_forward.cuh,
// field_backward.cuh), else by mlp_chain.cuh and mlp_weights.cuh. Float: mlp_precise.cuh.
#include "kernels/field/mlp/mlp.h"

#include "kernels/field/grid_mlp/field_backward.cuh"
#include "kernels/field/grid_mlp/field_forward.cuh"
#include "device/launch.cuh"
#include "kernels/field/mlp/mlp_precise.cuh"

namespace luxel {
namespace {

// The parts of a workspace: gradients by the sums of hidden layers and of the last one, sums of the weights' by run.
struct Parts {
  int64_t last, sums, bytes;  // where they start; the hidden layers' do at 0
  explicit Parts(const luxel_mlp_args& args) {
    const int64_t number = args.precise ? sizeof(float) : sizeof(__half);
    const auto aligned = [](int64_t size) { return (size + 255) / 256 * 256; };
    last = aligned(number * args.hidden_layers * args.count * args.width);
    sums = last + aligned(number * args.count * round_up(args.outputs, 16));
    bytes = sums + aligned(runs_of(args.count) * layer_start(args, args.hidden_layers + 1) * int64_t{sizeof(float)});
  }
};

template <int kWidth, bool kBackward> int run_chain(const luxel_mlp_args& args, const MlpSumGradients& sums) {
  int all = 0, largest = 0, room = 0, per_multiprocessor = 0, most = 0;
  for (int s = 0; s <= args.hidden_layers; ++s) {
    const int bytes = MlpStep(args, s, kBackward).size() * static_cast<int>(sizeof(__half));
    all += bytes;
    largest = larger(largest, bytes);
  }
  LUXEL_CUDA(cudaDeviceGetAttribute(&room, cudaDevAttrMaxSharedMemoryPerBlockOptin, args.device));
  const bool resident = all <= room;
  const int shared = resident ? all : largest;
  const auto kernel = mlp_chain_kernel<kWidth, kBackward>;
  constexpr int kThreads = kChainThreads<kWidth>, kWithoutAsking = 48 << 10;
  if (shared > kWithoutAsking)
    LUXEL_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  LUXEL_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_multiprocessor, kernel, kThreads, shared));
  if (resident_blocks(larger(per_multiprocessor, 1), args.device, &most) < 0) return -1;
  const int64_t tiles = (args.count + kChainRows - 1) / kChainRows;
  const auto blocks = static_cast<unsigned>(smaller<int64_t>(tiles, most));
  return launch(kBackward ? "mlp_bwd" : "mlp", kernel, blocks, kThreads, shared, args.stream, args, sums, resident);
}

template <bool kBackward> int run_chain_of_width(const luxel_mlp_args& args, const MlpSumGradients& sums) {
  if (args.width == 16) return run_chain<16, kBackward>(args, sums);
  if (args.width == 32) return run_chain<32, kBackward>(args, sums);
  if (args.width == 64) return run_chain<64, kBackward>(args, sums);
  return run_chain<128, kBackward>(args, sums);
}

// Whether the backward pass recomputes the hidden layers instead of reading them.
bool anew(const luxel_mlp_args& args) { return !args.precise && field_network(args); }

FloatRows rows_of(const luxel_mlp_args& args, const void* at) {
  return {const_cast<float*>(in<float>(at)), args.inputs, args.count};
}

int backward_anew(const luxel_mlp_args& args) {
  int blocks = 0;
  if (backward_blocks(args, &blocks) < 0) return -1;
  if (args.workspace_bytes < backward_sums(args, blocks)) return fail("mlp: workspace too small");
  return network_backward(args, blocks, rows_of(args, args.x), rows_of(args, args.g_x), nullptr, out<float>(args.workspace));
}

int sum_runs_of_weights(const luxel_mlp_args& args, const float* sums_of_runs) {
  const int64_t size = layer_start(args, args.hidden_layers + 1);
  return launch("mlp_bwd, sum", mlp_sum_kernel, blocks_for(size, kWeightThreads), kWeightThreads, 0, args.stream, args,
                sums_of_runs, size, runs_of(args.count));
}

dim3 runs_and_layers(const luxel_mlp_args& args) {
  return dim3(static_cast<unsigned>(runs_of(args.count)), args.hidden_layers + 1);
}

int backward_half(const luxel_mlp_args& args, char* workspace, const Parts& parts) {
  MlpSumGradients sums = {};
  if (args.g_weights) {
    sums.hidden = reinterpret_cast<__half*>(workspace);
    sums.last = reinterpret_cast<__half*>(workspace + parts.last);
  }
  if (run_chain_of_width<true>(args, sums) < 0) return -1;
  if (!args.g_weights) return 0;
  int tiles = 0;
  for (int layer = 0; layer <= args.hidden_layers; ++layer)
    tiles = larger(tiles, weight_tiles(layer_inputs(args, layer), layer_outputs(args, layer)));
  auto* const of_runs = reinterpret_cast<float*>(workspace + parts.sums);
  const auto kernel = tiles <= 4 ? mlp_weights_kernel<4> : mlp_weights_kernel<16>;
  if (launch("mlp_bwd, weights", kernel, runs_and_layers(args), kWeightThreads, 0, args.stream, args, sums, of_runs) < 0)
    return -1;
  return sum_runs_of_weights(args, of_runs);
}

// Whether all layers have at most 64 inputs and outputs.
bool narrow(const luxel_mlp_args& args) { return larger(args.inputs, larger(args.width, args.outputs)) <= 64; }

int backward_precise(const luxel_mlp_args& args, char* workspace, const Parts& parts) {
  const MlpPreciseGradients sums = {reinterpret_cast<float*>(workspace), reinterpret_cast<float*>(workspace + parts.last)};
  auto* const of_runs = reinterpret_cast<float*>(workspace + parts.sums);
  const auto kernel = narrow(args) ? mlp_precise_bwd_kernel<64> : mlp_precise_bwd_kernel<LUXEL_MLP_WIDEST>;
  if (launch("mlp_bwd, precise", kernel, blocks_for(args.count, kPreciseRows), kPreciseThreads, 0, args.stream, args, sums) < 0)
    return -1;
  if (!args.g_weights) return 0;
  if (launch("mlp_bwd, precise weights", mlp_precise_weights_kernel, runs_and_layers(args), kWeightThreads, 0, args.stream, args,
             sums, of_runs) < 0)
    return -1;
  return sum_runs_of_weights(args, of_runs);
}

}  // namespace
}  // namespace luxel

extern "C" {

int64_t luxel_mlp_fwd_workspace(const luxel_mlp_args*) { return 0; }

int64_t luxel_mlp_bwd_workspace(const luxel_mlp_args* args) {
  using namespace luxel;
  int blocks = 0;
  if (!anew(*args)) return Parts(*args).bytes;
  return backward_blocks(*args, &blocks) < 0 ? -1 : backward_sums(*args, blocks);
}

int luxel_mlp_fwd(const luxel_mlp_args* args) {
  using namespace luxel;
  if (args->dtype != 0) return fail("the GPU kernels take float32");
  if (check_mlp(*args) < 0) return -1;
  LUXEL_CUDA(cudaSetDevice(args->device));
  if (args->directions) {
    if (!anew(*args)) return fail("mlp: directions with sizes of which hidden layers are kept");
    if (!args->first) return fail("mlp: directions without room for the first column");
    FloatRows rows = rows_of(*args, args->x);
    rows.columns = args->inputs - kHarmonics;
    return launch_network(*args, DirectedRows{rows, in<float>(args->directions), out<float>(args->first)}, nullptr);
  }
  if (anew(*args)) return launch_network(*args, rows_of(*args, args->x), nullptr);
  if (!args->precise) return run_chain_of_width<false>(*args, MlpSumGradients{});
  const auto kernel = narrow(*args) ? mlp_precise_fwd_kernel<64> : mlp_precise_fwd_kernel<LUXEL_MLP_WIDEST>;
  return launch("mlp, precise", kernel, blocks_for(args->count, kPreciseRows), kPreciseThreads, 0, args->stream, *args);
}

int luxel_mlp_bwd(const luxel_mlp_args* args) {
  using namespace luxel;
  if (args->dtype != 0) return fail("the GPU kernels take float32");
  if (check_mlp(*args) < 0) return -1;
  LUXEL_CUDA(cudaSetDevice(args->device));
  if (anew(*args)) return backward_anew(*args);
  const Parts parts(*args);
  if (args->workspace_bytes < parts.bytes) return fail("mlp: workspace too small");
  auto* const workspace = static_cast<char*>(args->workspace);
  return args->precise ? backward_precise(*args, workspace, parts) : backward_half(*args, workspace, parts);
}
}
