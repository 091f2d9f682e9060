// The longest lists in the forward pass of simple policies, whose time is bound by one thread's serial chain of splats rather than
// by throughput: eight lanes share a pixel, each takes every eighth splat, and a scan over the lanes gives each its transmittance.
// Several blocks share a tile.
#pragma once

#include "kernels/raster/blend/blend_gather.cuh"

namespace luxel {
namespace {

constexpr int kLongLanes = 8;  // lanes per pixel

// Pixels of a block that is launched among those of R pixels per thread.
template <int R> struct LongShape {
  static constexpr int kThreads = Shape<R>::kThreads;
  static constexpr int kH = 4, kW = kThreads / kLongLanes / kH;
  static constexpr int kBlocks = kPixels / (kW * kH);  // blocks per tile
};

template <typename Policy, int D> struct LongShared {
  Entry<Policy, D> entries[Policy::kPiece + kLongLanes];  // those that can reach the block's pixels
  uint8_t slots[Policy::kPiece + kLongLanes];             // their index in the batch
  unsigned reaching[Policy::kPiece / 32];
};

template <typename Policy, int D, bool kMedian, int R>
__device__ __forceinline__ void blend_long(const luxel_blend_args& args, LongShared<Policy, D>& shared, int tile, int part) {
  constexpr int kThreads = LongShape<R>::kThreads, kW = LongShape<R>::kW, kH = LongShape<R>::kH;
  constexpr int kCount = Policy::kPiece, kLoads = loads(kCount, kThreads);
  const Place<1> of_tile(args.binned, tile);
  const int lane = threadIdx.x & 31, sub = threadIdx.x % kLongLanes, mine = threadIdx.x / kLongLanes;
  const int x0 = of_tile.x0 + part % (LUXEL_TILE / kW) * kW, y0 = of_tile.y0 + part / (LUXEL_TILE / kW) * kH;
  const int x = x0 + mine % kW, y = y0 + mine / kW;
  const bool inside = x < args.binned.width && y < args.binned.height;
  const int32_t begin = args.binned.ranges[2 * tile], end = args.binned.ranges[2 * tile + 1];
  const float px = static_cast<float>(x) + 0.5f, py = static_cast<float>(y) + 0.5f;
  Gathered<D, kMedian> pixel;  // sums, count and median of this lane's splats; the same T in all lanes of the pixel
  if (!inside) pixel.transmittance = -1.0f;
  const auto sum_over_pixel = [](float v) {
#pragma unroll
    for (int bit = kLongLanes / 2; bit >= 1; bit /= 2) v += __shfl_xor_sync(kAll, v, bit);
    return v;
  };
  int32_t id[kLoads];
  Fetched<Policy, D> splat[kLoads];
  const auto fetch = [&](int32_t start) {
#pragma unroll
    for (int k = 0; k < kLoads; ++k) {
      const int32_t instance = start + static_cast<int32_t>(threadIdx.x) + k * kThreads;
      id[k] = instance < end && brings<kCount, kThreads>(k) ? args.binned.instances[instance] : -1;
      fetch_splat(args, splat[k], id[k]);
    }
  };
  const auto leave_state = [&](int32_t done) {  // of the piece that ends here
    if (!needs_state(args, done, end - begin)) return;
    Gathered<D, kMedian> state = pixel;
#pragma unroll
    for (int d = 0; d < D; ++d) state.sums[d] = sum_over_pixel(pixel.sums[d]);
    const int local = (y - of_tile.y0) * LUXEL_TILE + x - of_tile.x0;
    if (sub == 0) state.store_state(state_of<D>(args, tile, (done - 1) / Policy::kPiece) + local);
  };
  fetch(begin);
  for (int32_t start = begin; start < end; start += kCount) {
    if (!__syncthreads_or(pixel.transmittance > 0.0f)) break;
    bool reaches[kLoads];
#pragma unroll
    for (int k = 0; k < kLoads; ++k) {
      float left, right;
      const float top = static_cast<float>(y0) + 0.5f, first = static_cast<float>(x0) + 0.5f;
      reaches[k] = id[k] >= 0 && Policy::Bounds::of(splat[k].row).band(top, top + (kH - 1), left, right) && right >= first &&
                   left <= first + (kW - 1);
      const unsigned bits = __ballot_sync(kAll, reaches[k]);
      const int word = static_cast<int>(threadIdx.x + k * kThreads) / 32;
      if (lane == 0 && brings<kCount, kThreads>(k)) shared.reaching[word] = bits;
    }
    __syncthreads();
    int count = 0;
#pragma unroll
    for (int word = 0; word < kCount / 32; ++word) {
      const unsigned bits = shared.reaching[word];
#pragma unroll
      for (int k = 0; k < kLoads; ++k) {
        const int slot = threadIdx.x + k * kThreads;
        if (slot / 32 != word || !reaches[k]) continue;
        const int place = count + __popc(bits & ((1u << lane) - 1));
        shared.entries[place] = entry_of(splat[k]);
        shared.slots[place] = static_cast<uint8_t>(slot);
      }
      count += __popc(bits);
    }
    if (threadIdx.x < kLongLanes) shared.entries[count + threadIdx.x] = null_splat<Policy, D>();
    __syncthreads();
    fetch(start + kCount);  // completes while this batch is blended
    int last_place = -1;
    for (int k = sub; k < count + sub; k += kLongLanes) {
      const Entry<Policy, D>& entry = shared.entries[k];
      const auto coverage = Policy::look(entry.splat, px, py - entry.splat.y);
      const bool hit = coverage.hits(entry.splat.highest());
      const float alpha = hit ? fminf(args.binned.max_alpha, coverage.alpha()) : 0.0f;
      float kept = 1.0f - alpha;  // of this splat and those before it in the group
#pragma unroll
      for (int step = 1; step < kLongLanes; step *= 2) {
        const float nearer = __shfl_up_sync(kAll, kept, step, kLongLanes);
        if (sub >= step) kept *= nearer;
      }
      const float nearer = __shfl_up_sync(kAll, kept, 1, kLongLanes);
      const float before = sub == 0 ? pixel.transmittance : pixel.transmittance * nearer, after = pixel.transmittance * kept;
      const bool counts = hit && after > kMinTransmittance;
      const SeenEntry<Policy, D> seen(args, entry, coverage);
      pixel.add(counts, alpha, seen.value, before, after, seen.depth);
      last_place = counts ? k : last_place;
      const float all_after = __shfl_sync(kAll, after, kLongLanes - 1, kLongLanes);
      const bool ends = pixel.transmittance > 0.0f && !(all_after > kMinTransmittance);
      if (__any_sync(kAll, ends)) {  // T stays at its value before the first splat that would exceed the limit
        const unsigned group = __ballot_sync(kAll, hit && !counts) >> (lane & ~(kLongLanes - 1)) & ((1u << kLongLanes) - 1);
        const float t_end = __shfl_sync(kAll, before, group != 0 ? __ffs(group) - 1 : 0, kLongLanes);
        pixel.transmittance = ends ? -t_end : (pixel.transmittance > 0.0f ? all_after : pixel.transmittance);
        if (!__any_sync(kAll, pixel.transmittance > 0.0f)) break;
      } else {
        pixel.transmittance = pixel.transmittance > 0.0f ? all_after : pixel.transmittance;
      }
    }
    if (last_place >= 0) pixel.last = start + shared.slots[last_place] + 1;
    leave_state(start + kCount - begin);
  }
#pragma unroll
  for (int d = 0; d < D; ++d) pixel.sums[d] = sum_over_pixel(pixel.sums[d]);
  pixel.median = sum_over_pixel(pixel.median);  // T falls to 1/2 in one lane
#pragma unroll
  for (int bit = kLongLanes / 2; bit >= 1; bit /= 2) {
    pixel.seen += __shfl_xor_sync(kAll, pixel.seen, bit);
    pixel.last = max(pixel.last, __shfl_xor_sync(kAll, pixel.last, bit));
  }
  if (inside && sub == 0)
    pixel.store(args, of_tile.camera, (static_cast<int64_t>(of_tile.camera) * args.binned.height + y) * args.binned.width + x);
}

}  // namespace
}  // namespace luxel
