// label_votes on the GPU: the lanes of a warp are grouped by label once; a splat's weights are summed over each group, then over
// the tile in shared memory, and added to the table once per tile and label (once per block where blocks share a tile). Integers
// throughout: the same bits in any order.
#pragma once

#include "kernels/raster/label/label_walk.cuh"

namespace luxel {
namespace {

// Labels of a tile, the lowest ones, whose sums are gathered in shared memory; each warp adds further ones to the table itself.
constexpr int kTileLabels = 8;

template <typename Policy> struct VoteShared {
  union {
    LabelShared<Policy> walk;
    LabelLongShared<Policy> long_walk;
  };
  uint32_t sums[kTileLabels][Policy::kPiece];  // of 256 weights below 1 in units of 2^-24: no overflow
  LabelSet labels;
  int label_of[kTileLabels];
  __device__ VoteShared() {}
};

// The label of a pixel as the table knows it.
__device__ __forceinline__ int label_at(const luxel_label_votes_args& args, int64_t pixel) {
  const int given = args.maps[pixel];
  return given < args.labels ? given : kNoLabel;
}

// The lanes of a warp whose pixels have the same label.
struct LabelGroup {
  int label;
  unsigned peers, leaders;  // lanes of the same label; the first lane of each label
  bool leads, inside;       // inside: any pixel of the warp lies in the image

  // Lanes outside of the image join the first one inside, so that most warps have one label.
  __device__ __forceinline__ LabelGroup(const luxel_label_votes_args& args, int lane, bool lane_inside, int64_t pixel) {
    const int own = lane_inside ? label_at(args, pixel) : kNoLabel;
    const unsigned present = __ballot_sync(kAll, lane_inside);
    inside = present != 0;
    const int first = __shfl_sync(kAll, own, inside ? __ffs(present) - 1 : 0);
    label = lane_inside ? own : first;
    peers = __match_any_sync(kAll, label);
    leads = lane == __ffs(peers) - 1;
    leaders = __ballot_sync(kAll, leads);
  }
  __device__ __forceinline__ int count() const { return __popc(leaders); }
  // The sum over the lanes of this label.
  __device__ __forceinline__ uint32_t sum(uint32_t value) const {
#if __CUDA_ARCH__ >= 800
    return __reduce_add_sync(peers, value);
#else
    uint32_t own = 0;
    for (unsigned rest = leaders; rest != 0; rest &= rest - 1) {
      const int other = __shfl_sync(kAll, label, __ffs(rest) - 1);
      const uint32_t total = sum_of_warp(label == other ? value : 0u);
      own = label == other ? total : own;
    }
    return own;
#endif
  }
  static __device__ __forceinline__ uint32_t sum_of_warp(uint32_t value) {
#if __CUDA_ARCH__ >= 800
    return __reduce_add_sync(kAll, value);
#else
    for (int bit = 16; bit >= 1; bit /= 2) value += __shfl_xor_sync(kAll, value, bit);
    return value;
#endif
  }
};

// What a splat adds to the sum of a pixel's label.
template <bool kCentre, typename Entry>
__device__ __forceinline__ uint32_t vote_of(const Entry& entry, float px, float py, float weight, float before) {
  if (!kCentre) return __float2uint_rn(weight * static_cast<float>(1 << kVoteBits));
  const float dx = px - entry.splat.x, dy = py - entry.splat.y;
  return dx * dx + dy * dy <= kCentreRadius * kCentreRadius && before > kCentreTransmittance ? 1u << kVoteBits : 0u;
}

// Whether the centre rule may count the splat in the block of pixels whose first one is at (x0, y0).
__device__ __forceinline__ bool near_centre(const float* row, int x0, int y0, int width, int height) {
  const float left = static_cast<float>(x0) + 0.5f - kCentreRadius, top = static_cast<float>(y0) + 0.5f - kCentreRadius;
  return row[0] >= left && row[0] <= left + static_cast<float>(width - 1) + 2.0f * kCentreRadius && row[1] >= top &&
         row[1] <= top + static_cast<float>(height - 1) + 2.0f * kCentreRadius;
}

// Sums over warps and batches, of both walks.
template <typename Policy> struct TileSums {
  const luxel_label_votes_args& args;
  VoteShared<Policy>& shared;

  // For the label in a column of the tile, or, beyond those, straight to the table.
  __device__ __forceinline__ void add(int column, int label, int slot, int32_t tag, uint32_t sum) const {
    if (column < kTileLabels)
      atomicAdd(&shared.sums[column][slot], sum);
    else
      add_votes(args, tag, label, sum);
  }
  __device__ __forceinline__ void flush(int slot, int32_t tag, int columns) const {
#pragma unroll
    for (int k = 0; k < kTileLabels; ++k) {
      if (k >= columns) break;
      const uint32_t sum = shared.sums[k][slot];
      if (sum == 0) continue;
      add_votes(args, tag, shared.label_of[k], sum);
      shared.sums[k][slot] = 0;
    }
  }
};

// Of a warp with one or two labels each lane stores the sums of one of 32 visits, and adds them to those of the tile together.
template <typename Policy, bool kCentre> struct VoteVisitor {
  static constexpr bool kFlushes = true, kCommits = true;
  TileSums<Policy> tile;
  const LabelGroup& group;
  int32_t first;  // id of the camera's first splat
  float px, py;
  int lane, column, columns;   // column: of the pixel's label among those of the tile; columns: their number
  int groups, other;           // groups: labels of the warp; other: the first lane of the second label
  uint32_t kept[2] = {0, 0};

  __device__ __forceinline__ int32_t tag(int32_t id) const { return id - first; }
  __device__ __forceinline__ unsigned reach(const float* row, int x0, int y0) const {
    unsigned mask = 0;
    if constexpr (kCentre) {
#pragma unroll
      for (int w = 0; w < Shape<1>::kWarps; ++w)
        mask |= near_centre(row, x0 + w % Shape<1>::kSubtilesX * 8, y0 + w / Shape<1>::kSubtilesX * 4, 8, 4) ? 1u << w : 0u;
    }
    return mask;
  }
  __device__ __forceinline__ void visit(int turn, int slot, const LabelEntry<Policy>& entry, float weight, float before) {
    const uint32_t value = vote_of<kCentre>(entry, px, py, weight, before);
    if (groups <= 2) {
      const uint32_t all = LabelGroup::sum_of_warp(value);
      const uint32_t second = groups == 1 ? 0u : LabelGroup::sum_of_warp(group.peers & 1u ? 0u : value);
      if (lane == turn) kept[0] = all - second, kept[1] = second;
      return;
    }
    const uint32_t sum = group.sum(value);
    if (group.leads && sum != 0) tile.add(column, group.label, slot, entry.tag, sum);
  }
  __device__ __forceinline__ void commit(int slot) {
    if (groups > 2) return;
    const int32_t tag = tile.shared.walk.entries[slot].tag;
    const int first_label = __shfl_sync(kAll, group.label, 0), first_column = __shfl_sync(kAll, column, 0);
    if (kept[0] != 0) tile.add(first_column, first_label, slot, tag, kept[0]);
    if (groups == 2) {
      const int label = __shfl_sync(kAll, group.label, other), place = __shfl_sync(kAll, column, other);
      if (kept[1] != 0) tile.add(place, label, slot, tag, kept[1]);
    }
    kept[0] = kept[1] = 0;
    __syncwarp();
  }
  __device__ __forceinline__ void flush(int32_t id) const {
    if (id >= 0) tile.flush(static_cast<int>(threadIdx.x), id - first, columns);
  }
};

template <typename Policy, bool kCentre> struct LongVoteVisitor {
  static constexpr bool kFlushes = true;
  TileSums<Policy> tile;
  int32_t first;
  float px, py;
  int lane, label, column, columns;
  bool alike;  // whether the pixels of the warp have one label

  __device__ __forceinline__ int32_t tag(int32_t id) const { return id - first; }
  __device__ __forceinline__ bool reaches(const float* row, int x0, int y0) const {
    return kCentre && near_centre(row, x0, y0, LongShape<1>::kW, LongShape<1>::kH);
  }
  __device__ __forceinline__ void visit(int place, const LabelEntry<Policy>& entry, float weight, float before) const {
    uint32_t value = vote_of<kCentre>(entry, px, py, weight, before);
    if (alike) {  // lanes of the same splat are kLongLanes apart
#pragma unroll
      for (int bit = kLongLanes; bit < 32; bit *= 2) value += __shfl_xor_sync(kAll, value, bit);
      if (lane >= kLongLanes) return;
    }
    if (value != 0) tile.add(column, label, place, entry.tag, value);
  }
  __device__ __forceinline__ void flush(int count) const {
    const int place = static_cast<int>(threadIdx.x);
    if (place < count) tile.flush(place, tile.shared.long_walk.entries[place].tag, columns);
  }
};

template <typename Policy, bool kCentre>
__global__ void __launch_bounds__(kPixels, label_blocks<Policy>())
    label_votes_kernel(const luxel_label_votes_args args) {
  static_assert(kPixels == 256);
  __shared__ VoteShared<Policy> shared;
  const LabelBlock<Policy> block(args.binned);
  if (block.tile < 0 || args.binned.ranges[2 * block.tile] >= args.binned.ranges[2 * block.tile + 1]) return;
  const Place<1> at(args.binned, block.tile);
  const LongPlace part(args.binned, block.tile, block.part);
  const LabelGroup group(args, at.lane, block.is_long ? part.inside : at.inside(0), block.is_long ? part.pixel : at.pixel);
  for (int k = threadIdx.x; k < kTileLabels * Policy::kPiece; k += kPixels) shared.sums[k / Policy::kPiece][k % Policy::kPiece] = 0;
  if (threadIdx.x < 8) shared.labels.words[threadIdx.x] = 0;
  __syncthreads();
  if (group.inside && group.leads) shared.labels.insert(group.label);
  __syncthreads();
  const int column = shared.labels.below(group.label), columns = min(shared.labels.below(256), kTileLabels);
  const int own = static_cast<int>(threadIdx.x), place = shared.labels.below(own);  // a thread per label
  if (shared.labels.has(own) && place < kTileLabels) shared.label_of[place] = own;
  const TileSums<Policy> sums = {args, shared};
  const int32_t first = at.camera * args.binned.count;
  const auto centre = [](int x) { return static_cast<float>(x) + 0.5f; };
  if (block.is_long) {
    if constexpr (!Policy::kMultiEdge) {
      LongVoteVisitor<Policy, kCentre> visitor = {sums,        first,  centre(part.x), centre(part.y),    at.lane,
                                                  group.label, column, columns,        group.count() == 1};
      walk_long_list<Policy>(args.binned, shared.long_walk, part, block.tile, visitor);
    }
    return;
  }
  const int groups = group.count(), other = groups == 2 ? 31 - __clz(static_cast<int>(group.leaders)) : 0;
  VoteVisitor<Policy, kCentre> visitor = {sums,    group,  first,   centre(at.x), centre(at.y),
                                          at.lane, column, columns, groups,       other};
  walk_list<Policy>(args.binned, shared.walk, at, block.tile, visitor);
}

template <typename Policy> int label_votes(const luxel_label_votes_args& args) {
  if (args.dtype != 0) return fail("the GPU kernels take float32");
  if (args.fine) return fail("fine sums are for the CPU only");
  LUXEL_CUDA(cudaSetDevice(args.device));
  const auto kernel = args.centre_rule ? label_votes_kernel<Policy, true> : label_votes_kernel<Policy, false>;
  return launch("label_votes", kernel, LabelBlock<Policy>::blocks(args.binned), kPixels, 0, args.stream, args);
}

}  // namespace
}  // namespace luxel
