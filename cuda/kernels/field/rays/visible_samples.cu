// visible_samples on the GPU: a warp per ray, 32 samples at a time, whose optical depths are summed across the lanes; the
// rays of a block allocate space for their visible samples together and copy them. Then the unused space is cleared, and the
// number of rays of the next step is set.
#include "kernels/field/rays/visible_samples.h"

#include "device/launch.cuh"
#include "kernels/field/rays/warp_room.cuh"
#include "device/warp_sum.cuh"

namespace luxel {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kClearThreads = 256, kClearBlocks = 512;

// How many samples of a ray are retained; in `kept` which ones, where they are not the first. Each lane looks at the same
// samples here and in copy_visible.
__device__ __forceinline__ int count_visible(const luxel_visible_samples_args& args, int64_t first, int count, int lane) {
  const float least = static_cast<float>(args.min_transmittance);
  float before = 0.0f;
  int visible = 0;
  for (int base = 0; base < count; base += 32) {
    const int64_t sample = first + base + lane;
    const bool mine = lane < count - base;
    const float depth = mine ? raw_depth<float>(args, sample) : 0.0f;
    const float upto = sum_upto(depth, lane), below = __shfl_up_sync(~0u, upto, 1);
    const bool reached = mine && exp_exact(-(lane == 0 ? before : before + below)) >= least;
    const unsigned missed = ~__ballot_sync(~0u, reached);
    const bool seen = missed == 0 || lane < __ffs(missed) - 1;  // those before the first that is not reached
    const bool keeps = seen && dense_enough(args, depth);
    if (args.kept && mine) args.kept[sample] = keeps;
    visible += __popc(__ballot_sync(~0u, keeps));
    if (missed != 0) break;
    before += __shfl_sync(~0u, upto, 31);
  }
  return visible;
}

// Copies the `visible` samples of a ray, of which count_visible has read [from,end).
__device__ __forceinline__ void copy_visible(const luxel_visible_samples_args& args, int64_t from, int64_t end, int64_t to, int visible, int lane) {
  if (!args.kept) {
    for (int i = lane; i < visible; i += 32) copy_sample<float>(args, from + i, to + i);
    return;
  }
  for (const int64_t last = to + visible; to < last; from += 32) {
    const bool keeps = from + lane < end && args.kept[from + lane] != 0;
    const unsigned mask = __ballot_sync(~0u, keeps);
    if (keeps) copy_sample<float>(args, from + lane, to + __popc(mask & ((1u << lane) - 1)));
    to += __popc(mask);
  }
}

__global__ void __launch_bounds__(kThreads) visible_samples_kernel(const __grid_constant__ luxel_visible_samples_args args) {
  __shared__ int counts[kWarps];
  __shared__ unsigned long long firsts[kWarps];
  const int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
  const int64_t r = static_cast<int64_t>(blockIdx.x) * kWarps + warp;
  const bool is_ray = r < args.count;
  const int64_t raw_first = is_ray ? args.raw_ranges[2 * r] : 0;
  const int raw_count = is_ray ? args.raw_ranges[2 * r + 1] : 0;
  const int visible = count_visible(args, raw_first, raw_count, lane);
  if (lane == 0) counts[warp] = visible;
  if (!__syncthreads_or(visible)) {
    if (is_ray && lane == 0) settle_range(args, r, 0, 0);
    return;
  }
  if (warp == 0) {
    const unsigned long long first = take_room(lane < kWarps ? counts[lane] : 0, reinterpret_cast<unsigned long long*>(args.counters) + 1);
    if (lane < kWarps) firsts[lane] = first;
  }
  __syncthreads();
  if (!is_ray) return;
  const auto first = static_cast<int64_t>(firsts[warp]);
  bool writes = false;
  if (lane == 0) writes = settle_range(args, r, first, visible);
  if (__shfl_sync(~0u, writes, 0)) copy_visible(args, raw_first, raw_first + raw_count, first, visible, lane);
}

__global__ void __launch_bounds__(kClearThreads) clear_invisible_kernel(const __grid_constant__ luxel_visible_samples_args args) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kClearThreads + threadIdx.x;
  clear_rest<float>(args, thread, static_cast<int64_t>(gridDim.x) * kClearThreads);
  if (thread == 0) finish_visible(args);
}

}  // namespace
}  // namespace luxel

extern "C" int luxel_visible_samples(const luxel_visible_samples_args* args) {
  using namespace luxel;
  if (args->dtype != 0) return fail("the GPU kernels take float32");
  LUXEL_CUDA(cudaSetDevice(args->device));
  LUXEL_CUDA(cudaMemsetAsync(args->counters, 0, 5 * sizeof(int64_t), static_cast<cudaStream_t>(args->stream)));
  if (launch("visible_samples", visible_samples_kernel, blocks_for(args->count, kWarps), kThreads, 0, args->stream, *args) < 0) return -1;
  const unsigned blocks = smaller<unsigned>(blocks_for(args->capacity, kClearThreads), kClearBlocks);
  return launch("visible_samples, clear", clear_invisible_kernel, larger(blocks, 1u), kClearThreads, 0, args->stream, *args);
}
