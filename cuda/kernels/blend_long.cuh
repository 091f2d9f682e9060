// The longest lists in the forward pass: there one thread's chain of splats, not the amount of work, is what takes the
// time. Eight lanes share a pixel, each takes every eighth splat; a scan over them gives each its transmittance. Several
// blocks share a tile.
#pragma once

#include "blend_tile.cuh"

namespace luxel {
namespace {

// Predicated instructions where the compiler would choose a branch, or a select besides.
__device__ __forceinline__ void fma_where(bool condition, float& sum, float a, float b) {
  asm("{ .reg .pred p; setp.ne.s32 p, %1, 0; @p fma.rn.f32 %0, %2, %3, %0; }"
      : "+f"(sum)
      : "r"(static_cast<int>(condition)), "f"(a), "f"(b));
}
__device__ __forceinline__ void count_where(bool condition, int32_t& count) {
  asm("{ .reg .pred p; setp.ne.s32 p, %1, 0; @p add.s32 %0, %0, 1; }" : "+r"(count) : "r"(static_cast<int>(condition)));
}

// The visitor: what a pixel gathers of the primitives that contribute to it, nearest first. D channels of values, how
// many they were and, if kMedian, the depth at which T falls to 1/2. T is negative once the pixel has ended.
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
    const float after = fmaf(-alpha, transmittance, transmittance);
    const bool counts = hit && after > kMinTransmittance;
    add(counts, alpha, value, transmittance, after, depth);
    const float ended = hit ? -fabsf(transmittance) : transmittance;
    transmittance = counts ? after : ended;
    return counts;
  }
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

template <typename Policy, int D> __device__ __forceinline__ Entry<Policy, D> nowhere() {
  Entry<Policy, D> entry = {};
  entry.splat = Policy::nowhere();
  return entry;
}

constexpr int kLongLanes = 8;  // of a pixel
// Groups of as many splats whose alpha is computed at once, ahead of blending: of heavy policies one's waits are the other's work.
template <typename Policy> constexpr int groups_together() { return Policy::kHeavy ? 2 : 1; }

// Pixels of a block that is launched among those of R pixels per thread.
template <int R> struct LongShape {
  static constexpr int kThreads = Shape<R>::kThreads;
  static constexpr int kH = 4, kW = kThreads / kLongLanes / kH;
  static constexpr int kBlocks = kPixels / (kW * kH);  // of a tile
};

template <typename Policy, int D> struct LongShared {
  static constexpr int kPieces = pieces_at_once<Policy>(D), kRoom = Policy::kPiece + groups_together<Policy>() * kLongLanes;
  Entry<Policy, D> entries[kPieces * kRoom];  // of each piece those that can reach the block's pixels
  uint8_t slots[kPieces * kRoom];             // where they were in the batch
  static constexpr int kWords = kPieces * Policy::kPiece / 32;
  unsigned reaching[kWords], touched[Policy::kHeavy ? kWords : 1];  // see touched_of
};

// Whether a pixel meets the splats of its lane, a group apart, and the uncapped alpha of each.
template <typename Policy, int D, int kGroups>
__device__ __forceinline__ void look_at(const Entry<Policy, D>* first, float px, float py, bool (&hit)[kGroups], float (&alpha)[kGroups]) {
  if constexpr (Policy::kHeavy) {
    uint32_t own = 0;
#pragma unroll
    for (int g = 0; g < kGroups; ++g) own = max(own, edge_class(first[kLongLanes * g].splat.edges));
    static_assert(kEdgeClasses == 3);
    for_edges(__any_sync(kAll, own > 1) ? 2 : (__any_sync(kAll, own > 0) ? 1 : 0), [&](auto which) {
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
        const typename Policy::Packed splat = held(first[kLongLanes * g].splat);
        alpha[g] = Policy::template look<edges_of_class<decltype(which)::value>()>(splat, px, py - splat.y);
        hit[g] = alpha[g] >= kMinAlpha;
      }
    });
  } else {
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      const typename Policy::Packed& packed = first[kLongLanes * g].splat;
      const auto seen = Policy::look(packed, px, py - packed.y);
      alpha[g] = seen.alpha();
      hit[g] = seen.hits(packed.highest());
    }
  }
}

template <typename Policy, int D, bool kMedian, int R>
__device__ __forceinline__ void blend_long(const luxel_blend_args& args, LongShared<Policy, D>& shared, int tile, int part) {
  constexpr int kThreads = LongShape<R>::kThreads, kW = LongShape<R>::kW, kH = LongShape<R>::kH;
  constexpr int kPieces = pieces_at_once<Policy>(D), kCount = kPieces * Policy::kPiece, kLoads = loads(kCount, kThreads);
  constexpr int kRoom = LongShared<Policy, D>::kRoom;
  const Place<1> of_tile(args, tile);
  const int lane = threadIdx.x & 31, sub = threadIdx.x % kLongLanes, mine = threadIdx.x / kLongLanes;
  const int x0 = of_tile.x0 + part % (LUXEL_TILE / kW) * kW, y0 = of_tile.y0 + part / (LUXEL_TILE / kW) * kH;
  const int x = x0 + mine % kW, y = y0 + mine / kW;
  const bool inside = x < args.width && y < args.height;
  const int32_t begin = args.ranges[2 * tile], end = args.ranges[2 * tile + 1];
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
      id[k] = instance < end && brings<kCount, kThreads>(k) ? args.instances[instance] : -1;
      if (!Policy::kHeavy) fetch_splat(args, splat[k], id[k]);
    }
  };
  const auto leave_state = [&](int32_t done) {  // of the piece that ends here
    if (!state_is_asked(args, done, end - begin)) return;
    Gathered<D, kMedian> state = pixel;
#pragma unroll
    for (int d = 0; d < D; ++d) state.sums[d] = sum_over_pixel(pixel.sums[d]);
    const int local = (y - of_tile.y0) * LUXEL_TILE + x - of_tile.x0;
    if (sub == 0) state.store_state(state_of<D>(args, tile, (done - 1) / Policy::kPiece) + local);
  };
  static_assert(!Policy::kHeavy || (kW == Shape<1>::kSubtileW && kH == Shape<1>::kSubtileH), "a word of touched_of is a block's");
  // Of the batch before start; all threads have been there.
  const auto tell_touched = [&](int32_t start) {
    if (!Policy::kHeavy || threadIdx.x >= shared.kWords) return;
    const int32_t word = (start - kCount - begin) / 32 + static_cast<int32_t>(threadIdx.x);
    if (args.states && start > begin && word * 32 < end - begin)
      touched_of<Policy, D>(args, tile)[kTouchedBlocks * word + touched_block(part)] = shared.touched[threadIdx.x];
    shared.touched[threadIdx.x] = 0;
  };
  fetch(begin);
  int32_t start = begin;
  for (; start < end; start += kCount) {
    const bool goes_on = __syncthreads_or(pixel.transmittance > 0.0f);
    tell_touched(start);
    if (!goes_on) break;
    bool reaches[kLoads];
#pragma unroll
    for (int k = 0; k < kLoads; ++k) {
      if (Policy::kHeavy) fetch_splat(args, splat[k], id[k]);
      float left, right;
      const float top = static_cast<float>(y0) + 0.5f, first = static_cast<float>(x0) + 0.5f;
      reaches[k] = id[k] >= 0 && Policy::Bounds::of(splat[k].row).band(top, top + (kH - 1), left, right) && right >= first &&
                   left <= first + (kW - 1);
      const unsigned bits = __ballot_sync(kAll, reaches[k]);
      const int word = static_cast<int>(threadIdx.x + k * kThreads) / 32;
      if (lane == 0 && brings<kCount, kThreads>(k)) shared.reaching[word] = bits;
    }
    __syncthreads();
    int lengths[kPieces] = {};
#pragma unroll
    for (int word = 0; word < kCount / 32; ++word) {
      const int piece = word * 32 / Policy::kPiece;
      const unsigned bits = shared.reaching[word];
#pragma unroll
      for (int k = 0; k < kLoads; ++k) {
        const int slot = threadIdx.x + k * kThreads;
        if (slot / 32 != word || !reaches[k]) continue;
        const int place = piece * kRoom + lengths[piece] + __popc(bits & ((1u << lane) - 1));
        shared.entries[place] = entry_of(splat[k]);
        shared.slots[place] = static_cast<uint8_t>(slot);
      }
      lengths[piece] += __popc(bits);
    }
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece)
      if (threadIdx.x < kRoom - Policy::kPiece)
        shared.entries[piece * kRoom + lengths[piece] + threadIdx.x] = nowhere<Policy, D>();
    __syncthreads();
    fetch(start + kCount);  // arrives while this batch is blended
#pragma unroll 1
    for (int piece = 0; piece < kPieces; ++piece) {
      const int first = piece * kRoom, last = first + (piece > 0 ? lengths[kPieces - 1] : lengths[0]);
      int last_place = -1;
      uint32_t counted = 0, now = 1;  // bit k: the k-th splat of this lane counted
      // Blends the group of which this lane has the splat at k; false once all pixels have ended.
      const auto blend_group = [&](int k, bool hit, float alpha, uint32_t bit) {
        const Entry<Policy, D>& entry = shared.entries[k];
        alpha = hit ? fminf(args.max_alpha, alpha) : 0.0f;
        float kept = 1.0f - alpha;  // of this splat and those before it in the group
#pragma unroll
        for (int step = 1; step < kLongLanes; step *= 2) {
          const float nearer = __shfl_up_sync(kAll, kept, step, kLongLanes);
          if (sub >= step) kept *= nearer;
        }
        const float nearer = __shfl_up_sync(kAll, kept, 1, kLongLanes);
        const float before = sub == 0 ? pixel.transmittance : pixel.transmittance * nearer, after = pixel.transmittance * kept;
        const bool counts = hit && after > kMinTransmittance;
        pixel.add(counts, alpha, entry.value, before, after, entry.depth);
        last_place = counts ? k : last_place;
        if (Policy::kHeavy) counted |= counts ? bit : 0u;
        const float all_after = __shfl_sync(kAll, after, kLongLanes - 1, kLongLanes);
        const bool ends = pixel.transmittance > 0.0f && !(all_after > kMinTransmittance);
        if (__any_sync(kAll, ends)) {  // T stays what it was before the first that would take it too far
          const unsigned group = __ballot_sync(kAll, hit && !counts) >> (lane & ~(kLongLanes - 1)) & ((1u << kLongLanes) - 1);
          const float t_end = __shfl_sync(kAll, before, group != 0 ? __ffs(group) - 1 : 0, kLongLanes);
          pixel.transmittance = ends ? -t_end : (pixel.transmittance > 0.0f ? all_after : pixel.transmittance);
          return __any_sync(kAll, pixel.transmittance > 0.0f) != 0;
        }
        pixel.transmittance = pixel.transmittance > 0.0f ? all_after : pixel.transmittance;
        return true;
      };
      constexpr int kGroups = groups_together<Policy>();
      bool goes_on = true;
      for (int k = first + sub; goes_on && k < last + sub; k += kGroups * kLongLanes, now <<= kGroups) {
        bool hit[kGroups];
        float alpha[kGroups];
        look_at<Policy, D, kGroups>(&shared.entries[k], px, py, hit, alpha);
#pragma unroll
        for (int g = 0; g < kGroups; ++g)
          goes_on = goes_on && blend_group(k + kLongLanes * g, hit[g], alpha[g], now << g);
      }
      if constexpr (Policy::kHeavy) {
        static_assert(Policy::kPiece <= 32 * kLongLanes);
        for (int bit = kLongLanes; bit < 32; bit *= 2) counted |= __shfl_xor_sync(kAll, counted, bit);
        for (; lane < kLongLanes && counted != 0; counted &= counted - 1) {
          const unsigned slot = shared.slots[first + sub + kLongLanes * (__ffs(counted) - 1)];
          atomicOr(&shared.touched[slot / 32], 1u << slot % 32);
        }
      }
      if (last_place >= 0) pixel.last = start + shared.slots[last_place] + 1;
      leave_state(start + (piece + 1) * Policy::kPiece - begin);
    }
  }
  if (Policy::kHeavy && start >= end) {
    __syncthreads();
    tell_touched(start);
  }
#pragma unroll
  for (int d = 0; d < D; ++d) pixel.sums[d] = sum_over_pixel(pixel.sums[d]);
  pixel.median = sum_over_pixel(pixel.median);  // T falls to 1/2 in one lane
#pragma unroll
  for (int bit = kLongLanes / 2; bit >= 1; bit /= 2) {
    pixel.seen += __shfl_xor_sync(kAll, pixel.seen, bit);
    pixel.last = max(pixel.last, __shfl_xor_sync(kAll, pixel.last, bit));
  }
  if (inside && sub == 0) pixel.store(args, of_tile.camera, (static_cast<int64_t>(of_tile.camera) * args.height + y) * args.width + x);
}

}  // namespace
}  // namespace luxel
