// Backward pass of simple policies on the GPU: a block per piece of a tile's list, so that a tile with thousands of splats is
// shared by many blocks. The block loads the piece into shared memory; a warp visits, back to front, the splats that can reach its
// subtile.
#pragma once

#include "kernels/raster/blend/blend_bwd_piece.cuh"

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
  const Piece<Policy> piece(args, blockIdx.x);
  if (piece.tile < 0) return;
  const Place<R> at(args.binned, piece.tile, threadIdx.x >> 5);
  const float px = static_cast<float>(at.x) + 0.5f, py = static_cast<float>(at.y) + 0.5f;
  PixelStates<Policy, D> pixels(args, at, piece);
  if (pixels.none(piece)) return;
#pragma unroll
  for (int k = 0; k < kCount / kThreads; ++k) {
    const int slot = threadIdx.x + k * kThreads;
    const int32_t instance = piece.start + threadIdx.x + k * kThreads, id = instance < piece.end ? args.binned.instances[instance] : -1;
    Fetched<Policy, D> splat;
    fetch_splat(args, splat, id);
    store_splat<Shape<R>, Policy, D, kCount>(batch, slot, splat, id, at.x0, at.y0);
    batch.row[slot] = static_cast<uint32_t>(args.deterministic ? instance : id);
  }
  pixels.load(args, at, piece);
  const int32_t warp_last = max_over_warp(pixels.thread_last);
  const Targets targets(args, at.warp, at.lane, number_of_lane<Targets::kFirst>(at.lane));

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
      counts[r] = coverage[r].hits(splat.highest()) && place < pixels.last[r];
      any |= counts[r];
    }
    if (!__any_sync(kAll, any)) return;
#pragma unroll
    for (int r = 0; r < R; ++r)
      if (counts[r])
        pixels.gather(args, r, py + static_cast<float>(4 * r) - splat.y, entry, along, coverage[r], sums, numbers + Sums::kCount);
    sums.store(splat, along, numbers);
    targets.add(numbers, row, at.lane);
  };
  __syncthreads();
  for (int group = (piece.end - piece.start - 1) / 32 * 32; group >= 0; group -= 32) {
    if (group >= warp_last) continue;
    const unsigned bits = __ballot_sync(kAll, batch.subtiles[group + at.lane] >> at.warp & 1);
    for_bits_downwards(bits, [&](int place) { visit(batch.entries[group + place], group + place, batch.row[group + place]); });
  }
}

}  // namespace
}  // namespace luxel
