// order_positions on the GPU: keys, a radix sort of two passes, and the positions in their order.
#include "kernels/field/grid/order_positions.h"

#include "device/radix_sort.cuh"
#include "kernels/workspace.h"

namespace luxel {
namespace {

constexpr int kThreads = 256, kKeyBlocks = 4;  // of a multiprocessor
constexpr int kDigit = 10, kPasses = 2, kDigits = 1 << kDigit;
static_assert(kDigit * kPasses == kHilbertBits);
constexpr int64_t kFewPositions = 1 << 18;  // up to here the sort uses smaller tiles, for more blocks
constexpr int kFewItems = 8, kManyItems = 16;  // pairs per thread

// Zeroed before the first kernel.
struct OrderCounters {
  uint32_t histogram[kPasses][kCopies][kDigits];
  int tickets[kPasses];
  int64_t count;
};

template <int D>
__global__ void __launch_bounds__(kThreads, kKeyBlocks)
    position_keys_kernel(const float* x, int64_t count, OrderCounters* counters, uint32_t* words, int64_t word_count, uint32_t* keys,
                         int32_t* indices) {
  __shared__ uint32_t histogram[kPasses][kDigits];
  const int64_t start = int64_t{blockIdx.x} * kThreads + threadIdx.x, stride = int64_t{gridDim.x} * kThreads;
  if (start == 0) counters->count = count;
  for (int64_t k = start; k < word_count / 4; k += stride) reinterpret_cast<uint4*>(words)[k] = make_uint4(0, 0, 0, 0);
  for (int k = threadIdx.x; k < kPasses * kDigits; k += kThreads) histogram[0][k] = 0;
  __syncthreads();
  for (int64_t first = start - threadIdx.x % 32; first < count; first += stride) {  // full warps
    const int64_t i = first + threadIdx.x % 32;
    uint32_t key = 0;
    if (i < count) {
      float at[D];
#pragma unroll
      for (int d = 0; d < D; ++d) at[d] = __ldg(x + i * D + d);
      key = hilbert_key<float, D>(at);
      keys[i] = key;
      indices[i] = static_cast<int32_t>(i);
      atomicAdd(&histogram[0][key & (kDigits - 1)], 1u);
    }
    count_digit(histogram[1], i < count ? static_cast<int>(key >> kDigit) : -1);  // often equal in adjacent lanes
  }
  __syncthreads();
#pragma unroll
  for (int pass = 0; pass < kPasses; ++pass)
    for (int k = threadIdx.x; k < kDigits; k += kThreads)
      if (const uint32_t entries = histogram[pass][k]; entries > 0)
        atomicAdd(&counters->histogram[pass][blockIdx.x % kCopies][k], entries);
}

template <int D>
__global__ void __launch_bounds__(kThreads)
    gather_positions_kernel(const float* x, const int32_t* order, int64_t count, float* sorted) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= count) return;
  const float* const from = x + int64_t{order[i]} * D;
#pragma unroll
  for (int d = 0; d < D; ++d) sorted[i * D + d] = __ldg(from + d);
}

template <int D> int run(const luxel_order_positions_args& args, int64_t* bytes_needed) {
  const int64_t count = args.count;
  const bool few = count <= kFewPositions;
  const unsigned tiles = blocks_for(count, kSortThreads * (few ? kFewItems : kManyItems));
  const int64_t word_count = int64_t{tiles} * kDigits;
  Layout layout;
  OrderCounters* const counters = layout.take<OrderCounters>(args.workspace, 1);
  const int64_t zeros = layout.used;
  uint32_t* keys[2] = {layout.take<uint32_t>(args.workspace, count), layout.take<uint32_t>(args.workspace, count)};
  int32_t* indices[2] = {layout.take<int32_t>(args.workspace, count), layout.take<int32_t>(args.workspace, count)};
  uint32_t* words[2] = {layout.take<uint32_t>(args.workspace, word_count), layout.take<uint32_t>(args.workspace, word_count)};
  if (bytes_needed) {
    *bytes_needed = layout.used;
    return 0;
  }
  if (args.workspace_bytes < layout.used) return fail("order_positions: workspace too small");
  if (count == 0) return 0;
  LUXEL_CUDA(cudaMemsetAsync(args.workspace, 0, static_cast<size_t>(zeros), static_cast<cudaStream_t>(args.stream)));
  int most = 0;
  if (resident_blocks(kKeyBlocks, args.device, &most) < 0) return -1;
  const unsigned blocks = blocks_for(count, kThreads);
  const float* const x = in<float>(args.x);
  if (launch("order_positions, keys", position_keys_kernel<D>, smaller(blocks, static_cast<unsigned>(most)), kThreads, 0, args.stream,
             x, count, counters, words[0], word_count, keys[0], indices[0]) < 0)
    return -1;
  const auto sort = few ? radix_pass_kernel<uint32_t, kDigit, kFewItems> : radix_pass_kernel<uint32_t, kDigit, kManyItems>;
  for (int k = 0; k < kPasses; ++k) {
    const bool last = k + 1 == kPasses;
    const RadixPass<uint32_t> pass = {keys[k], indices[k], last ? nullptr : keys[k + 1], last ? args.order : indices[k + 1],
                                      &counters->count, k * kDigit, kDigit, counters->histogram[k][0], words[k],
                                      last ? nullptr : words[k + 1], &counters->tickets[k]};
    if (launch("order_positions, sort", sort, tiles, kSortThreads, 0, args.stream, pass) < 0) return -1;
  }
  return launch("order_positions, gather", gather_positions_kernel<D>, blocks, kThreads, 0, args.stream, x, args.order, count,
                out<float>(args.sorted));
}

int dispatch(const luxel_order_positions_args& args, int64_t* bytes_needed) {
  if (check_order(args) < 0) return -1;
  return args.dimensions == 2 ? run<2>(args, bytes_needed) : run<3>(args, bytes_needed);
}

}  // namespace
}  // namespace luxel

extern "C" {

int64_t luxel_order_positions_workspace(const luxel_order_positions_args* args) {
  int64_t bytes = 0;
  return luxel::dispatch(*args, &bytes) < 0 ? -1 : bytes;
}

int luxel_order_positions(const luxel_order_positions_args* args) {
  if (args->dtype != 0) return luxel::fail("the GPU kernels take float32");
  LUXEL_CUDA(cudaSetDevice(args->device));
  return luxel::dispatch(*args, nullptr);
}
}
