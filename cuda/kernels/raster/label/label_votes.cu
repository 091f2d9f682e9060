// label_votes on the GPU: the lanes of a warp are grouped by label once; a splat's weights are summed over each group, then over
// the tile in shared memory, and added to the table once per tile and label. Integers throughout: the same bits in any order.
#include "math/convex_policy.h"
#include "math/gaussian_policy.h"
#include "kernels/raster/label/label_walk.cuh"

namespace luxel {
namespace {

// Labels of a tile, the lowest ones, whose sums are gathered in shared memory; each warp adds further ones to the table itself.
constexpr int kTileLabels = 8;

template <typename Policy> struct VoteShared {
  LabelShared<Policy> walk;
  uint32_t sums[kTileLabels][Policy::kPiece];  // of 256 weights below 1 in units of 2^-24: no overflow
  LabelSet labels;
  int label_of[kTileLabels];
};

// The lanes of a warp whose pixels have the same label.
struct LabelGroup {
  int label;
  unsigned peers, leaders;  // lanes of the same label; the first lane of each label
  bool leads, inside;       // inside: any pixel of the warp lies in the image

  // Lanes outside of the image join the first one inside, so that most warps have one label.
  __device__ __forceinline__ LabelGroup(const luxel_label_votes_args& args, const Place<1>& at) {
    const int given = at.inside(0) ? args.maps[at.pixel] : kNoLabel, own = given < args.labels ? given : kNoLabel;
    const unsigned present = __ballot_sync(kAll, at.inside(0));
    inside = present != 0;
    const int first = __shfl_sync(kAll, own, inside ? __ffs(present) - 1 : 0);
    label = at.inside(0) ? own : first;
    peers = __match_any_sync(kAll, label);
    leads = at.lane == __ffs(peers) - 1;
    leaders = __ballot_sync(kAll, leads);
  }
  // The sum over the lanes of this label.
  __device__ __forceinline__ uint32_t sum(uint32_t value) const {
#if __CUDA_ARCH__ >= 800
    return peers == kAll ? __reduce_add_sync(kAll, value) : __reduce_add_sync(peers, value);
#else
    uint32_t own = 0;
    for (unsigned rest = leaders; rest != 0; rest &= rest - 1) {
      const int other = __shfl_sync(kAll, label, __ffs(rest) - 1);
      uint32_t total = label == other ? value : 0u;
      for (int bit = 16; bit >= 1; bit /= 2) total += __shfl_xor_sync(kAll, total, bit);
      own = label == other ? total : own;
    }
    return own;
#endif
  }
};

template <typename Policy, bool kCentre> struct VoteVisitor {
  static constexpr bool kFlushes = true;
  const luxel_label_votes_args& args;
  VoteShared<Policy>& shared;
  const LabelGroup& group;
  int32_t first;  // id of the camera's first splat
  float px, py;
  int column, columns;  // of the pixel's label among those of the tile; their number

  __device__ __forceinline__ int32_t tag(int32_t id) const { return id - first; }
  __device__ __forceinline__ unsigned reach(const float* row, int x0, int y0) const {
    unsigned mask = 0;
    if constexpr (kCentre) {
#pragma unroll
      for (int w = 0; w < Shape<1>::kWarps; ++w) {
        const float left = static_cast<float>(x0 + w % Shape<1>::kSubtilesX * 8) + 0.5f - kCentreRadius;
        const float top = static_cast<float>(y0 + w / Shape<1>::kSubtilesX * 4) + 0.5f - kCentreRadius;
        const bool near = row[0] >= left && row[0] <= left + 7.0f + 2.0f * kCentreRadius && row[1] >= top &&
                          row[1] <= top + 3.0f + 2.0f * kCentreRadius;
        mask |= near ? 1u << w : 0u;
      }
    }
    return mask;
  }
  __device__ __forceinline__ void visit(int slot, const LabelEntry<Policy>& entry, float weight, float before) const {
    uint32_t value;
    if (kCentre) {
      const float dx = px - entry.splat.x, dy = py - entry.splat.y;
      const bool votes = dx * dx + dy * dy <= kCentreRadius * kCentreRadius && before > kCentreTransmittance;
      value = votes ? 1u << kVoteBits : 0u;
    } else {
      value = __float2uint_rn(weight * static_cast<float>(1 << kVoteBits));
    }
    const uint32_t sum = group.sum(value);
    if (!group.leads || sum == 0) return;
    if (column < kTileLabels)
      atomicAdd(&shared.sums[column][slot], sum);
    else
      add_votes(args, entry.tag, group.label, sum);
  }
  __device__ __forceinline__ void flush(int32_t id) const {
    if (id < 0) return;
#pragma unroll
    for (int k = 0; k < kTileLabels; ++k) {
      if (k >= columns) break;
      const uint32_t sum = shared.sums[k][threadIdx.x];
      if (sum == 0) continue;
      add_votes(args, id - first, shared.label_of[k], sum);
      shared.sums[k][threadIdx.x] = 0;
    }
  }
};

template <typename Policy, bool kCentre>
__global__ void __launch_bounds__(kPixels, label_blocks<Policy>())
    label_votes_kernel(const luxel_blend_args walk, const luxel_label_votes_args args) {
  static_assert(kPixels == 256);
  __shared__ VoteShared<Policy> shared;
  const int tile = walk.plan[blockIdx.x];  // long lists first
  if (walk.ranges[2 * tile] >= walk.ranges[2 * tile + 1]) return;
  const Place<1> at(walk, tile);
  const LabelGroup group(args, at);
  for (int k = threadIdx.x; k < kTileLabels * Policy::kPiece; k += kPixels) shared.sums[k / Policy::kPiece][k % Policy::kPiece] = 0;
  if (threadIdx.x < 8) shared.labels.words[threadIdx.x] = 0;
  __syncthreads();
  if (group.inside && group.leads) shared.labels.insert(group.label);
  __syncthreads();
  const int column = shared.labels.below(group.label), columns = min(shared.labels.below(256), kTileLabels);
  const int own = static_cast<int>(threadIdx.x), place = shared.labels.below(own);  // a thread per label
  if (shared.labels.has(own) && place < kTileLabels) shared.label_of[place] = own;
  VoteVisitor<Policy, kCentre> visitor = {args,
                                          shared,
                                          group,
                                          at.camera * args.count,
                                          static_cast<float>(at.x) + 0.5f,
                                          static_cast<float>(at.y) + 0.5f,
                                          column,
                                          columns};
  walk_list<Policy>(walk, shared.walk, at, tile, visitor);
}

template <typename Policy> int vote(const luxel_label_votes_args& args) {
  const luxel_blend_args walk = walk_args(args);
  const auto kernel = args.centre_rule ? label_votes_kernel<Policy, true> : label_votes_kernel<Policy, false>;
  return launch("label_votes", kernel, static_cast<unsigned>(tiles_of(walk)), kPixels, 0, args.stream, walk, args);
}

}  // namespace
}  // namespace luxel

extern "C" int luxel_label_votes(const luxel_label_votes_args* args) {
  using namespace luxel;
  if (args->dtype != 0) return fail("the GPU kernels take float32");
  if (args->fine) return fail("fine sums are for the CPU only");
  LUXEL_CUDA(cudaSetDevice(args->device));
  if (args->primitive == LUXEL_GAUSSIANS) return vote<GaussianPolicy<float>>(*args);
  if (args->primitive == LUXEL_CONVEXES) return vote<ConvexPolicy<float>>(*args);
  return fail("primitive %d has no policy", args->primitive);
}
