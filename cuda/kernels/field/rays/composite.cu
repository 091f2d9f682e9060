// composite on the GPU: a warp per ray, 32 samples at a time, whose optical depths are summed across the lanes.
#include "abi/rays.h"
#include "kernels/field/rays/composite.h"

#include "device/launch.cuh"
#include "kernels/arguments.h"
#include "device/warp_sum.cuh"

namespace luxel {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kClearBlocks = 64;  // additional blocks, for samples that belong to no ray

// One lane's sample; all 0 if it has no weight.
struct RaySample {
  int64_t index;
  float density, depth, transmittance, weight, t;
  Vec3<float> colour;
};

// Sums of the moments over this lane and those below.
__device__ __forceinline__ Moments<float> moments_upto(float weight, float s, int lane) { return {sum_upto(weight, lane), sum_upto(weight * s, lane)}; }
__device__ __forceinline__ Moments<float> in_front(Moments<float> before, Moments<float> upto, float weight, float s) {
  return {before.weight + upto.weight - weight, before.first + upto.first - weight * s};
}
__device__ __forceinline__ Moments<float> with_warp(Moments<float> before, Moments<float> upto) {
  return {before.weight + __shfl_sync(~0u, upto.weight, 31), before.first + __shfl_sync(~0u, upto.first, 31)};
}

// visit(sample, it has a weight, it is of the ray) for each sample, 32 at a time; after the one that ends the
// ray, only where kAll. Returns the optical depth behind the last that has a weight.
template <bool kAll, typename Visit>
__device__ __forceinline__ float visit_samples(const luxel_composite_args& args, int64_t first, int count, int lane, const Visit& visit) {
  float before = 0.0f;
  bool open = true;
  const float least = static_cast<float>(args.min_transmittance), scale = static_cast<float>(args.scale);
  for (int base = 0; base < count; base += 32) {
    const int here = smaller(32, count - base);
    RaySample sample = {first + base + lane, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, {0.0f, 0.0f, 0.0f}};
    const bool mine = lane < here;
    bool counts = false;
    if (open) {
      if (mine) {
        sample.density = static_cast<const float*>(args.density)[sample.index];
        sample.depth = optical_depth(sample.density, scale * static_cast<const float*>(args.dt)[sample.index]);
      }
      const float upto = sum_upto(sample.depth, lane);
      const float below = __shfl_up_sync(~0u, upto, 1);
      sample.transmittance = exp_exact(-(lane == 0 ? before : before + below));
      counts = mine && sample.transmittance >= least;
      if (counts) {
        sample.weight = sample_weight(sample.transmittance, sample.depth);
        sample.colour = sample_colour(static_cast<const float*>(args.colour) + 3 * sample.index);
        sample.t = static_cast<const float*>(args.t)[sample.index];
      }
      const int counted = __popc(__ballot_sync(~0u, counts));  // the first ones
      if (counted > 0) before += __shfl_sync(~0u, upto, counted - 1);
      open = counted == here;
    }
    visit(sample, counts, mine);
    if (!kAll && !open) break;
  }
  return before;
}

__global__ void __launch_bounds__(kThreads) composite_kernel(const __grid_constant__ luxel_composite_args args) {
  const int lane = threadIdx.x & 31;
  const int64_t r = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (r >= args.count) return;
  Vec3<float> rgb = {0.0f, 0.0f, 0.0f};
  float depth = 0.0f, distorted = 0.0f;
  const DistortionScale<float> scale(args);
  const float first_s = scale.first(args, args.ranges[2 * r], args.ranges[2 * r + 1]);
  Moments<float> before = {0.0f, 0.0f};
  const float end = visit_samples<false>(args, args.ranges[2 * r], args.ranges[2 * r + 1], lane, [&](const RaySample& sample, bool, bool) {
    rgb = rgb + sample.weight * sample.colour;
    depth += sample.weight * sample.t;
    if (!args.distortion) return;
    const float s = sample.weight > 0.0f ? scale.arc(sample.t) - first_s : 0.0f;
    const Moments<float> upto = moments_upto(sample.weight, s, lane);
    distorted += distortion_of(sample.weight, s, scale.width, in_front(before, upto, sample.weight, s));
    before = with_warp(before, upto);
  });
  rgb = {warp_sum(rgb.x), warp_sum(rgb.y), warp_sum(rgb.z)};
  depth = warp_sum(depth);
  if (args.distortion) distorted = warp_sum(distorted);
  if (lane > 0) return;
  if (args.distortion) {
    static_cast<float*>(args.distortion)[r] = distorted;
    static_cast<float*>(args.moments)[2 * r] = before.weight;
    static_cast<float*>(args.moments)[2 * r + 1] = before.first;
  }
  const float transmittance = exp_exact(-end);
  store3(static_cast<float*>(args.rgb) + 3 * r, rgb + transmittance * load3(static_cast<const float*>(args.background) + 3 * r));
  static_cast<float*>(args.transmittance)[r] = transmittance;
  static_cast<float*>(args.depth)[r] = depth;
}

__device__ __forceinline__ void clear_gradients(const luxel_composite_args& args, int64_t thread, int64_t threads) {
  const int64_t used = clamp<int64_t>(args.counters[0], 0, args.samples);
  for (int64_t s = used + thread; s < args.samples; s += threads) static_cast<float*>(args.g_density)[s] = 0.0f;
  for (int64_t i = 3 * used + thread; i < 3 * static_cast<int64_t>(args.samples); i += threads) static_cast<float*>(args.g_colour)[i] = 0.0f;
}

__global__ void __launch_bounds__(kThreads) composite_bwd_kernel(const __grid_constant__ luxel_composite_args args) {
  if (blockIdx.x < kClearBlocks) {
    clear_gradients(args, static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x, static_cast<int64_t>(kClearBlocks) * kThreads);
    return;
  }
  const int lane = threadIdx.x & 31;
  const int64_t r = static_cast<int64_t>(blockIdx.x - kClearBlocks) * kWarps + threadIdx.x / 32;
  if (r >= args.count) return;
  const Vec3<float> g_rgb = load3(static_cast<const float*>(args.g_rgb) + 3 * r);
  const float g_depth = args.g_depth ? static_cast<const float*>(args.g_depth)[r] : 0.0f;
  const float g_end = args.g_transmittance ? static_cast<const float*>(args.g_transmittance)[r] : 0.0f;
  float all = dot(g_rgb, load3(static_cast<const float*>(args.rgb) + 3 * r));
  all += g_depth * static_cast<const float*>(args.depth)[r] + g_end * static_cast<const float*>(args.transmittance)[r];
  const DistortionGradient<float> by_distortion(args, r);
  const float first_s = by_distortion.scale.first(args, args.ranges[2 * r], args.ranges[2 * r + 1]);
  Moments<float> before = {0.0f, 0.0f};
  all += by_distortion.all();
  visit_samples<true>(args, args.ranges[2 * r], args.ranges[2 * r + 1], lane, [&](const RaySample& sample, bool counts, bool mine) {
    float value = sample_value(sample.colour, sample.t, g_rgb, g_depth);
    if (args.g_distortion) {
      const float s = sample.weight > 0.0f ? by_distortion.scale.arc(sample.t) - first_s : 0.0f;
      const Moments<float> upto = moments_upto(sample.weight, s, lane);
      if (counts) value += by_distortion.value(in_front(before, upto, sample.weight, s), sample.weight, s);
      before = with_warp(before, upto);
    }
    const float upto = sum_upto(sample.weight * value, lane);
    const float behind = all - upto;
    all -= __shfl_sync(~0u, upto, 31);
    if (!mine) return;
    float g_colour[3] = {0.0f, 0.0f, 0.0f};
    if (counts) colour_vjp(sample.colour, sample.weight, g_rgb, g_colour);
    static_cast<float*>(args.g_density)[sample.index] = counts ? density_vjp(sample.density, sample.depth, sample.transmittance, value, behind) : 0.0f;
    store3(static_cast<float*>(args.g_colour) + 3 * sample.index, {g_colour[0], g_colour[1], g_colour[2]});
  });
}

}  // namespace
}  // namespace luxel

extern "C" {

int luxel_composite_fwd(const luxel_composite_args* args) {
  using namespace luxel;
  if (args->dtype != 0) return fail("the GPU kernels take float32");
  LUXEL_CUDA(cudaSetDevice(args->device));
  return launch("composite", composite_kernel, blocks_for(args->count, kWarps), kThreads, 0, args->stream, *args);
}

int luxel_composite_bwd(const luxel_composite_args* args) {
  using namespace luxel;
  if (args->dtype != 0) return fail("the GPU kernels take float32");
  LUXEL_CUDA(cudaSetDevice(args->device));
  const unsigned blocks = kClearBlocks + blocks_for(args->count, kWarps);
  return launch("composite_bwd", composite_bwd_kernel, blocks, kThreads, 0, args->stream, *args);
}
}
