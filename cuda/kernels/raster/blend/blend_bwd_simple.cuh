// Backward pass of simple policies on the GPU: a block per piece of a tile's list, so that a tile with thousands of splats is
// shared by many blocks. The block brings the piece to shared memory; a warp walks, from the back, the splats that can reach its
// subtile.
#pragma once

#include "kernels/raster/blend/blend_bwd_sums.cuh"

namespace luxel {
namespace {

// Of a multiprocessor.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr int simple_bwd_blocks(int) { return 1; }  // Turing has no room for as many threads
#else
constexpr int simple_bwd_blocks(int channels) { return channels > 4 ? 1 : 18; }
#endif

template <typename Policy, int D, bool kAbsolute>
__global__ void __launch_bounds__(32 * kBackwardWarps, simple_bwd_blocks(D)) blend_bwd_simple_kernel(const luxel_blend_args args) {
  constexpr int R = kBackwardPixels, kCount = Policy::kPiece, kThreads = 32 * kBackwardWarps;
  using Sums = typename Policy::template Sums<kAbsolute>;
  using Targets = LaneTargets<Policy, Sums, D>;
  __shared__ struct : Batch<Policy, D, kCount> {
    uint32_t row[kCount];  // of the gradient: the splat, or the instance where sums wait for their order
  } batch;
  const BackwardPiece<Policy> of(args, blockIdx.x);
  if (of.piece.x < 0) return;
  const Place<R> at(args, of.piece.x, threadIdx.x >> 5);
  const float px = static_cast<float>(at.x) + 0.5f, py = static_cast<float>(at.y) + 0.5f;
  BackwardPixels<D, R> pixels;
  pixels.load_last(args, at, of.start);
  if (of.piece.y > 0 && __syncthreads_or(pixels.thread_last > 0) == 0) return;
#pragma unroll
  for (int k = 0; k < kCount / kThreads; ++k) {
    const int slot = threadIdx.x + k * kThreads;
    const int32_t instance = of.start + slot, id = instance < of.end ? args.instances[instance] : -1;
    Fetched<Policy, D> splat;
    fetch_splat(args, splat, id);
    store_splat<Shape<R>, Policy, D, kCount>(batch, slot, splat, id, at.x0, at.y0);
    batch.row[slot] = static_cast<uint32_t>(args.deterministic ? instance : id);
  }
  pixels.load(args, at, of.piece, of.whole);
  const int32_t warp_last = max_over_warp(pixels.thread_last);
  const Targets targets(args, at.warp, at.lane, number_of_lane<Targets::kFirst>(at.lane));

  // Gathers the gradient by the splat in a slot over the warp's pixels, and adds it to memory.
  const auto visit = [&](int slot) {
    const Entry<Policy, D>& entry = batch.entries[slot];
    const typename Policy::Packed splat = entry.splat;
    const typename Policy::Column along(splat, px);
    Sums sums;
    float numbers[Sums::kCount + D] = {};
    typename Policy::Seen seen[R];
    bool counts[R], any = false;
#pragma unroll
    for (int r = 0; r < R; ++r) {
      seen[r] = along.at(splat, py + static_cast<float>(4 * r) - splat.y);
      counts[r] = seen[r].hits(splat.highest()) && slot < pixels.last[r];
      any |= counts[r];
    }
    if (!__any_sync(kAll, any)) return;
#pragma unroll
    for (int r = 0; r < R; ++r) {
      if (!counts[r]) continue;
      pixels.gather(args, r, py + static_cast<float>(4 * r) - splat.y, entry, along, seen[r], sums, numbers + Sums::kCount);
    }
    sums.store(splat, along, numbers);
    targets.add(numbers, batch.row[slot], at.lane);
  };
  __syncthreads();
  for (int group = (of.end - of.start - 1) / 32 * 32; group >= 0; group -= 32) {
    if (group >= warp_last) continue;
    unsigned bits = __ballot_sync(kAll, batch.subtiles[group + at.lane] >> at.warp & 1);
    while (bits != 0) {
      const int place = 31 - __clz(bits);
      bits ^= 1u << place;
      visit(group + place);
    }
  }
}

}  // namespace
}  // namespace luxel
