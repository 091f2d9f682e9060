// Forward pass of the tile rasterizer on the GPU: a block per 16x16 tile, heavy tiles first; a warp per subtile. Each warp
// makes a list of the splats of a batch that can reach its pixels, then walks that. The longest lists of all are walked as
// in blend_long.cuh instead.
#pragma once

#include "blend_long.cuh"

namespace luxel {
namespace {

// The places in shared memory of the splats of a piece that can reach the pixels of this warp, in order; filled up to a
// multiple of kMostAhead with one that reaches none. With the class of a heavy one, in bits that no place has.
template <typename Policy, int D, int kSplats>
__device__ __forceinline__ int list_splats(const Batch<Policy, D, kSplats, 1>& batch, int first, int warp, int lane, uint32_t* list) {
  constexpr uint32_t kBytes = sizeof(Entry<Policy, D>);
  const uint32_t entries = static_cast<uint32_t>(__cvta_generic_to_shared(batch.entries));
  int count = 0;
#pragma unroll
  for (int group = first; group < first + Policy::kPiece; group += 32) {
    const bool mine = batch.subtiles[group + lane] >> warp & 1;
    const unsigned bits = __ballot_sync(kAll, mine);
    uint32_t place = entries + (group + lane) * kBytes;
    if constexpr (Policy::kHeavy) place |= edge_class(batch.entries[group + lane].splat.edges);
    if (mine) list[count + __popc(bits & ((1u << lane) - 1))] = place;
    count += __popc(bits);
  }
  if (lane < kMostAhead) list[count + lane] = entries + kSplats * kBytes;
  __syncwarp();
  return count;
}

// Brings the heavy splats list[first .. end) to the pixel of this thread. last_place: of the last that counted; counted: bit k,
// list[first + k] did.
template <typename Policy, int D, bool kMedian>
__device__ __forceinline__ void visit_together(const uint32_t* list, int first, int end, float px, float py, float max_alpha,
                                               Gathered<D, kMedian>& pixel, uint32_t& last_place, uint32_t& counted) {
  static_assert(kMostAhead >= kTogether && alignof(Entry<Policy, D>) > kEdgeClasses, "classes fit beside places");
  uint32_t bit = 1;
  for (int k = first; k < end; k += kTogether, bit <<= kTogether) {
    uint32_t place[kTogether], which = 0;
#pragma unroll
    for (int u = 0; u < kTogether; ++u) {
      place[u] = list[k + u];
      which = max(which, place[u] & 3u);
    }
    for_edges(which, [&](auto known) {
      const Entry<Policy, D>* entry[kTogether];
      float alpha[kTogether];
#pragma unroll
      for (int u = 0; u < kTogether; ++u) {
        entry[u] = static_cast<const Entry<Policy, D>*>(__cvta_shared_to_generic(place[u] & ~3u));
        const typename Policy::Packed splat = held(entry[u]->splat);
        alpha[u] = Policy::template look<edges_of_class<decltype(known)::value>()>(splat, px, py - splat.y);
      }
#pragma unroll
      for (int u = 0; u < kTogether; ++u) {
        const bool hit = alpha[u] >= kMinAlpha;
        const bool counts = pixel.visit(hit, fminf(max_alpha, alpha[u]), entry[u]->value, entry[u]->depth);
        last_place = counts ? place[u] : last_place;
        counted |= counts ? bit << u : 0u;
      }
    });
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

template <typename Policy, int D, int R> struct ForwardShared {
  static constexpr int kSplats = pieces_at_once<Policy>(D) * Policy::kPiece;
  Batch<Policy, D, kSplats, 1> batch;
  alignas(16) uint32_t lists[Shape<R>::kWarps][Policy::kPiece + kMostAhead];
  static constexpr int kWords = Policy::kHeavy ? Policy::kPiece / 32 : 1;
  uint32_t touched[Shape<R>::kWarps][kWords];  // of heavy policies, see touched_of
};

template <typename Policy, int D, bool kMedian, int R>
__device__ __forceinline__ void blend_tile(const luxel_blend_args& args, ForwardShared<Policy, D, R>& shared, int tile) {
  constexpr uint32_t kNone = ~0u;
  constexpr int kCount = ForwardShared<Policy, D, R>::kSplats, kLoads = loads(kCount, Shape<R>::kThreads);
  auto& batch = shared.batch;
  const Place<R> at(args, tile);
  const int32_t begin = args.ranges[2 * tile], end = args.ranges[2 * tile + 1];
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
  if (threadIdx.x == 0) batch.entries[kCount] = nowhere<Policy, D>();
  int32_t next[kLoads];
  Fetched<Policy, D> splat[kLoads];
  const auto fetch_batch = [&](int32_t start) {
#pragma unroll
    for (int r = 0; r < kLoads; ++r) {
      const int32_t instance = start + static_cast<int32_t>(threadIdx.x) + r * Shape<R>::kThreads;
      next[r] = instance < end && brings<kCount, Shape<R>::kThreads>(r) ? args.instances[instance] : -1;
      if (fetches_early<Policy>(R)) fetch_splat(args, splat[r], next[r]);
    }
  };
  const auto leave_states = [&](int32_t done) {  // of the piece that ends here
    if (!state_is_asked(args, done, end - begin)) return;
    float* states = state_of<D>(args, tile, (done - 1) / Policy::kPiece);
#pragma unroll
    for (int r = 0; r < R; ++r) pixels[r].store_state(states + (at.y - at.y0 + 4 * r) * LUXEL_TILE + at.x - at.x0);
  };
  fetch_batch(begin);
  for (int32_t start = begin; start < end; start += kCount) {
    if (!__syncthreads_or(alive())) break;
#pragma unroll
    for (int r = 0; r < kLoads; ++r) {
      if (!fetches_early<Policy>(R)) fetch_splat(args, splat[r], next[r]);
      if (brings<kCount, Shape<R>::kThreads>(r))
        store_splat<R>(batch, threadIdx.x + r * Shape<R>::kThreads, splat[r], next[r], at.x0, at.y0);
    }
    __syncthreads();
    fetch_batch(start + kCount);  // arrives while this batch is blended
#pragma unroll 1
    for (int first = 0; first < kCount; first += Policy::kPiece) {
      if (first > 0) __syncwarp();  // all have read the list before
      uint32_t* touched = shared.touched[at.warp];
      if (Policy::kHeavy && at.lane < shared.kWords) touched[at.lane] = 0;
      const int count = list_splats<Policy>(batch, first, at.warp, at.lane, list);
      uint32_t last_place[R];
#pragma unroll
      for (int r = 0; r < R; ++r) last_place[r] = kNone;
      for (int chunk = 0; chunk < count; chunk += 32) {
        if (!__any_sync(kAll, alive())) break;
        const int chunk_end = min(chunk + 32, count);
        if constexpr (Policy::kHeavy) {
          static_assert(R == 1, "a warp's pixels are the block that splats were tested against");
          uint32_t counted = 0;
          visit_together<Policy>(list, chunk, chunk_end, px, py, args.max_alpha, pixels[0], last_place[0], counted);
          if (or_over_warp(counted) >> at.lane & 1) {
            const uint32_t offset = (list[chunk + at.lane] & ~3u) - static_cast<uint32_t>(__cvta_generic_to_shared(batch.entries));
            const uint32_t slot = offset / sizeof(Entry<Policy, D>) - first;
            atomicOr(touched + slot / 32, 1u << slot % 32);
          }
        } else {
          constexpr int kAhead = ahead(R);
          for (int k = chunk; k < chunk_end; k += kAhead) {
            const Entry<Policy, D>* entry[kAhead];
            typename Policy::Seen seen[kAhead][R];
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
                seen[u][r] = column.at(splat, py + static_cast<float>(4 * r) - splat.y);
                alpha[u][r] = fminf(args.max_alpha, seen[u][r].alpha());
              }
            }
#pragma unroll
            for (int u = 0; u < kAhead; ++u) {
#pragma unroll
              for (int r = 0; r < R; ++r) {
                const bool hit = seen[u][r].hits(highest[u]);
                const bool counts = pixels[r].visit(hit, alpha[u][r], entry[u]->value, entry[u]->depth);
                last_place[r] = counts ? place[u] : last_place[r];
              }
            }
          }
        }
      }
#pragma unroll
      for (int r = 0; r < R; ++r) {
        const uint32_t offset = last_place[r] - static_cast<uint32_t>(__cvta_generic_to_shared(batch.entries));
        if (last_place[r] != kNone) pixels[r].last = start + 1 + static_cast<int32_t>(offset / sizeof(Entry<Policy, D>));
      }
      leave_states(start + first + Policy::kPiece - begin);
      if constexpr (Policy::kHeavy) {
        __syncwarp();
        const int32_t word = (start + first - begin) / 32 + at.lane;
        if (args.states && at.lane < shared.kWords && word * 32 < end - begin)
          touched_of<Policy, D>(args, tile)[kTouchedBlocks * word + touched_block(at.warp)] = touched[at.lane];
      }
    }
  }
#pragma unroll
  for (int r = 0; r < R; ++r)
    if (at.inside(r)) pixels[r].store(args, at.camera, at.pixel_at(r));
}

// A launch cannot know how many lists are long: it has blocks for as many as there can be.
LUXEL_HD int32_t most_long_tiles(const luxel_blend_args& args) {
  return static_cast<int32_t>(smaller<int64_t>(smaller(kLongTiles, tiles_of(args)), args.capacity / kLong));
}

// The first blocks take the long lists, the others a tile each.
template <typename Policy, int D, bool kMedian, int R>
__global__ void __launch_bounds__(Shape<R>::kThreads, forward_blocks<Policy>(R, D))
    blend_fwd_kernel(const luxel_blend_args args) {
  union Shared {
    ForwardShared<Policy, D, R> usual;
    LongShared<Policy, D> lengthy;
    __device__ Shared() {}
  };
  __shared__ Shared shared;
  constexpr int kBlocks = LongShape<R>::kBlocks;
  const int tiles = tiles_of(args), found = args.plan[4 * static_cast<int64_t>(tiles) + 2 * (args.capacity / Policy::kPiece)];
  // Which of too many are taken is left to chance; where bits must repeat, none are.
  const int most = found > most_long_tiles(args) && args.deterministic ? 0 : most_long_tiles(args);
  const int long_tiles = max(0, min(found, most)), long_blocks = long_tiles * kBlocks;
  const int block = static_cast<int>(blockIdx.x);
  const bool long_block = block < long_blocks;
  const int place = long_block ? block / kBlocks : long_tiles + block - long_blocks;
  if (place >= tiles) return;
  const int tile = args.plan[place];
  if (long_block)
    blend_long<Policy, D, kMedian, R>(args, shared.lengthy, tile, block % kBlocks);
  else
    blend_tile<Policy, D, kMedian, R>(args, shared.usual, tile);
}

}  // namespace
}  // namespace luxel
