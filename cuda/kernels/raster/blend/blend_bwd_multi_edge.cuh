// Backward pass of multi-edge policies on the GPU. A splat is so much work that warps of a block would wait for one another, so a
// block is one warp, for a piece of a tile's list and one half of the tile. It loads the splats that the forward pass marked as
// contributing, 32 at a time, and visits them back to front.
#pragma once

#include "kernels/raster/blend/blend_bwd_sums.cuh"
#include "kernels/raster/blend/multi_edge.cuh"

namespace luxel {
namespace {

// Resident blocks per multiprocessor.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr int multi_edge_bwd_blocks(int) { return 1; }  // Turing supports fewer resident threads
#else
constexpr int multi_edge_bwd_blocks(int channels) { return channels > 4 ? 1 : 20; }
#endif

// Addresses to which lanes add their sums, which depend on a splat's edge class. numbers: index of this lane's sum, a byte per class.
template <typename Policy, bool kAbsolute, int D> struct ClassTargets {
  template <int kClass> using Sums = typename Policy::template Sums<kAbsolute, edges_of_class<kClass>()>;
  template <int kClass> using Targets = LaneTargets<Policy, Sums<kClass>, D>;
  const luxel_blend_args& args;
  int warp, lane;
  uint32_t numbers;

  __device__ __forceinline__ ClassTargets(const luxel_blend_args& args, int warp, int lane)
      : args(args), warp(warp), lane(lane), numbers(byte_of<0>() | byte_of<1>() | byte_of<2>()) {
    asm volatile("" : "+r"(numbers));  // keeps the compiler from recomputing it for each splat
  }
  template <int kClass> __device__ __forceinline__ uint32_t byte_of() const {
    return (static_cast<uint32_t>(number_of_lane<Targets<kClass>::kFirst>(lane)) & 255u) << (8 * kClass);
  }
  template <int kClass> __device__ __forceinline__ void add(float* sums, uint32_t row) const {
    const int number = static_cast<int8_t>(numbers >> (8 * kClass) & 255u);
    Targets<kClass>(args, warp, lane, number).add(sums, row, lane);
  }
};

template <typename Policy, int D, bool kAbsolute>
__global__ void __launch_bounds__(32, multi_edge_bwd_blocks(D)) blend_bwd_multi_edge_kernel(const luxel_blend_args args) {
  constexpr int R = kBackwardPixels, kGroups = Policy::kPiece / 32;
  constexpr unsigned kBlocksOfPiece = kBackwardWarps;
  static_assert(R == 4 && kTouchedBlocks == R * Shape<R>::kWarps, "a word of touched bits for each row of a thread's pixels");
  using Targets = ClassTargets<Policy, kAbsolute, D>;
  __shared__ struct {
    Entry<Policy, D> entries[32];
    uint8_t look[32];  // bit r: counted for one of pixels r of the warp's threads; above them the class of edges
    uint32_t row[32];  // of the gradient: the splat, or the instance where sums wait for their order
  } batch;
  const int2 piece =  // the tile, and the number of the piece in its list
      reinterpret_cast<const int2*>(args.plan + 2 * static_cast<int64_t>(tiles_of(args)))[blockIdx.x / kBlocksOfPiece];
  const int tile = piece.x;
  if (tile < 0) return;
  const Place<R> at(args, tile, blockIdx.x % kBlocksOfPiece);
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
  const Targets targets(args, at.warp, at.lane);

  // Gathers the gradient by the splat through pixel r, dy below it, and steps in front of the splat.
  const auto gather = [&](int r, float dy, const Entry<Policy, D>& entry, const auto& along, const auto& coverage, auto& sums,
                          float* g_value) {
    const float raw = coverage.alpha(), alpha = fminf(args.max_alpha, raw);
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
    sums.add(entry.splat, along, coverage, dy, raw <= args.max_alpha ? g_log_alpha : 0.0f);
    behind[r] = fmaf(weight, slope, behind[r]);
  };
  // Gathers the gradient by a splat, number `place` of the piece, over the warp's pixels, and adds it to memory. Pixels go one after
  // the other: what is kept of one fills many registers.
  const auto visit = [&](const Entry<Policy, D>& entry, unsigned look, int32_t place, uint32_t row) {
    for_edges(look >> R, [&](auto which) {
      constexpr int kClass = decltype(which)::value;
      using Sums = typename Targets::template Sums<kClass>;
      const typename Policy::Packed splat = held(entry.splat);
      const typename Policy::template Column<edges_of_class<kClass>()> along(splat, px);
      Sums sums;
      float numbers[Sums::kCount + D] = {};
#pragma unroll
      for (int r = 0; r < R; ++r) {
        if (!(look >> r & 1)) continue;
        const float dy = py + static_cast<float>(4 * r) - splat.y;
        const auto coverage = along.coverage(splat, along.reach(splat, dy));
        if (coverage.hits(0.0f) && place < last[r]) gather(r, dy, entry, along, coverage, sums, numbers + Sums::kCount);
      }
      sums.store(splat, along, numbers);
      targets.template add<kClass>(numbers, row);
    });
  };
  // Lane g has the words of group g: of the blocks of this half of the tile, which are the rows of this thread's pixels.
  const uint4* words = reinterpret_cast<const uint4*>(touched_of<Policy, D>(args, tile));
  uint4 touched = {};
  if (at.lane < kGroups && start + 32 * at.lane < end)
    touched = words[Shape<R>::kWarps * (piece.y * kGroups + at.lane) + at.warp];
  for (int group = (end - start - 1) / 32; group >= 0; --group) {  // back to front
    if (32 * group >= warp_last) continue;
    const unsigned of_row[R] = {__shfl_sync(kAll, touched.x, group), __shfl_sync(kAll, touched.y, group),
                                __shfl_sync(kAll, touched.z, group), __shfl_sync(kAll, touched.w, group)};
    unsigned bits = of_row[0] | of_row[1] | of_row[2] | of_row[3];
    unsigned rows = 0;
#pragma unroll
    for (int r = 0; r < R; ++r) rows |= (of_row[r] >> at.lane & 1) << r;
    __syncwarp();
    if (rows != 0) {
      const int32_t instance = start + 32 * group + at.lane, id = instance < end ? args.instances[instance] : -1;
      Fetched<Policy, D> splat;
      fetch_splat(args, splat, id);
      const Entry<Policy, D> entry = entry_of(splat);
      batch.entries[at.lane] = entry;
      batch.look[at.lane] = static_cast<uint8_t>(rows | edge_class(entry.splat.edges) << R);
      batch.row[at.lane] = static_cast<uint32_t>(args.deterministic ? instance : id);
    }
    __syncwarp();
    while (bits != 0) {
      const int place = 31 - __clz(bits);
      bits ^= 1u << place;
      visit(batch.entries[place], batch.look[place], 32 * group + place, batch.row[place]);
    }
  }
}

}  // namespace
}  // namespace luxel
