// render_wave on the GPU: a thread per ray, or a few of them where blocks are fewer than rays. One kernel before the field and
// one after it; rays that are not finished are listed by ballots of a warp.
#include "kernels/field/rays/render_wave.h"

#include "device/launch.cuh"
#include "kernels/field/rays/warp_room.cuh"

namespace luxel {
namespace {

constexpr int kThreads = 128;
constexpr unsigned kMaxBlocks = 1 << 13;  // some rounds of a device's multiprocessors: lists are mostly shorter than their capacity

__device__ __forceinline__ int64_t thread_index() { return static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; }

__device__ __forceinline__ int64_t stride() { return static_cast<int64_t>(gridDim.x) * kThreads; }

__device__ __forceinline__ void list_ray(const luxel_render_wave_args& args, bool goes_on, int64_t r) {
  const int place = take_place(goes_on, args.next_listed);
  if (goes_on) args.next_list[place] = static_cast<int32_t>(r);
}

__global__ void __launch_bounds__(kThreads) begin_waves_kernel(const __grid_constant__ luxel_render_wave_args args) {
  const int64_t count = part_of(args).count;
  for (int64_t r = thread_index(); r - (threadIdx.x & 31) < count; r += stride())  // full warps
    list_ray(args, r < count && begin_ray<float>(args, r), r);
}

__global__ void __launch_bounds__(kThreads) march_wave_kernel(const __grid_constant__ luxel_render_wave_args args) {
  const int64_t listed = rays_listed(args);
  const int allowed = samples_allowed(args, listed);
  for (int64_t slot = thread_index(); slot - (threadIdx.x & 31) < listed; slot += stride()) {
    const int64_t r = slot < listed ? args.list[slot] : 0;
    MarchRay<float> march;
    Vec3<float> direction;
    const bool enters = slot < listed && start_wave_ray(args, r, march, direction);
    const int place = enters ? static_cast<int>(static_cast<const float*>(args.state)[LUXEL_WAVE_STATE * r + 5]) : -1;
    int next = place;
    uint64_t near = 0;
    const int count = enters ? count_wave_samples(march, cells_of(args), allowed, next, near) : 0;
    const int first = take_room(count, args.samples);
    if (slot >= listed) continue;
    const bool writes = count > 0 && first + count <= args.capacity;
    args.ranges[2 * slot] = writes ? first : 0;
    args.ranges[2 * slot + 1] = writes ? count : 0;
    if (!writes) continue;
    static_cast<float*>(args.state)[LUXEL_WAVE_STATE * r + 5] = static_cast<float>(next);
    write_wave_samples(args, first, count, place, near, march, direction);
  }
}

__global__ void __launch_bounds__(kThreads) composite_wave_kernel(const __grid_constant__ luxel_render_wave_args args) {
  const int64_t listed = rays_listed(args);
  for (int64_t slot = thread_index(); slot - (threadIdx.x & 31) < listed; slot += stride()) {
    const int64_t r = slot < listed ? args.list[slot] : 0;
    list_ray(args, slot < listed && add_samples<float>(args, slot, r), r);
  }
}

int start(const char* stage, void (*kernel)(luxel_render_wave_args), const luxel_render_wave_args& args) {
  if (args.dtype != 0) return fail("the GPU kernels take float32");
  LUXEL_CUDA(cudaSetDevice(args.device));
  return launch(stage, kernel, smaller(blocks_for(args.count, kThreads), kMaxBlocks), kThreads, 0, args.stream, args);
}

}  // namespace
}  // namespace luxel

extern "C" {

int luxel_begin_waves(const luxel_render_wave_args* args) { return luxel::start("begin_waves", luxel::begin_waves_kernel, *args); }
int luxel_march_wave(const luxel_render_wave_args* args) { return luxel::start("march_wave", luxel::march_wave_kernel, *args); }
int luxel_composite_wave(const luxel_render_wave_args* args) {
  return luxel::start("composite_wave", luxel::composite_wave_kernel, *args);
}
}
