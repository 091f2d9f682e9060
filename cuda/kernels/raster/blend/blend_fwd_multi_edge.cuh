// Forward pass of multi-edge policies, whose splats are many numbers and much arithmetic. Reading one from shared memory for a
// single pixel would take as long as computing with it. So a thread evaluates one of four splats for the four pixels of a column
// of its warp; the alphas are transposed between the four threads, and each blends the four splats into its own pixel.
//
// A warp has 8 x 4 pixels. Where lists are long, the time is bound by the work of one tile: kParts blocks share a tile, and
// kParts threads a pixel. A warp then has fewer columns and evaluates 4 kParts splats at once; each thread of a pixel blends
// four of them, starting from the transmittance after those of the preceding threads.
#pragma once

#include "kernels/raster/blend/blend_fwd.cuh"
#include "kernels/raster/blend/multi_edge.cuh"

namespace luxel {
namespace {

// Tunables of this kernel.
constexpr int kTurned = 4;     // splats that a thread blends at a time, and pixels of a column
constexpr int kLongParts = 2;  // parts of a long tile
// Pieces of a list that are loaded into shared memory at once: two, so that every thread loads a splat and there are fewer
// barriers.
constexpr int pieces_at_once(int channels) { return channels <= 4 ? 2 : 1; }
constexpr int multi_edge_fwd_blocks(int channels) { return channels > 4 ? 1 : 3; }  // per multiprocessor

// The pixels of a block, one of kParts blocks of a tile: a subtile per warp.
template <int kParts> struct MultiEdgeShape {
  static constexpr int kThreads = kPixels, kWarps = kThreads / 32;
  static constexpr int kSubtileW = 8 / kParts, kSubtileH = kTurned;
  static constexpr int kSubtilesX = kParts == 1 ? 2 : 4, kSubtilesY = kWarps / kSubtilesX;
  static constexpr int kW = kSubtilesX * kSubtileW, kH = kSubtilesY * kSubtileH;  // of the block
  static constexpr int kSplats = kTurned * kParts;   // that are evaluated together
  static constexpr int kStep = kSubtileW * kTurned;  // lanes from one thread of a pixel to the next
  static_assert(kW * kH * kParts == kPixels && kStep * kParts == 32);
};

template <typename Policy, int D> struct MultiEdgeShared {
  static constexpr int kSplats = pieces_at_once(D) * Policy::kPiece, kMore = kTurned * kLongParts;
  Batch<Policy, D, kSplats, 1> batch;
  alignas(16) uint32_t lists[MultiEdgeShape<1>::kWarps][Policy::kPiece + kMore];
};

// Transposes between four lanes. Before: lane s * kW + x holds a[k] of splat s at pixel k of column x. After: a[k] of splat k at the
// lane's own pixel.
template <int kW> __device__ __forceinline__ void turn(float (&a)[kTurned], int lane) {
  static_assert(kTurned == 4);
#pragma unroll
  for (int bit = 2; bit >= 1; bit /= 2) {
    const bool upper = lane & kW * bit;
#pragma unroll
    for (int low = 0; low < kTurned; ++low) {
      if (low & bit) continue;
      const float other = __shfl_xor_sync(kAll, upper ? a[low] : a[low + bit], kW * bit);
      a[low + bit] = upper ? a[low + bit] : other;
      a[low] = upper ? other : a[low];
    }
  }
}

__device__ __forceinline__ uint32_t or_over_warp(uint32_t x) {
#if __CUDA_ARCH__ >= 800
  return __reduce_or_sync(kAll, x);
#else
  for (int bit = 16; bit >= 1; bit /= 2) x |= __shfl_xor_sync(kAll, x, bit);
  return x;
#endif
}

// Reduces a value over the kParts threads of a pixel.
template <int kParts, typename T, typename Join> __device__ __forceinline__ T over_pixel(T x, Join join) {
#pragma unroll
  for (int part = 1; part < kParts; part *= 2) x = join(x, __shfl_xor_sync(kAll, x, part * MultiEdgeShape<kParts>::kStep));
  return x;
}

template <typename Policy, int D, bool kMedian, int kParts>
__device__ __forceinline__ void blend_multi_edge(const luxel_blend_args& args, MultiEdgeShared<Policy, D>& shared, int tile, int block) {
  using Grid = MultiEdgeShape<kParts>;
  using Splat = Entry<Policy, D>;
  constexpr uint32_t kNone = ~0u;
  constexpr int kCount = MultiEdgeShared<Policy, D>::kSplats, kLoads = loads(kCount, Grid::kThreads), kWords = Policy::kPiece / 32;
  static_assert(alignof(Splat) > kEdgeClasses, "classes fit beside places");
  auto& batch = shared.batch;
  const Place<1> of_tile(args.binned, tile);
  const int lane = of_tile.lane, warp = of_tile.warp, part = lane / Grid::kStep;
  const int block_x = of_tile.x0 + block * Grid::kW % LUXEL_TILE, block_y = of_tile.y0 + block * Grid::kW / LUXEL_TILE * Grid::kH;
  const int left = block_x + warp % Grid::kSubtilesX * Grid::kSubtileW, top = block_y + warp / Grid::kSubtilesX * Grid::kSubtileH;
  const int x = left + lane % Grid::kSubtileW, y = top + lane / Grid::kSubtileW % kTurned;
  const int local = (y - of_tile.y0) * LUXEL_TILE + x - of_tile.x0;
  const bool inside = x < args.binned.width && y < args.binned.height;
  const float px = static_cast<float>(x) + 0.5f, first_py = static_cast<float>(top) + 0.5f;
  const int32_t begin = args.binned.ranges[2 * tile], end = args.binned.ranges[2 * tile + 1];
  Gathered<D, kMedian> pixel;  // sums, count and median of this thread's splats; the same T in all threads of the pixel
  if (!inside) pixel.transmittance = -1.0f;
  uint32_t* list = shared.lists[warp];
  const uint32_t entries = static_cast<uint32_t>(__cvta_generic_to_shared(batch.entries));
  const auto entry_at = [](uint32_t place) { return static_cast<const Splat*>(__cvta_shared_to_generic(place & ~3u)); };
  if (threadIdx.x == 0) batch.entries[kCount] = null_splat<Policy, D>();
  const auto plus = [](auto a, auto b) { return a + b; };
  const auto leave_state = [&](int32_t done) {  // of the piece that ends here
    if (!needs_state(args, done, end - begin)) return;
    Gathered<D, kMedian> state = pixel;
#pragma unroll
    for (int d = 0; d < D; ++d) state.sums[d] = over_pixel<kParts>(pixel.sums[d], plus);
    if (part == 0) state.store_state(state_of<D>(args, tile, (done - 1) / Policy::kPiece) + local);
  };
  // Blends list[k .. k + Grid::kSplats). last_place: of the last contributing splat; counted: bit u if the u-th of this thread's four
  // contributed.
  const auto visit = [&](int k, uint32_t& last_place, uint32_t& counted) {
    const uint4 four = reinterpret_cast<const uint4*>(list + k)[part];
    const uint32_t place[kTurned] = {four.x, four.y, four.z, four.w}, own = list[k + lane / Grid::kSubtileW];
    uint32_t which = max(max(place[0] & 3u, place[1] & 3u), max(place[2] & 3u, place[3] & 3u));
    static_assert(kEdgeClasses == 3);
    if (kParts > 1) which = __any_sync(kAll, which > 1) ? 2 : (__any_sync(kAll, which > 0) ? 1 : 0);
    float alpha[kTurned];
    for_edges(which, [&](auto known) {
      const typename Policy::Packed splat = held(entry_at(own)->splat);
      const typename Policy::template Column<edges_of_class<decltype(known)::value>()> column(splat, px);
#pragma unroll
      for (int r = 0; r < kTurned; ++r) alpha[r] = column.look(splat, first_py + static_cast<float>(r) - splat.y);
    });
    turn<Grid::kSubtileW>(alpha, lane);
    // The splats of the threads of this pixel before this one.
#pragma unroll
    for (int before = 0; before < kParts - 1; ++before) {
#pragma unroll
      for (int u = 0; u < kTurned; ++u) {
        const float nearer = __shfl_sync(kAll, alpha[u], before * Grid::kStep + lane % Grid::kStep);
        pixel.pass(before < part && nearer >= kMinAlpha, fminf(args.binned.max_alpha, nearer));
      }
    }
#pragma unroll
    for (int u = 0; u < kTurned; ++u) {
      const Splat* entry = entry_at(place[u]);
      const bool counts = pixel.visit(alpha[u] >= kMinAlpha, fminf(args.binned.max_alpha, alpha[u]), entry->value, entry->depth);
      last_place = counts ? place[u] : last_place;
      counted |= counts ? 1u << u : 0u;
    }
    if (kParts > 1) pixel.transmittance = __shfl_sync(kAll, pixel.transmittance, (kParts - 1) * Grid::kStep + lane % Grid::kStep);
  };

  int32_t next[kLoads];
  const auto fetch_ids = [&](int32_t start) {
#pragma unroll
    for (int r = 0; r < kLoads; ++r) {
      const int32_t instance = start + static_cast<int32_t>(threadIdx.x) + r * Grid::kThreads;
      next[r] = instance < end && brings<kCount, Grid::kThreads>(r) ? args.binned.instances[instance] : -1;
    }
  };
  fetch_ids(begin);
  for (int32_t start = begin; start < end; start += kCount) {
    if (!__syncthreads_or(pixel.transmittance > 0.0f)) break;
#pragma unroll
    for (int r = 0; r < kLoads; ++r) {
      Fetched<Policy, D> splat;
      fetch_splat(args, splat, next[r]);
      if (brings<kCount, Grid::kThreads>(r))
        store_splat<Grid>(batch, threadIdx.x + r * Grid::kThreads, splat, next[r], block_x, block_y);
    }
    __syncthreads();
    fetch_ids(start + kCount);  // completes while this batch is blended
#pragma unroll 1
    for (int first = 0; first < kCount; first += Policy::kPiece) {
      if (first > 0) __syncwarp();  // all have read the list before
      const int count = list_splats<Grid::kSplats>(batch, first, warp, lane, list,
                                                    [](const typename Policy::Packed& splat) { return edge_class(splat.edges); });
      uint32_t last_place = kNone, touched[kWords] = {};
      for (int chunk = 0; chunk < count; chunk += 32) {
        if (!__any_sync(kAll, pixel.transmittance > 0.0f)) break;
        const int chunk_end = min(chunk + 32, count);
        uint32_t counted = 0;
        for (int k = chunk; k < chunk_end; k += Grid::kSplats) {
          uint32_t of_four = 0;
          visit(k, last_place, of_four);
          counted |= of_four << (k - chunk + kTurned * part);
        }
        const bool counts = or_over_warp(counted) >> lane & 1;
        const uint32_t slot = ((list[chunk + lane] & ~3u) - entries) / sizeof(Splat) - first;
#pragma unroll
        for (uint32_t w = 0; w < kWords; ++w) touched[w] |= or_over_warp(counts && slot / 32 == w ? 1u << slot % 32 : 0u);
      }
      if (last_place != kNone) pixel.last = start + 1 + static_cast<int32_t>(((last_place & ~3u) - entries) / sizeof(Splat));
      leave_state(start + first + Policy::kPiece - begin);
      const int32_t word = (start + first - begin) / 32 + lane;
      uint32_t bits = 0;
#pragma unroll
      for (int w = 0; w < kWords; ++w) bits = lane == w ? touched[w] : bits;
      if (args.states && lane < kWords && word * 32 < end - begin) {
        uint32_t* words = touched_of<Policy, D>(args, tile) + kTouchedBlocks * word +
                          touched_block((left - of_tile.x0) / 8, (top - of_tile.y0) / kTurned);
        if (kParts == 1)
          *words = bits;
        else if (bits != 0)
          atomicOr(words, bits);  // several warps have a block together
      }
    }
  }
#pragma unroll
  for (int d = 0; d < D; ++d) pixel.sums[d] = over_pixel<kParts>(pixel.sums[d], plus);
  pixel.median = over_pixel<kParts>(pixel.median, plus);  // T falls to 1/2 in one thread
  pixel.seen = over_pixel<kParts>(pixel.seen, plus);
  pixel.last = over_pixel<kParts>(pixel.last, [](int32_t a, int32_t b) { return max(a, b); });
  if (inside && part == 0)
    pixel.store(args, of_tile.camera, (static_cast<int64_t>(of_tile.camera) * args.binned.height + y) * args.binned.width + x);
}

// The Tiles of blend_fwd_kernel for a multi-edge policy: a pixel per thread, or two threads per pixel for long lists.
template <typename PolicyType, int D, bool kMedian> struct MultiEdgeTiles {
  using Policy = PolicyType;
  using Shared = MultiEdgeShared<Policy, D>;
  static constexpr int kThreads = kPixels, kBlocks = multi_edge_fwd_blocks(D);
  static constexpr int kParts = kLongParts;
  static __device__ __forceinline__ void draw(const luxel_blend_args& args, Shared& shared, int tile) {
    blend_multi_edge<Policy, D, kMedian, 1>(args, shared, tile, 0);
  }
  static __device__ __forceinline__ void draw_long(const luxel_blend_args& args, Shared& shared, int tile, int part) {
    blend_multi_edge<Policy, D, kMedian, kParts>(args, shared, tile, part);
  }
};

}  // namespace
}  // namespace luxel
