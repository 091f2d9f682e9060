// march_rays on the GPU: a thread per ray counts its samples, allocates space for them together with its warp, and writes them; a
// second kernel clears the unused space and sets the number of rays of the next step. Steps in occupied cells are kept as a bit
// mask, because walking through the cells a second time would repeat a chain of dependent reads.
#include "kernels/field/rays/march_rays.h"

#include "device/launch.cuh"
#include "kernels/field/rays/warp_room.cuh"

namespace luxel {
namespace {

constexpr int kThreads = 64;  // small, to spread the few rays with many steps over all multiprocessors
constexpr int kWords = 34;    // of 32 steps each in the bit mask; later steps are looked up again
constexpr int kClearThreads = 256, kClearBlocks = 512;

// The bit mask of one thread in shared memory; adjacent threads use different banks.
struct Places {
  uint32_t* words;
  __device__ uint32_t& operator[](int word) const { return words[word * kThreads]; }
};

__device__ __forceinline__ int count_and_remember(const MarchRay<float>& march, const Cells& cells, const Places& places) {
  for (int word = 0; word < kWords; ++word) places[word] = 0;
  int count = 0;
  for (int k = occupied_place(march, cells, 0, LUXEL_MARCH_MOST); k >= 0; k = occupied_place(march, cells, k + 1, LUXEL_MARCH_MOST)) {
    ++count;
    if (k < 32 * kWords) places[k >> 5] |= 1u << (k & 31);
  }
  return count;
}

__device__ __forceinline__ void write_remembered(const luxel_march_rays_args& args, int64_t first, int count, const MarchRay<float>& march,
                                                 Vec3<float> direction, const Places& places) {
  const auto write = [&](int64_t sample, int k) {
    const float t = march.at(k);
    write_sample(args, sample, march, direction, t);
    static_cast<float*>(args.dt)[sample] = steps_of<float>(args).length(t);
  };
  const int64_t last = first + count;
  for (int word = 0; word < kWords && first < last; ++word)
    for (uint32_t left = places[word]; left != 0; left &= left - 1) write(first++, 32 * word + __ffs(left) - 1);
  for (int k = 32 * kWords; first < last; ++k) {
    k = occupied_place(march, cells_of(args), k, LUXEL_MARCH_MOST);
    write(first++, k);
  }
}

__global__ void __launch_bounds__(kThreads) march_rays_kernel(const __grid_constant__ luxel_march_rays_args args) {
  __shared__ uint32_t words[kWords * kThreads];
  const Places places = {words + threadIdx.x};
  const int64_t r = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t live = rays_that_count(args);
  MarchRay<float> march;
  Vec3<float> direction;
  const bool enters = r < live && start_march(args, r, march, direction);
  const int count = enters ? count_and_remember(march, cells_of(args), places) : 0;
  const auto first = static_cast<int64_t>(take_room(count, reinterpret_cast<unsigned long long*>(args.counters) + 1));
  if (r == 0) args.counters[2] = live;
  if (r >= args.count) return;
  if (settle_range(args, r, first, count)) write_remembered(args, first, count, march, direction, places);
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
  LUXEL_CUDA(cudaMemsetAsync(args->counters, 0, 5 * sizeof(int64_t), static_cast<cudaStream_t>(args->stream)));
  if (launch("march_rays", march_rays_kernel, blocks_for(args->count, kThreads), kThreads, 0, args->stream, *args) < 0) return -1;
  const unsigned blocks = smaller<unsigned>(blocks_for(args->capacity, kClearThreads), kClearBlocks);
  return launch("march_rays, clear", clear_samples_kernel, larger(blocks, 1u), kClearThreads, 0, args->stream, *args);
}
