// Shared by the forward passes of the tile rasterizer on the GPU: the accumulators of a pixel, and the list of the splats of a
// batch that can reach the pixels of a warp.
#pragma once

#include "kernels/raster/blend/blend_tile.cuh"

namespace luxel {
namespace {

// Predicated instructions, where the compiler would choose a branch or an additional select.
__device__ __forceinline__ void fma_where(bool condition, float& sum, float a, float b) {
  asm("{ .reg .pred p; setp.ne.s32 p, %1, 0; @p fma.rn.f32 %0, %2, %3, %0; }"
      : "+f"(sum)
      : "r"(static_cast<int>(condition)), "f"(a), "f"(b));
}
__device__ __forceinline__ void count_where(bool condition, int32_t& count) {
  asm("{ .reg .pred p; setp.ne.s32 p, %1, 0; @p add.s32 %0, %0, 1; }" : "+r"(count) : "r"(static_cast<int>(condition)));
}

// Accumulators of a pixel, over the contributing splats front to back: D channels of values, the number of splats and, if kMedian,
// the depth at which T falls to 1/2. T is negative once the pixel has ended.
template <int D, bool kMedian> struct Gathered {
  float transmittance = 1.0f, sums[D] = {}, median = 0.0f;
  int32_t seen = 0, last = 0;

  // No branch here: the inner loop has none.
  __device__ __forceinline__ void add(bool counts, float alpha, const float* value, float before, float after, float depth) {
    const float weight = alpha * before;
#pragma unroll
    for (int d = 0; d < D; ++d) fma_where(counts, sums[d], weight, value[d]);
    if (kMedian) median = counts && before > 0.5f && after <= 0.5f ? depth : median;
    count_where(counts, seen);
  }
  __device__ __forceinline__ bool visit(bool hit, float alpha, const float* value, float depth) {
    const float after = behind(alpha);
    const bool counts = hit && after > kMinTransmittance;
    add(counts, alpha, value, transmittance, after, depth);
    pass(hit, alpha);
    return counts;
  }
  // T after one, and whether the pixel ends there.
  __device__ __forceinline__ void pass(bool hit, float alpha) {
    const float after = behind(alpha), ended = hit ? -fabsf(transmittance) : transmittance;
    transmittance = hit && after > kMinTransmittance ? after : ended;
  }
  __device__ __forceinline__ float behind(float alpha) const { return fmaf(-alpha, transmittance, transmittance); }
  __device__ void store_state(float* state) const {
#pragma unroll
    for (int d = 0; d < D; ++d) state[d * kPixels] = sums[d];
    state[D * kPixels] = fabsf(transmittance);
  }
  __device__ void store(const luxel_blend_args& args, int camera, int64_t pixel) const {
    const float* background = args.background ? in<float>(args.background) + D * camera : nullptr;
    const float t_end = fabsf(transmittance);
    float* image = out<float>(args.image) + pixel * D;
#pragma unroll
    for (int d = 0; d < D; ++d) image[d] = background ? fmaf(t_end, background[d], sums[d]) : sums[d];
    out<float>(args.transmittance)[pixel] = t_end;
    if (args.last) args.last[pixel] = last;
    if (args.contributors) args.contributors[pixel] = seen;
    if (kMedian) out<float>(args.median_depth)[pixel] = median;
  }
};

template <typename Policy, int D> __device__ __forceinline__ Entry<Policy, D> null_splat() {
  Entry<Policy, D> entry = {};
  entry.splat = Policy::null_splat();
  return entry;
}

// Lists the addresses in shared memory of the splats of a piece that can reach the pixels of this warp, in order, then kMore
// times that of the null splat; returns their number. Bits of tag(splat), which must be free in an address, are set in it.
template <int kMore, typename Policy, int D, int kSplats, typename Tag>
__device__ __forceinline__ int list_splats(const Batch<Policy, D, kSplats, 1>& batch, int first, int warp, int lane,
                                           uint32_t* list, Tag tag) {
  constexpr uint32_t kBytes = sizeof(Entry<Policy, D>);
  const uint32_t entries = static_cast<uint32_t>(__cvta_generic_to_shared(batch.entries));
  int count = 0;
#pragma unroll
  for (int group = first; group < first + Policy::kPiece; group += 32) {
    const bool mine = batch.subtiles[group + lane] >> warp & 1;
    const unsigned bits = __ballot_sync(kAll, mine);
    const uint32_t place = (entries + (group + lane) * kBytes) | tag(batch.entries[group + lane].splat);
    if (mine) list[count + __popc(bits & ((1u << lane) - 1))] = place;
    count += __popc(bits);
  }
  if (lane < kMore) list[count + lane] = entries + kSplats * kBytes;
  __syncwarp();
  return count;
}

}  // namespace
}  // namespace luxel
