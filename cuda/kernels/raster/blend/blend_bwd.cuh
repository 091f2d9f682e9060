// Backward pass of the tile rasterizer on the GPU: a block per piece of a tile's list, or of multi-edge policies a warp per piece and
// half tile, so that a tile with thousands of splats is shared by many blocks. The forward pass left what each pixel had
// gathered at the end of each piece; from there a piece is walked from the back.
//
// A splat's gradient is reduced over the warp by a transposing butterfly (12 shuffles for 9 numbers instead of 45), then
// one instruction adds it to memory.
#pragma once

#include "kernels/raster/blend/blend_tile.cuh"

namespace luxel {
namespace {

// Sums N numbers over the warp at once, to v[0]: of number number_of_lane<N>(lane), for lanes where that is not -1.
// Each step sends half of the numbers to the other half of the lanes; an odd one is summed in both.
template <int N, int kBit = 16> __device__ __forceinline__ void transpose_sum(float* v, int lane) {
  if constexpr (kBit > 0) {
    constexpr int kHalf = (N + 1) / 2;
    const bool upper = lane & kBit;
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      const float sent = upper ? v[i] : v[i + kHalf], kept = upper ? v[i + kHalf] : v[i];
      v[i] = kept + __shfl_xor_sync(kAll, sent, kBit);
    }
    if (N % 2 == 1) v[N / 2] += __shfl_xor_sync(kAll, v[N / 2], kBit);
    transpose_sum<kHalf, kBit / 2>(v, lane);
  }
}

template <int N, int kBit = 16> __device__ __forceinline__ int number_of_lane(int lane) {
  if constexpr (kBit == 0) {
    return 0;
  } else {
    constexpr int kHalf = (N + 1) / 2;
    const int inner = number_of_lane<kHalf, kBit / 2>(lane);
    if (inner < 0 || !(lane & kBit)) return inner;
    return inner + kHalf < N ? inner + kHalf : -1;
  }
}

__device__ __forceinline__ int32_t max_over_warp(int32_t x) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(kAll, x);
#else
  for (int bit = 16; bit >= 1; bit /= 2) x = max(x, __shfl_xor_sync(kAll, x, bit));
  return x;
#endif
}

__device__ __forceinline__ float reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Where one lane's sums go, of the numbers kFirst .. kFirst + 31 that are reduced together: into the row of the splat, or of
// the instance and this warp (see blend_ordered.cuh).
template <typename Policy, typename Sums, int D, int kFirst = 0> struct LaneTarget {
  static constexpr int kRest = Sums::kCount + D - kFirst, kCount = kRest < 32 ? kRest : 32;
  int number;
  float scale;
  float* target;
  uint32_t stride;  // bytes

  // number: number_of_lane<kCount>() of this lane.
  __device__ __forceinline__ LaneTarget(const luxel_blend_args& args, int warp, int number) : number(number) {
    constexpr int kRow = Policy::kRow;
    const int which = kFirst + number;
    const bool of_splat = which < Sums::kCount;
    scale = of_splat ? Sums::scale(which) : 1.0f;
    const int column = of_splat ? Sums::slot(which) : which - Sums::kCount;
    if (args.deterministic) {
      stride = sizeof(float) * kBackwardWarps * (kRow + D);
      target = out<float>(args.workspace) + warp * (kRow + D) + (of_splat ? column : kRow + column);
    } else {
      stride = sizeof(float) * (of_splat ? kRow : D);
      target = out<float>(of_splat ? args.g_splats : args.g_values) + column;
    }
  }
  // Adds what the warp has; row: of the splat, or the instance.
  __device__ __forceinline__ void add(float* numbers, uint32_t row, int lane) const {
    transpose_sum<kCount>(numbers + kFirst, lane);
    char* place = reinterpret_cast<char*>(target) + static_cast<uint64_t>(stride) * row;
    if (number >= 0) atomicAdd(reinterpret_cast<float*>(place), scale * numbers[kFirst]);
  }
};

// Of all numbers, where lanes may have a second one each.
template <typename Policy, typename Sums, int D> struct LaneTargets {
  static constexpr int kMore = Sums::kCount + D > 32 ? 32 : 0;
  LaneTarget<Policy, Sums, D> first;
  LaneTarget<Policy, Sums, D, kMore> more;

  static constexpr int kFirst = LaneTarget<Policy, Sums, D>::kCount;
  __device__ __forceinline__ LaneTargets(const luxel_blend_args& args, int warp, int lane, int number)
      : first(args, warp, number), more(args, warp, number_of_lane<decltype(more)::kCount>(lane)) {}
  __device__ __forceinline__ void add(float* numbers, uint32_t row, int lane) const {
    first.add(numbers, row, lane);
    if (kMore > 0) more.add(numbers, row, lane);
  }
};

// Known before any splat is looked at. Of a policy whose gradient has as many numbers for all splats: where lanes add. Of
// multi-edge ones: which of the numbers are this lane's, a byte for each class of edges.
template <typename Policy, bool kAbsolute, int D, bool = Policy::kMultiEdge>
struct CommonTargets : LaneTargets<Policy, typename Policy::template Sums<kAbsolute>, D> {
  using Targets = LaneTargets<Policy, typename Policy::template Sums<kAbsolute>, D>;
  __device__ __forceinline__ CommonTargets(const luxel_blend_args& args, int warp, int lane)
      : Targets(args, warp, lane, number_of_lane<Targets::kFirst>(lane)) {}
};
template <typename Policy, bool kAbsolute, int D> struct CommonTargets<Policy, kAbsolute, D, true> {
  template <int kClass> using Sums = typename Policy::template Sums<kAbsolute, edges_of_class<kClass>()>;
  template <int kClass> using Targets = LaneTargets<Policy, Sums<kClass>, D>;
  const luxel_blend_args& args;
  int warp, lane;
  uint32_t numbers;

  __device__ __forceinline__ CommonTargets(const luxel_blend_args& args, int warp, int lane)
      : args(args), warp(warp), lane(lane), numbers(byte_of<0>() | byte_of<1>() | byte_of<2>()) {
    asm volatile("" : "+r"(numbers));  // or it would be computed anew for each splat
  }
  template <int kClass> __device__ __forceinline__ uint32_t byte_of() const {
    return (static_cast<uint32_t>(number_of_lane<Targets<kClass>::kFirst>(lane)) & 255u) << (8 * kClass);
  }
  template <int kClass> __device__ __forceinline__ void add(float* sums, uint32_t row) const {
    const int number = static_cast<int8_t>(numbers >> (8 * kClass) & 255u);
    Targets<kClass>(args, warp, lane, number).add(sums, row, lane);
  }
};

template <typename Policy, int D, bool kAbsolute, int R>
__global__ void __launch_bounds__(32 * backward_warps<Policy>(), backward_blocks<Policy>(D))
    blend_bwd_kernel(const luxel_blend_args args) {
  constexpr bool kAlone = backward_warps<Policy>() == 1;  // the warp
  constexpr int kCount = kAlone ? 32 : Policy::kPiece, kThreads = 32 * backward_warps<Policy>();
  constexpr unsigned kBlocksOfPiece = kAlone ? kBackwardWarps : 1;
  __shared__ struct : Batch<Policy, D, kCount> {
    uint32_t row[kCount];  // of the gradient: the splat, or the instance where sums wait for their order
  } batch;
  const int2 piece =
      reinterpret_cast<const int2*>(args.plan + 2 * static_cast<int64_t>(tiles_of(args)))[blockIdx.x / kBlocksOfPiece];
  const int tile = piece.x;
  if (tile < 0) return;
  const Place<R> at(args, tile, kAlone ? blockIdx.x % kBlocksOfPiece : threadIdx.x >> 5);
  const int32_t start = args.ranges[2 * tile] + piece.y * Policy::kPiece;
  const int32_t list_end = args.ranges[2 * tile + 1], end = min(start + Policy::kPiece, list_end);
  const bool whole = end == list_end;  // the last piece ends where the pixels did
  const float px = static_cast<float>(at.x) + 0.5f, py = static_cast<float>(at.y) + 0.5f;
  float transmittance[R], behind[R], g_image[R][D] = {};
  int32_t last[R] = {}, thread_last = 0;
  const float* background = args.background ? in<float>(args.background) + D * at.camera : nullptr;
#pragma unroll
  for (int r = 0; r < R; ++r) {
    transmittance[r] = 1.0f;
    behind[r] = 0.0f;
    if (!at.inside(r)) continue;
    last[r] = args.last[at.pixel_at(r)] - start;  // within the piece, as slots are
    thread_last = max(thread_last, last[r]);
  }
  if (piece.y > 0 && __syncthreads_or(thread_last > 0) == 0) return;
  // rows: of multi-edge policies, see visit.
  const auto bring = [&](int32_t instance, int slot, unsigned rows) {
    const int32_t id = instance < end ? args.instances[instance] : -1;
    Fetched<Policy, D> splat;
    fetch_splat(args, splat, id);
    if constexpr (kAlone) {
      const Entry<Policy, D> entry = entry_of(splat);
      batch.entries[slot] = entry;
      batch.subtiles[slot] = static_cast<uint8_t>(rows | edge_class(entry.splat.edges) << R);
    } else
      store_splat<Shape<R>, Policy, D, kCount>(batch, slot, splat, id, at.x0, at.y0);
    batch.row[slot] = static_cast<uint32_t>(args.deterministic ? instance : id);
  };
  if constexpr (!kAlone) {
#pragma unroll
    for (int k = 0; k < kCount / kThreads; ++k) bring(start + threadIdx.x + k * kThreads, threadIdx.x + k * kThreads, 0);
  }
#pragma unroll
  for (int r = 0; r < R; ++r) {
    if (!at.inside(r)) continue;
    const int64_t pixel = at.pixel_at(r);
    const float t_end = in<float>(args.transmittance)[pixel];
    // behind: slope of the loss along what lies behind this piece, times T
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

  const CommonTargets<Policy, kAbsolute, D> targets(args, at.warp, at.lane);

  // Gathers what pixel r, dy below the splat, learns of it.
  const auto gather = [&](int r, float dy, const Entry<Policy, D>& entry, const auto& along, const auto& seen, auto& sums,
                          float* g_value) {
    const float raw = seen.alpha(), alpha = fminf(args.max_alpha, raw);
    const float inverse = reciprocal(1.0f - alpha);
    transmittance[r] *= inverse;
    const float weight = alpha * transmittance[r];
    float slope = 0.0f;
#pragma unroll
    for (int d = 0; d < D; ++d) {
      slope = fmaf(g_image[r][d], entry.value[d], slope);
      g_value[d] = fmaf(weight, g_image[r][d], g_value[d]);
    }
    const float g_log_alpha = fmaf(weight, slope, -behind[r] * (alpha * inverse));
    sums.add(entry.splat, along, seen, dy, raw <= args.max_alpha ? g_log_alpha : 0.0f);
    behind[r] = fmaf(weight, slope, behind[r]);
  };
  // Gathers what the warp learns of one splat, and adds it up. look: of multi-edge policies, bit r: pixels r of the warp's threads
  // may count; and above them the class of its edges.
  const auto visit = [&](const Entry<Policy, D>& entry, unsigned look, int32_t place, uint32_t row) {
    if constexpr (Policy::kMultiEdge) {  // pixels one after the other: what is kept of one fills many registers
      for_edges(look >> R, [&](auto which) {
        constexpr int kClass = decltype(which)::value;
        using Sums = typename CommonTargets<Policy, kAbsolute, D>::template Sums<kClass>;
        const typename Policy::Packed splat = held(entry.splat);
        const typename Policy::template Column<edges_of_class<kClass>()> along(splat, px);
        Sums sums;
        float numbers[Sums::kCount + D] = {};
#pragma unroll
        for (int r = 0; r < R; ++r) {
          if (!(look >> r & 1)) continue;
          const float dy = py + static_cast<float>(4 * r) - splat.y;
          const auto seen = along.seen(splat, along.reach(splat, dy));
          if (seen.hits(0.0f) && place < last[r]) gather(r, dy, entry, along, seen, sums, numbers + Sums::kCount);
        }
        sums.store(splat, along, numbers);
        targets.template add<kClass>(numbers, row);
      });
    } else {
      using Sums = typename Policy::template Sums<kAbsolute>;
      const typename Policy::Packed splat = entry.splat;
      const typename Policy::Column along(splat, px);
      Sums sums;
      float numbers[Sums::kCount + D] = {};
      typename Policy::Seen seen[R];
      bool counts[R], any = false;
#pragma unroll
      for (int r = 0; r < R; ++r) {
        seen[r] = along.at(splat, py + static_cast<float>(4 * r) - splat.y);
        counts[r] = seen[r].hits(splat.highest()) && place < last[r];
        any |= counts[r];
      }
      if (!__any_sync(kAll, any)) return;
#pragma unroll
      for (int r = 0; r < R; ++r)
        if (counts[r]) gather(r, py + static_cast<float>(4 * r) - splat.y, entry, along, seen[r], sums, numbers + Sums::kCount);
      sums.store(splat, along, numbers);
      targets.add(numbers, row, at.lane);
    }
  };
  if constexpr (kAlone) {
    // Lane g has the words of group g: of the blocks of this half of the tile, which are the rows of this thread's pixels.
    static_assert(R == 4 && kTouchedBlocks == R * Shape<R>::kWarps);
    const uint4* words = reinterpret_cast<const uint4*>(touched_of<Policy, D>(args, tile));
    uint4 touched = {};
    if (at.lane < Policy::kPiece / 32 && start + 32 * at.lane < end)
      touched = words[Shape<R>::kWarps * (piece.y * (Policy::kPiece / 32) + at.lane) + at.warp];
    for (int group = (end - start - 1) / 32; group >= 0; --group) {  // from the back
      if (32 * group >= warp_last) continue;
      const unsigned of_row[R] = {__shfl_sync(kAll, touched.x, group), __shfl_sync(kAll, touched.y, group),
                                  __shfl_sync(kAll, touched.z, group), __shfl_sync(kAll, touched.w, group)};
      unsigned bits = of_row[0] | of_row[1] | of_row[2] | of_row[3];
      unsigned rows = 0;
#pragma unroll
      for (int r = 0; r < R; ++r) rows |= (of_row[r] >> at.lane & 1) << r;
      __syncwarp();
      if (rows != 0) bring(start + 32 * group + at.lane, at.lane, rows);
      __syncwarp();
      while (bits != 0) {
        const int place = 31 - __clz(bits);
        bits ^= 1u << place;
        visit(batch.entries[place], batch.subtiles[place], 32 * group + place, batch.row[place]);
      }
    }
  } else {
    __syncthreads();
    for (int group = (end - start - 1) / 32 * 32; group >= 0; group -= 32) {
      if (group >= warp_last) continue;
      unsigned bits = __ballot_sync(kAll, batch.subtiles[group + at.lane] >> at.warp & 1);
      while (bits != 0) {
        const int place = 31 - __clz(bits), slot = group + place;
        bits ^= 1u << place;
        visit(batch.entries[slot], 0u, slot, batch.row[slot]);
      }
    }
  }
}

}  // namespace
}  // namespace luxel
