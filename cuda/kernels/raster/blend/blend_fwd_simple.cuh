// Forward pass of simple policies on the GPU: a block per 16x16 tile, a warp per subtile. Each warp lists the splats of a
// batch that can reach its pixels, then walks that list. The longest lists are processed as in blend_fwd_long.cuh instead.
#pragma once

#include "kernels/raster/blend/blend_fwd.cuh"
#include "kernels/raster/blend/blend_fwd_long.cuh"

namespace luxel {
namespace {

template <typename Policy, int D, int R> struct ForwardShared {
  Batch<Policy, D, Policy::kPiece, 1> batch;
  alignas(16) uint32_t lists[Shape<R>::kWarps][Policy::kPiece + kMaxAhead];
};

template <typename Policy, int D, bool kMedian, int R>
__device__ __forceinline__ void blend_tile(const luxel_blend_args& args, ForwardShared<Policy, D, R>& shared, int tile) {
  constexpr uint32_t kNone = ~0u;
  constexpr int kCount = Policy::kPiece, kLoads = loads(kCount, Shape<R>::kThreads);
  auto& batch = shared.batch;
  const Place<R> at(args.binned, tile);
  const int32_t begin = args.binned.ranges[2 * tile], end = args.binned.ranges[2 * tile + 1];
  const float px = static_cast<float>(at.x) + 0.5f, py = static_cast<float>(at.y) + 0.5f;
  Gathered<D, kMedian> pixels[R];
#pragma unroll
  for (int r = 0; r < R; ++r)
    if (!at.inside(r)) pixels[r].transmittance = -1.0f;
  const auto alive = [&] {
    bool any = false;
#pragma unroll
    for (int r = 0; r < R; ++r) any |= pixels[r].transmittance > 0.0f;
    return any;
  };
  uint32_t* list = shared.lists[at.warp];
  if (threadIdx.x == 0) batch.entries[kCount] = null_splat<Policy, D>();
  int32_t next[kLoads];
  Fetched<Policy, D> splat[kLoads];
  const auto fetch_batch = [&](int32_t start) {
#pragma unroll
    for (int r = 0; r < kLoads; ++r) {
      const int32_t instance = start + static_cast<int32_t>(threadIdx.x) + r * Shape<R>::kThreads;
      next[r] = instance < end && brings<kCount, Shape<R>::kThreads>(r) ? args.binned.instances[instance] : -1;
      if (fetches_early(R)) fetch_splat(args, splat[r], next[r]);
    }
  };
  const auto leave_states = [&](int32_t done) {  // of the piece that ends here
    if (!needs_state(args, done, end - begin)) return;
    float* states = state_of<D>(args, tile, (done - 1) / Policy::kPiece);
#pragma unroll
    for (int r = 0; r < R; ++r) pixels[r].store_state(states + (at.y - at.y0 + 4 * r) * LUXEL_TILE + at.x - at.x0);
  };
  fetch_batch(begin);
  for (int32_t start = begin; start < end; start += kCount) {
    if (!__syncthreads_or(alive())) break;
#pragma unroll
    for (int r = 0; r < kLoads; ++r) {
      if (!fetches_early(R)) fetch_splat(args, splat[r], next[r]);
      if (brings<kCount, Shape<R>::kThreads>(r))
        store_splat<Shape<R>>(batch, threadIdx.x + r * Shape<R>::kThreads, splat[r], next[r], at.x0, at.y0);
    }
    __syncthreads();
    fetch_batch(start + kCount);  // arrives while this batch is blended
    const int count = list_splats<kMaxAhead>(batch, 0, at.warp, at.lane, list, [](const typename Policy::Packed&) { return 0u; });
    uint32_t last_place[R];
#pragma unroll
    for (int r = 0; r < R; ++r) last_place[r] = kNone;
    for (int chunk = 0; chunk < count; chunk += 32) {
      if (!__any_sync(kAll, alive())) break;
      const int chunk_end = min(chunk + 32, count);
      constexpr int kAhead = ahead(R);
      for (int k = chunk; k < chunk_end; k += kAhead) {
        const Entry<Policy, D>* entry[kAhead];
        typename Policy::Coverage coverage[kAhead][R];
        float highest[kAhead], alpha[kAhead][R];
        uint32_t place[kAhead];
#pragma unroll
        for (int u = 0; u < kAhead; ++u) {
          place[u] = list[k + u];
          entry[u] = static_cast<const Entry<Policy, D>*>(__cvta_shared_to_generic(place[u]));
          const typename Policy::Packed splat = entry[u]->splat;
          const typename Policy::Column column(splat, px);
          highest[u] = splat.highest();
#pragma unroll
          for (int r = 0; r < R; ++r) {
            coverage[u][r] = column.at(splat, py + static_cast<float>(4 * r) - splat.y);
            alpha[u][r] = fminf(args.binned.max_alpha, coverage[u][r].alpha());
          }
        }
#pragma unroll
        for (int u = 0; u < kAhead; ++u) {
#pragma unroll
          for (int r = 0; r < R; ++r) {
            const bool hit = coverage[u][r].hits(highest[u]);
            const SeenEntry<Policy, D> seen(args, *entry[u], coverage[u][r]);
            const bool counts = pixels[r].visit(hit, alpha[u][r], seen.value, seen.depth);
            last_place[r] = counts ? place[u] : last_place[r];
          }
        }
      }
    }
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const uint32_t offset = last_place[r] - static_cast<uint32_t>(__cvta_generic_to_shared(batch.entries));
      if (last_place[r] != kNone) pixels[r].last = start + 1 + static_cast<int32_t>(offset / sizeof(Entry<Policy, D>));
    }
    leave_states(start + kCount - begin);
  }
#pragma unroll
  for (int r = 0; r < R; ++r)
    if (at.inside(r)) pixels[r].store(args, at.camera, at.pixel_at(r));
}

// Per multiprocessor; with two pixels of a varying depth, a block less for their registers.
constexpr int simple_fwd_blocks(int pixels, int channels, bool pixel_depth) {
  return channels > 4 ? 1 : 4 * pixels - (pixel_depth ? pixels - 1 : 0);
}

// The Tiles of blend_fwd_kernel for a simple policy: R pixels per thread, or eight threads per pixel for long lists.
template <typename PolicyType, int D, bool kMedian, int R> struct SimpleTiles {
  using Policy = PolicyType;
  union Shared {
    ForwardShared<Policy, D, R> tile;
    LongShared<Policy, D> part;
    __device__ Shared() {}
  };
  static constexpr int kThreads = Shape<R>::kThreads, kBlocks = simple_fwd_blocks(R, D, Policy::kPixelDepth);
  static constexpr int kParts = LongShape<R>::kBlocks;
  static __device__ __forceinline__ void draw(const luxel_blend_args& args, Shared& shared, int tile) {
    blend_tile<Policy, D, kMedian, R>(args, shared.tile, tile);
  }
  static __device__ __forceinline__ void draw_long(const luxel_blend_args& args, Shared& shared, int tile, int part) {
    blend_long<Policy, D, kMedian, R>(args, shared.part, tile, part);
  }
};

}  // namespace
}  // namespace luxel
