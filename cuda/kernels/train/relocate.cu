// relocate on the GPU: computes the weights, sums them, draws, then writes sources and copies, without synchronising with the host.
#include "kernels/train/relocate.h"

#include "device/launch.cuh"
#include "kernels/workspace.h"

#include <cub/device/device_scan.cuh>

namespace luxel {
namespace {

constexpr int kThreads = 256;
constexpr int kRows = 64;  // rows per block of weigh_kernel

// A row may hold 59 numbers: a block reads its rows contiguously.
__global__ void __launch_bounds__(kThreads) weigh_kernel(const __grid_constant__ luxel_relocate_args args, int64_t* weights) {
  __shared__ int broken[kRows];
  const RelocatedRows rows(args);
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kRows;
  const int here = static_cast<int>(smaller<int64_t>(kRows, args.count - first));
  if (threadIdx.x < kRows) broken[threadIdx.x] = 0;
  __syncthreads();
  if (relocates(args))
    for (int t = 0; t < kTensors; ++t) {
      const int width = rows.width[t];
      const float* numbers = rows.kinds[0][t] + first * width;
      for (int e = threadIdx.x; e < here * width; e += kThreads)
        if (!finite(numbers[e])) atomicOr(&broken[e / width], 1);
    }
  __syncthreads();
  if (threadIdx.x >= here) return;
  const int64_t n = first + threadIdx.x;
  const bool dead = relocates(args) && (broken[threadIdx.x] != 0 || !(opacity_of(args, n) > args.min_opacity));
  weights[n] = dead ? 0 : weight_of(args, n);
  args.source[n] = dead ? -1 : static_cast<int32_t>(n);
}

__global__ void __launch_bounds__(kThreads) draw_kernel(const __grid_constant__ luxel_relocate_args args, const int64_t* cumulated) {
  const int64_t n = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (n >= static_cast<int64_t>(args.count) + args.added || (n < args.count && args.source[n] >= 0)) return;
  const int64_t total = cumulated[args.count - 1];
  if (total == 0) {  // no row can be drawn
    args.source[n] = static_cast<int32_t>(n);
    return;
  }
  const int32_t source = row_at(cumulated, args.count, drawn(args, n, total));
  args.source[n] = source;
  atomicAdd(args.copies + source, 1);
  atomicAdd(args.moved, 1);
}

// A warp for 32 rows: together it clears the moments of those of `mask`, and first copies each from its source.
template <bool kCopies> __device__ __forceinline__ void visit_rows(const RelocatedRows& rows, int64_t first, unsigned mask, int32_t source) {
  const int lane = threadIdx.x & 31;
  for (; mask != 0; mask &= mask - 1) {
    const int which = __ffs(mask) - 1;
    const int64_t n = first + which, from = __shfl_sync(~0u, source, which);
    for (int t = 0; t < kTensors; ++t) {
      const int width = rows.width[t];
      for (int k = lane; k < width; k += 32) {
        if (kCopies) rows.kinds[0][t][n * width + k] = rows.kinds[0][t][from * width + k];
        rows.kinds[1][t][n * width + k] = 0.0f;
        rows.kinds[2][t][n * width + k] = 0.0f;
      }
    }
  }
}

__global__ void __launch_bounds__(kThreads) share_kernel(const __grid_constant__ luxel_relocate_args args) {
  const int64_t n = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int copies = n < args.count ? args.copies[n] : 0;
  if (copies > 0) share_row(args, n, copies);
  visit_rows<false>(RelocatedRows(args), n - (threadIdx.x & 31), __ballot_sync(~0u, copies > 0), 0);
}

__global__ void __launch_bounds__(kThreads) copy_kernel(const __grid_constant__ luxel_relocate_args args) {
  const int64_t n = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int32_t source = n < static_cast<int64_t>(args.count) + args.added ? args.source[n] : static_cast<int32_t>(n);
  visit_rows<true>(RelocatedRows(args), n - (threadIdx.x & 31), __ballot_sync(~0u, source != n), source);
}

struct Places {
  int64_t *weights, *cumulated;
  void* scan;
  size_t scan_bytes;
  int64_t bytes;
};

cudaError_t lay_out(const luxel_relocate_args& args, Places& places) {
  Layout layout;
  places.weights = layout.take<int64_t>(args.workspace, args.count);
  places.cumulated = layout.take<int64_t>(args.workspace, args.count);
  const cudaError_t status = cub::DeviceScan::InclusiveSum(nullptr, places.scan_bytes, places.weights, places.cumulated, args.count);
  places.scan = layout.take<char>(args.workspace, static_cast<int64_t>(places.scan_bytes));
  places.bytes = layout.used;
  return status;
}

}  // namespace
}  // namespace luxel

extern "C" {

int64_t luxel_relocate_workspace(const luxel_relocate_args* args) {
  luxel::Places places;
  LUXEL_CUDA(luxel::lay_out(*args, places));
  return places.bytes;
}

int luxel_relocate(const luxel_relocate_args* args) {
  using namespace luxel;
  LUXEL_CUDA(cudaSetDevice(args->device));
  Places places;
  LUXEL_CUDA(lay_out(*args, places));
  if (args->workspace_bytes < places.bytes) return fail("relocate: workspace too small");
  const int64_t all = static_cast<int64_t>(args->count) + args->added;
  if (launch("relocate, weigh", weigh_kernel, blocks_for(args->count, kRows), kThreads, 0, args->stream, *args, places.weights) < 0) return -1;
  LUXEL_CUDA(cub::DeviceScan::InclusiveSum(places.scan, places.scan_bytes, places.weights, places.cumulated, args->count,
                                           static_cast<cudaStream_t>(args->stream)));
  if (launch("relocate, draw", draw_kernel, blocks_for(all, kThreads), kThreads, 0, args->stream, *args, places.cumulated) < 0) return -1;
  if (launch("relocate, share", share_kernel, blocks_for(args->count, kThreads), kThreads, 0, args->stream, *args) < 0) return -1;
  return launch("relocate, copy", copy_kernel, blocks_for(all, kThreads), kThreads, 0, args->stream, *args);
}
}
