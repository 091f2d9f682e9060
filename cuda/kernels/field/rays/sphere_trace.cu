// sphere_trace on the GPU: a thread per ray, or a few of them where blocks are fewer than rays; a warp appends its rays to a list
// with one atomic.
#include "kernels/field/rays/sphere_trace.h"

#include "device/launch.cuh"

namespace luxel {
namespace {

constexpr int kThreads = 128;
constexpr unsigned kMaxBlocks = 1 << 13;  // some rounds of a device's multiprocessors

__device__ __forceinline__ int64_t first_row() { return static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; }
__device__ __forceinline__ int64_t row_stride() { return static_cast<int64_t>(gridDim.x) * kThreads; }

// The index in a list for each lane where `mine` holds, with one atomic per warp; all lanes call.
__device__ __forceinline__ int take(bool mine, int32_t* count) {
  const unsigned all = __ballot_sync(~0u, mine);
  if (all == 0) return 0;
  const int lane = threadIdx.x & 31, first = __ffs(all) - 1;
  int base = 0;
  if (lane == first) base = atomicAdd(count, __popc(all));
  return __shfl_sync(~0u, base, first) + __popc(all & ((1u << lane) - 1));
}

__device__ __forceinline__ void append(bool mine, int32_t n, Vec3<float> x, int32_t* list, int32_t* count, void* places) {
  const int64_t place = take(mine, count);
  if (!mine) return;
  list[place] = n;
  store3(static_cast<float*>(places) + 3 * place, x);
}

__global__ void __launch_bounds__(kThreads) sphere_trace_begin_kernel(const luxel_sphere_trace_args args) {
  const int64_t count = rays_given(args);
  for (int64_t n = first_row(); n - (threadIdx.x & 31) < count; n += row_stride()) {
    Vec3<float> x = {0.0f, 0.0f, 0.0f};
    const Fate fate = n < count ? start_ray<float>(args, n, x) : Fate::kGone;
    append(fate == Fate::kAlive, static_cast<int32_t>(n), x, args.next, args.next_count, args.x);
  }
}

__global__ void __launch_bounds__(kThreads) sphere_trace_step_kernel(const luxel_sphere_trace_args args) {
  const int64_t rows = rays_evaluated(args);
  for (int64_t i = first_row(); i - (threadIdx.x & 31) < rows; i += row_stride()) {
    const bool active = i < rows;
    const int32_t n = active ? args.alive[i] : 0;
    Vec3<float> x = {0.0f, 0.0f, 0.0f};
    const Fate fate = active ? advance_ray<float>(args, n, static_cast<const float*>(args.distance)[i], x) : Fate::kGone;
    append(fate == Fate::kAlive, n, x, args.next, args.next_count, args.x);
    append(fate == Fate::kHit, n, x, args.hits, args.hit_count, args.hit_x);
  }
}

// Lists are mostly shorter than their capacity: fewer blocks that loop save the launch of idle ones.
unsigned list_blocks(int64_t rows) { return smaller(blocks_for(rows, kThreads), kMaxBlocks); }

int prepare(const luxel_sphere_trace_args& args) {
  if (check(args) < 0) return -1;
  if (args.dtype != 0) return fail("the GPU kernels take float32");
  LUXEL_CUDA(cudaSetDevice(args.device));
  return 0;
}

}  // namespace
}  // namespace luxel

extern "C" {

int luxel_sphere_trace_begin(const luxel_sphere_trace_args* args) {
  using namespace luxel;
  if (prepare(*args) < 0) return -1;
  return launch("sphere_trace_begin", sphere_trace_begin_kernel, list_blocks(args->count), kThreads, 0, args->stream, *args);
}

int luxel_sphere_trace_step(const luxel_sphere_trace_args* args) {
  using namespace luxel;
  if (prepare(*args) < 0) return -1;
  return launch("sphere_trace_step", sphere_trace_step_kernel, list_blocks(args->limit), kThreads, 0, args->stream, *args);
}
}
