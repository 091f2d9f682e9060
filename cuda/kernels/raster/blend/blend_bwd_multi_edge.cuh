// Backward pass of multi-edge policies on the GPU. A splat is so much work that warps of a block would wait for one another, so a
// block is one warp, for a piece of a tile's list and one half of the tile. It loads the splats that the forward pass marked as
// contributing, 32 at a time, and visits them back to front.
#pragma once

#include "kernels/raster/blend/blend_bwd_piece.cuh"
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
  const Piece<Policy> piece(args, blockIdx.x / kBlocksOfPiece);
  if (piece.tile < 0) return;
  const Place<R> at(args.binned, piece.tile, blockIdx.x % kBlocksOfPiece);
  const float px = static_cast<float>(at.x) + 0.5f, py = static_cast<float>(at.y) + 0.5f;
  PixelStates<Policy, D> pixels(args, at, piece);
  if (pixels.none(piece)) return;
  pixels.load(args, at, piece);
  const int32_t warp_last = max_over_warp(pixels.thread_last);
  const Targets targets(args, at.warp, at.lane);

  // Gathers the gradient by a splat, number `place` of the piece, over the warp's pixels, and adds it to memory. Pixels go one after
  // the other: what is stored of one fills many registers.
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
        if (coverage.hits(0.0f) && place < pixels.last[r])
          pixels.gather(args, r, dy, entry, along, coverage, sums, numbers + Sums::kCount);
      }
      sums.store(splat, along, numbers);
      targets.template add<kClass>(numbers, row);
    });
  };
  // Lane g has the words of group g: of the blocks of this half of the tile, which are the rows of this thread's pixels.
  const uint4* words = reinterpret_cast<const uint4*>(touched_of<Policy, D>(args, piece.tile));
  uint4 touched = {};
  if (at.lane < kGroups && piece.start + 32 * at.lane < piece.end)
    touched = words[Shape<R>::kWarps * (piece.number * kGroups + at.lane) + at.warp];
  for (int group = (piece.end - piece.start - 1) / 32; group >= 0; --group) {  // back to front
    if (32 * group >= warp_last) continue;
    const unsigned of_row[R] = {__shfl_sync(kAll, touched.x, group), __shfl_sync(kAll, touched.y, group),
                                __shfl_sync(kAll, touched.z, group), __shfl_sync(kAll, touched.w, group)};
    const unsigned bits = of_row[0] | of_row[1] | of_row[2] | of_row[3];
    unsigned rows = 0;
#pragma unroll
    for (int r = 0; r < R; ++r) rows |= (of_row[r] >> at.lane & 1) << r;
    __syncwarp();
    if (rows != 0) {
      const int32_t instance = piece.start + 32 * group + at.lane, id = instance < piece.end ? args.binned.instances[instance] : -1;
      Fetched<Policy, D> splat;
      fetch_splat(args, splat, id);
      const Entry<Policy, D> entry = entry_of(splat);
      batch.entries[at.lane] = entry;
      batch.look[at.lane] = static_cast<uint8_t>(rows | edge_class(entry.splat.edges) << R);
      batch.row[at.lane] = static_cast<uint32_t>(args.deterministic ? instance : id);
    }
    __syncwarp();
    for_bits_downwards(bits, [&](int place) { visit(batch.entries[place], batch.look[place], 32 * group + place, batch.row[place]); });
  }
}

}  // namespace
}  // namespace luxel
