// Shared by the backward passes of the tile rasterizer on the GPU: the piece of a tile's list that a block visits back to front, and
// the state of a thread's pixels on the way.
#pragma once

#include "kernels/raster/blend/blend_bwd_sums.cuh"

namespace luxel {
namespace {

// A row of the plan. tile < 0: the row is unused. Instances start .. end-1 are the piece's.
template <typename Policy> struct Piece {
  int tile, number;
  int32_t start, end;
  bool whole;  // the last piece of the list: it starts from the final pixels, others from a stored state

  __device__ __forceinline__ Piece(const luxel_blend_args& args, unsigned index) {
    const int2 piece = reinterpret_cast<const int2*>(args.binned.plan + 2 * static_cast<int64_t>(tiles_of(args.binned)))[index];
    tile = piece.x;
    number = piece.y;
    if (tile < 0) return;
    start = args.binned.ranges[2 * tile] + number * Policy::kPiece;
    const int32_t list_end = args.binned.ranges[2 * tile + 1];
    end = min(start + Policy::kPiece, list_end);
    whole = end == list_end;
  }
};

// The pixels of a thread, behind the splats that are still to be visited.
template <typename Policy, int D> struct PixelStates {
  static constexpr int R = kBackwardPixels;
  float transmittance[R], behind[R], g_image[R][D] = {};  // behind: g_image . (weighted colour behind the splat)
  int32_t last[R] = {}, thread_last = 0;                  // within the piece, as slots are
  const float* background;

  __device__ __forceinline__ PixelStates(const luxel_blend_args& args, const Place<R>& at, const Piece<Policy>& piece)
      : background(args.background ? in<float>(args.background) + D * at.camera : nullptr) {
#pragma unroll
    for (int r = 0; r < R; ++r) {
      transmittance[r] = 1.0f;
      behind[r] = 0.0f;
      if (!at.inside(r)) continue;
      last[r] = args.last[at.pixel_at(r)] - piece.start;
      thread_last = max(thread_last, last[r]);
    }
  }
  // Whether no pixel of the block has a splat of the piece. All threads call.
  __device__ __forceinline__ bool none(const Piece<Policy>& piece) const {
    return piece.number > 0 && __syncthreads_or(thread_last > 0) == 0;
  }
  __device__ __forceinline__ void load(const luxel_blend_args& args, const Place<R>& at, const Piece<Policy>& piece) {
#pragma unroll
    for (int r = 0; r < R; ++r) {
      if (!at.inside(r)) continue;
      const int64_t pixel = at.pixel_at(r);
      const float t_end = in<float>(args.transmittance)[pixel];
      float slope = args.g_transmittance ? in<float>(args.g_transmittance)[pixel] * t_end : 0.0f;
      const int local = (at.y - at.y0 + 4 * r) * LUXEL_TILE + at.x - at.x0;
      const float* state = piece.whole ? nullptr : state_of<D>(args, piece.tile, piece.number) + local;
#pragma unroll
      for (int d = 0; d < D; ++d) {
        const float g = g_image[r][d] = in<float>(args.g_image)[pixel * D + d];
        if (!piece.whole)
          slope = fmaf(g, in<float>(args.final_image)[pixel * D + d] - state[d * kPixels], slope);
        else if (background)
          slope = fmaf(g * t_end, background[d], slope);
      }
      transmittance[r] = piece.whole ? t_end : state[D * kPixels];
      behind[r] = slope;
    }
  }

  // Gathers the gradient by the splat through pixel r, dy below it, and steps in front of the splat.
  template <typename Along, typename Coverage, typename Sums>
  __device__ __forceinline__ void gather(const luxel_blend_args& args, int r, float dy, const Entry<Policy, D>& entry,
                                         const Along& along, const Coverage& coverage, Sums& sums, float* g_value) {
    const float raw = coverage.alpha(), alpha = fminf(args.binned.max_alpha, raw);
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
    sums.add(entry.splat, along, coverage, dy, raw <= args.binned.max_alpha ? g_log_alpha : 0.0f);
    behind[r] = fmaf(weight, slope, behind[r]);
  }
};

// Calls visit(bit) for each bit that is set, the highest first.
template <typename Visit> __device__ __forceinline__ void for_bits_downwards(unsigned bits, Visit visit) {
  while (bits != 0) {
    const int bit = 31 - __clz(bits);
    bits ^= 1u << bit;
    visit(bit);
  }
}

}  // namespace
}  // namespace luxel
