// march_rays on the GPU: a warp per ray looks at 32 steps at once, counts its samples, allocates space for them, and writes them; a
// second kernel clears the unused space and sets the number of rays of the next step. Rays through a full scene take hundreds of
// steps, each a chain of dependent reads, and a training step has few rays: one thread would wait for each step by itself.
#include "kernels/field/rays/march_rays.h"

#include "device/launch.cuh"
#include "kernels/field/rays/warp_room.cuh"

namespace luxel {
namespace {

constexpr int kWarps = 4, kThreads = 32 * kWarps, kBlocks = 12;  // of a multiprocessor
constexpr int kMaxWindows = LUXEL_MARCH_MAX / 32;
constexpr int kClearThreads = 256, kClearBlocks = 512;

// 32 steps of a ray, of which some are samples.
struct Window {
  int first;      // step
  uint32_t mask;  // a bit for each that lies in an occupied cell
};

// Of the windows that have samples: fills `windows`, returns the number of samples; all lanes of a warp.
__device__ __forceinline__ int find_windows(const MarchRay<float>& march, const Cells& cells, Window* windows) {
  const int lane = threadIdx.x & 31;
  int samples = 0;
  for (int first = 0, last = 0; first < LUXEL_MARCH_MAX;) {
    const Place place = first + lane < LUXEL_MARCH_MAX ? look_at(march, cells, first + lane, LUXEL_MARCH_MAX) : Place{false, LUXEL_MARCH_MAX};
    const uint32_t mask = __ballot_sync(~0u, place.occupied);
    if (mask != 0) {
      if (lane == 0) windows[last] = {first, mask};
      ++last;
      samples += __popc(mask);
    }
    first = __shfl_sync(~0u, place.next, 31);  // past the window, and past the empty cell where its last step lies
  }
  __syncwarp();
  return samples;
}

__device__ __forceinline__ void write_windows(const luxel_march_rays_args& args, int64_t sample, int count, const MarchRay<float>& march,
                                              Vec3<float> direction, const Window* windows) {
  const int lane = threadIdx.x & 31;
  for (const int64_t last = sample + count; sample < last; ++windows) {
    const Window window = *windows;
    if (window.mask >> lane & 1) {
      const int64_t own = sample + __popc(window.mask & ((1u << lane) - 1));
      const float t = march.at(window.first + lane);
      write_sample(args, own, march, direction, t);
      static_cast<float*>(args.dt)[own] = steps_of<float>(args).length(t);
    }
    sample += __popc(window.mask);
  }
}

__global__ void __launch_bounds__(kThreads) march_rays_kernel(const __grid_constant__ luxel_march_rays_args args) {
  __shared__ Window shared[kWarps][kMaxWindows];
  Window* const windows = shared[threadIdx.x / 32];
  const bool leads = (threadIdx.x & 31) == 0;
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x, threads = static_cast<int64_t>(gridDim.x) * kThreads;
  const int64_t live = rays_that_count(args);
  auto* const asked = reinterpret_cast<unsigned long long*>(args.counters) + 1;
  if (thread == 0) args.counters[2] = live;
  for (int64_t r = thread / 32; r < live; r += threads / 32) {
    MarchRay<float> march;
    Vec3<float> direction;
    const int count = start_march(args, r, march, direction) ? find_windows(march, cells_of(args), windows) : 0;
    int64_t first = 0;
    bool writes = false;
    if (leads) {
      if (count > 0) first = static_cast<int64_t>(atomicAdd(asked, static_cast<unsigned long long>(count)));
      writes = settle_range(args, r, first, count);
    }
    first = __shfl_sync(~0u, first, 0);
    if (__shfl_sync(~0u, writes, 0)) write_windows(args, first, count, march, direction, windows);
    __syncwarp();  // before the next ray's windows
  }
  for (int64_t r = live + thread; r < args.count; r += threads) args.ranges[2 * r] = args.ranges[2 * r + 1] = 0;
}

__global__ void __launch_bounds__(kClearThreads) clear_samples_kernel(const __grid_constant__ luxel_march_rays_args args) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kClearThreads + threadIdx.x;
  clear_rest<float>(args, thread, static_cast<int64_t>(gridDim.x) * kClearThreads);
  if (thread > 0) return;
  args.counters[0] = samples_with_room(args);
  adapt_rays(args);
}

}  // namespace
}  // namespace luxel

extern "C" int luxel_march_rays(const luxel_march_rays_args* args) {
  using namespace luxel;
  if (args->dtype != 0) return fail("the GPU kernels take float32");
  LUXEL_CUDA(cudaSetDevice(args->device));
  int resident;
  if (resident_blocks(kBlocks, args->device, &resident) < 0) return -1;
  LUXEL_CUDA(cudaMemsetAsync(args->counters, 0, 5 * sizeof(int64_t), static_cast<cudaStream_t>(args->stream)));
  const unsigned rays = smaller<unsigned>(blocks_for(args->count, kWarps), resident);
  if (launch("march_rays", march_rays_kernel, rays, kThreads, 0, args->stream, *args) < 0) return -1;
  const unsigned blocks = smaller<unsigned>(blocks_for(args->capacity, kClearThreads), kClearBlocks);
  return launch("march_rays, clear", clear_samples_kernel, larger(blocks, 1u), kClearThreads, 0, args->stream, *args);
}
