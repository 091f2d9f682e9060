// Backward pass of simple policies on the GPU: a block per piece of a tile's list, so that a tile with thousands of splats is
// shared by many blocks. The block loads the piece into shared memory; a warp visits, back to front, the splats that can reach its
// subtile.
#pragma once

#include "kernels/raster/blend/blend_bwd_sums.cuh"

namespace luxel {
namespace {

// Resident blocks per multiprocessor, which limit the registers; a depth that varies over pixels takes more of these.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr int simple_bwd_blocks(int, bool) { return 1; }  // Turing supports fewer resident threads
#else
constexpr int simple_bwd_blocks(int channels, bool pixel_depth) { return channels > 4 ? 1 : (pixel_depth ? 14 : 18); }
#endif

template <typename Policy, int D, bool kAbsolute>
__global__ void __launch_bounds__(32 * kBackwardWarps, simple_bwd_blocks(D, Policy::kPixelDepth)) blend_bwd_simple_kernel(const luxel_blend_args args) {
  constexpr int R = kBackwardPixels, kCount = Policy::kPiece, kThreads = 32 * kBackwardWarps;
  using Sums = typename Policy::template Sums<kAbsolute>;
  using Targets = LaneTargets<Policy, Sums, D>;
  __shared__ struct : Batch<Policy, D, kCount> {
    uint32_t row[kCount];  // of the gradient: the splat, or the instance where sums wait for their order
  } batch;
  const int2 piece =  // the tile, and the number of the piece in its list
      reinterpret_cast<const int2*>(args.plan + 2 * static_cast<int64_t>(tiles_of(args)))[blockIdx.x];
  const int tile = piece.x;
  if (tile < 0) return;
  const Place<R> at(args, tile, threadIdx.x >> 5);
  const int32_t start = args.ranges[2 * tile] + piece.y * Policy::kPiece;
  const int32_t list_end = args.ranges[2 * tile + 1], end = min(start + Policy::kPiece, list_end);
  const bool whole = end == list_end;  // the last piece starts from the final pixels, others from a stored state
  const float px = static_cast<float>(at.x) + 0.5f, py = static_cast<float>(at.y) + 0.5f;
  float transmittance[R], behind[R], g_image[R][D] = {};  // behind: g_image . (weighted colour behind the splat)
  int32_t last[R] = {}, thread_last = 0;                  // within the piece, as slots are
  const float* background = args.background ? in<float>(args.background) + D * at.camera : nullptr;
#pragma unroll
  for (int r = 0; r < R; ++r) {
    transmittance[r] = 1.0f;
    behind[r] = 0.0f;
    if (!at.inside(r)) continue;
    last[r] = args.last[at.pixel_at(r)] - start;
    thread_last = max(thread_last, last[r]);
  }
  if (piece.y > 0 && __syncthreads_or(thread_last > 0) == 0) return;
#pragma unroll
  for (int k = 0; k < kCount / kThreads; ++k) {
    const int slot = threadIdx.x + k * kThreads;
    const int32_t instance = start + threadIdx.x + k * kThreads, id = instance < end ? args.instances[instance] : -1;
    Fetched<Policy, D> splat;
    fetch_splat(args, splat, id);
    store_splat<Shape<R>, Policy, D, kCount>(batch, slot, splat, id, at.x0, at.y0);
    batch.row[slot] = static_cast<uint32_t>(args.deterministic ? instance : id);
  }
#pragma unroll
  for (int r = 0; r < R; ++r) {
    if (!at.inside(r)) continue;
    const int64_t pixel = at.pixel_at(r);
    const float t_end = in<float>(args.transmittance)[pixel];
    float slope = args.g_transmittance ? in<float>(args.g_transmittance)[pixel] * t_end : 0.0f;
    const int local = (at.y - at.y0 + 4 * r) * LUXEL_TILE + at.x - at.x0;
    const float* state = whole ? nullptr : state_of<D>(args, tile, piece.y) + local;
#pragma unroll
    for (int d = 0; d < D; ++d) {
      const float g = g_image[r][d] = in<float>(args.g_image)[pixel * D + d];
      if (!whole)
        slope = fmaf(g, in<float>(args.final_image)[pixel * D + d] - state[d * kPixels], slope);
      else if (background)
        slope = fmaf(g * t_end, background[d], slope);
    }
    transmittance[r] = whole ? t_end : state[D * kPixels];
    behind[r] = slope;
  }
  const int32_t warp_last = max_over_warp(thread_last);
  const Targets targets(args, at.warp, at.lane, number_of_lane<Targets::kFirst>(at.lane));

  // Gathers the gradient by the splat through pixel r, dy below it, and steps in front of the splat.
  const auto gather = [&](int r, float dy, const Entry<Policy, D>& entry, const auto& along, const auto& coverage, auto& sums,
                          float* g_value) {
    const float raw = coverage.alpha(), alpha = fminf(args.max_alpha, raw);
    const float inverse = reciprocal(1.0f - alpha);
    transmittance[r] *= inverse;
    const float weight = alpha * transmittance[r];
    float slope = 0.0f;
    const SeenEntry<Policy, D> seen(args, entry, coverage);
#pragma unroll
    for (int d = 0; d < D; ++d) {
      slope = fmaf(g_image[r][d], seen.value[d], slope);
      g_value[d] = fmaf(weight * seen.factor(d), g_image[r][d], g_value[d]);
    }
    if constexpr (Policy::kPixelDepth && D >= 4) sums.add_depth(coverage, dy, weight * seen.by_factor(args, entry, g_image[r]));
    const float g_log_alpha = fmaf(weight, slope, -behind[r] * (alpha * inverse));
    sums.add(entry.splat, along, coverage, dy, raw <= args.max_alpha ? g_log_alpha : 0.0f);
    behind[r] = fmaf(weight, slope, behind[r]);
  };
  // Gathers the gradient by the splat in slot `place` over the warp's pixels, and adds it to memory.
  const auto visit = [&](const Entry<Policy, D>& entry, int32_t place, uint32_t row) {
    const typename Policy::Packed splat = entry.splat;
    const typename Policy::Column along(splat, px);
    Sums sums;
    float numbers[Sums::kCount + D] = {};
    typename Policy::Coverage coverage[R];
    bool counts[R], any = false;
#pragma unroll
    for (int r = 0; r < R; ++r) {
      coverage[r] = along.at(splat, py + static_cast<float>(4 * r) - splat.y);
      counts[r] = coverage[r].hits(splat.highest()) && place < last[r];
      any |= counts[r];
    }
    if (!__any_sync(kAll, any)) return;
#pragma unroll
    for (int r = 0; r < R; ++r)
      if (counts[r]) gather(r, py + static_cast<float>(4 * r) - splat.y, entry, along, coverage[r], sums, numbers + Sums::kCount);
    sums.store(splat, along, numbers);
    targets.add(numbers, row, at.lane);
  };
  __syncthreads();
  for (int group = (end - start - 1) / 32 * 32; group >= 0; group -= 32) {
    if (group >= warp_last) continue;
    unsigned bits = __ballot_sync(kAll, batch.subtiles[group + at.lane] >> at.warp & 1);
    while (bits != 0) {
      const int place = 31 - __clz(bits), slot = group + place;
      bits ^= 1u << place;
      visit(batch.entries[slot], slot, batch.row[slot]);
    }
  }
}

}  // namespace
}  // namespace luxel
