// The walk of the label stages over the list of one tile on the GPU, for any policy: a block per tile, a thread per pixel,
// transmittance as in blending (blend_gather.cuh), no values and no states. Twin of label_tile.h.
#pragma once

#include "device/launch.cuh"
#include "kernels/raster/blend/blend_fwd.cuh"
#include "kernels/raster/blend/blend_fwd_long.cuh"
#include "kernels/raster/blend/multi_edge.cuh"
#include "kernels/raster/label/vote_table.h"

namespace luxel {
namespace {

// Tunables: splats whose alpha is computed before they are visited one by one, and resident blocks per multiprocessor.
template <typename Policy> constexpr int label_ahead() { return Policy::kMultiEdge ? 2 : 8; }
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
template <typename Policy> constexpr int label_blocks() { return 2; }  // Turing supports fewer resident threads
#else
template <typename Policy> constexpr int label_blocks() { return Policy::kMultiEdge ? 3 : 4; }
#endif

template <typename Policy> struct alignas(16) LabelEntry {
  typename Policy::Packed splat;
  int32_t tag;  // from the visitor
};

template <typename Policy> struct LabelShared {
  static constexpr int kCount = Policy::kPiece;  // splats of a batch
  LabelEntry<Policy> entries[kCount + 1];        // the last one contributes to no pixel
  uint16_t lists[Shape<1>::kWarps][kCount + label_ahead<Policy>()];
  uint8_t subtiles[kCount];  // bit w: the splat may reach the pixels of warp w
};

// The uncapped alpha of a splat at a pixel; 0 where it does not contribute.
template <typename Policy> __device__ __forceinline__ float alpha_at(const LabelEntry<Policy>& entry, float px, float py) {
  if constexpr (Policy::kMultiEdge) {
    float alpha = 0.0f;
    for_edges(edge_class(entry.splat.edges), [&](auto known) {
      const typename Policy::Packed splat = held(entry.splat);
      const typename Policy::template Column<edges_of_class<decltype(known)::value>()> column(splat, px);
      alpha = column.look(splat, py - splat.y);
    });
    return alpha >= kMinAlpha ? alpha : 0.0f;
  } else {
    const typename Policy::Packed splat = entry.splat;
    const auto coverage = Policy::look(splat, px, py - splat.y);
    return coverage.hits(splat.highest()) ? coverage.alpha() : 0.0f;
  }
}

template <typename Policy> __device__ __forceinline__ void fetch_row(const luxel_binned_splats& binned, float* row, int32_t id) {
  if (id < 0) return;
  const float4* fours = reinterpret_cast<const float4*>(in<float>(binned.splats) + Policy::kRow * static_cast<int64_t>(id));
#pragma unroll
  for (int i = 0; i < Policy::kRow / 4; ++i) {
    const float4 four = fours[i];
    row[4 * i] = four.x;
    row[4 * i + 1] = four.y;
    row[4 * i + 2] = four.z;
    row[4 * i + 3] = four.w;
  }
}

// Lists the slots of a batch whose splats may reach the pixels of a warp, in order, then a few times the last entry; returns
// their number.
template <typename Policy> __device__ __forceinline__ int list_slots(LabelShared<Policy>& shared, int warp, int lane) {
  constexpr int kCount = LabelShared<Policy>::kCount;
  uint16_t* list = shared.lists[warp];
  int count = 0;
#pragma unroll
  for (int group = 0; group < kCount; group += 32) {
    const bool mine = shared.subtiles[group + lane] >> warp & 1;
    const unsigned bits = __ballot_sync(kAll, mine);
    if (mine) list[count + __popc(bits & ((1u << lane) - 1))] = static_cast<uint16_t>(group + lane);
    count += __popc(bits);
  }
  if (lane < label_ahead<Policy>()) list[count + lane] = static_cast<uint16_t>(kCount);
  __syncwarp();
  return count;
}

// Visits the splats of a tile front to back; returns T_end of the thread's pixel. All threads of the block call it, after a
// barrier if the shared memory was in use. Visitor:
//   int32_t tag(int32_t id)                          what the entry of a splat carries
//   unsigned reach(const float* row, int x0, int y0) subtiles to visit besides those that the splat reaches
//   void visit(int turn, int slot, const LabelEntry<Policy>& entry, float weight, float before)
//                                                    T alpha of the pixel, or 0, and T before; by all lanes of a warp together.
//                                                    turn: 0 to 31, of the visits since the last commit
//   static constexpr bool kCommits; void commit(int slot)
//                                                    after up to 32 visits; slot: of the visit whose turn was the lane's number, or
//                                                    that of the last entry
//   static constexpr bool kFlushes; void flush(int32_t id)
//                                                    after each batch; id: of the splat in the slot of the thread's number, or -1
template <typename Policy, typename Visitor>
__device__ __forceinline__ float walk_list(const luxel_binned_splats& binned, LabelShared<Policy>& shared, const Place<1>& at, int tile,
                                           Visitor& visitor) {
  constexpr int kCount = LabelShared<Policy>::kCount, kAhead = label_ahead<Policy>();
  constexpr bool kEarly = !Policy::kMultiEdge;  // a row is fetched while the batch before is visited
  static_assert(kCount <= Shape<1>::kThreads, "a thread loads a splat of each batch");
  static_assert(32 % kAhead == 0);
  const int32_t begin = binned.ranges[2 * tile], end = binned.ranges[2 * tile + 1];
  const float px = static_cast<float>(at.x) + 0.5f, py = static_cast<float>(at.y) + 0.5f;
  const int slot = static_cast<int>(threadIdx.x);
  float transmittance = at.inside(0) ? 1.0f : -1.0f;  // negative once the pixel has ended
  if (slot == 0) {
    LabelEntry<Policy> none = {Policy::null_splat(), -1};
    none.splat.x = none.splat.y = -1e9f;  // far from every pixel
    shared.entries[kCount] = none;
  }
  int32_t next;
  float row[Policy::kRow];
  const auto fetch = [&](int32_t start) {
    next = slot < kCount && start + slot < end ? binned.instances[start + slot] : -1;
    if (kEarly) fetch_row<Policy>(binned, row, next);
  };
  fetch(begin);
  for (int32_t start = begin; start < end; start += kCount) {
    if (!__syncthreads_or(transmittance > 0.0f)) break;
    const int32_t id = next;
    if (!kEarly) fetch_row<Policy>(binned, row, id);
    if (slot < kCount) {
      unsigned mask = 0;
      if (id >= 0) {
        mask = reachable_subtiles<Shape<1>>(Policy::Bounds::of(row), static_cast<float>(at.x0), static_cast<float>(at.y0)) |
               visitor.reach(row, at.x0, at.y0);
        shared.entries[slot] = {Policy::pack(row), visitor.tag(id)};
      }
      shared.subtiles[slot] = static_cast<uint8_t>(mask);
    }
    __syncthreads();
    fetch(start + kCount);  // completes while this batch is visited
    const int count = list_slots(shared, at.warp, at.lane);
    const uint16_t* list = shared.lists[at.warp];
    for (int k = 0; k < count; k += kAhead) {
      if (k % 32 == 0 && !__any_sync(kAll, transmittance > 0.0f)) break;
      int place[kAhead];
      float alpha[kAhead];
#pragma unroll
      for (int u = 0; u < kAhead; ++u) {
        place[u] = list[k + u];
        alpha[u] = fminf(binned.max_alpha, alpha_at<Policy>(shared.entries[place[u]], px, py));
      }
#pragma unroll
      for (int u = 0; u < kAhead; ++u) {
        const float before = transmittance, after = fmaf(-alpha[u], before, before);
        const bool hit = alpha[u] > 0.0f, counts = hit && after > kMinTransmittance;
        transmittance = counts ? after : (hit ? -fabsf(before) : before);
        visitor.visit((k + u) % 32, place[u], shared.entries[place[u]], counts ? alpha[u] * before : 0.0f, before);
      }
      if (Visitor::kCommits && ((k + kAhead) % 32 == 0 || k + kAhead >= count)) {
        const int own = k / 32 * 32 + at.lane;
        visitor.commit(own < count ? list[own] : kCount);
      }
    }
    if (Visitor::kFlushes) {
      __syncthreads();
      visitor.flush(id);
    }
  }
  return fabsf(transmittance);
}

// The same for the longest lists of simple policies, as in blend_fwd_long.cuh: eight lanes share a pixel, each takes every eighth
// splat, and a scan over the lanes gives each its transmittance. Several blocks share a tile.
template <typename Policy> struct LabelLongShared {
  LabelEntry<Policy> entries[Policy::kPiece + kLongLanes];  // those that can reach the block's pixels, then some that cannot
  unsigned reaching[Policy::kPiece / 32];
};

// The position of a thread in a block's part of a tile.
struct LongPlace {
  using Shape = LongShape<1>;
  static constexpr int kPixels = Shape::kW * Shape::kH;  // of the block
  int camera, x0, y0, x, y, lane, sub, mine;  // sub: number among the lanes of its pixel; mine: number of the pixel in the block
  int64_t pixel;
  bool inside;

  __device__ LongPlace(const luxel_binned_splats& binned, int tile, int part) {
    const Place<1> of_tile(binned, tile);
    camera = of_tile.camera;
    x0 = of_tile.x0 + part % (LUXEL_TILE / Shape::kW) * Shape::kW;
    y0 = of_tile.y0 + part / (LUXEL_TILE / Shape::kW) * Shape::kH;
    lane = threadIdx.x & 31;
    sub = threadIdx.x % kLongLanes;
    mine = threadIdx.x / kLongLanes;
    x = x0 + mine % Shape::kW;
    y = y0 + mine / Shape::kW;
    inside = x < binned.width && y < binned.height;
    pixel = (static_cast<int64_t>(camera) * binned.height + y) * binned.width + x;
  }
};

// Visits the splats of a block's part of a tile; returns T_end of the lane's pixel. Visitor, besides tag():
//   bool reaches(const float* row, int x0, int y0)   whether to visit a splat that does not reach the block's pixels
//   void visit(int place, const LabelEntry<Policy>& entry, float weight, float before)
//                                                    of the lane's pixel and splat; by all lanes of a warp together
//   static constexpr bool kFlushes; void flush(int count)
//                                                    after each batch: the number of places
template <typename Policy, typename Visitor>
__device__ __forceinline__ float walk_long_list(const luxel_binned_splats& binned, LabelLongShared<Policy>& shared, const LongPlace& at,
                                                int tile, Visitor& visitor) {
  constexpr int kCount = Policy::kPiece, kThreads = LongShape<1>::kThreads, kW = LongShape<1>::kW, kH = LongShape<1>::kH;
  static_assert(kCount <= kThreads, "a thread loads a splat of each batch");
  const int32_t begin = binned.ranges[2 * tile], end = binned.ranges[2 * tile + 1];
  const float px = static_cast<float>(at.x) + 0.5f, py = static_cast<float>(at.y) + 0.5f;
  const float first = static_cast<float>(at.x0) + 0.5f, top = static_cast<float>(at.y0) + 0.5f;
  const int slot = static_cast<int>(threadIdx.x);
  float transmittance = at.inside ? 1.0f : -1.0f;  // the same in all lanes of the pixel; negative once it has ended
  int32_t id;
  float row[Policy::kRow];
  const auto fetch = [&](int32_t start) {
    id = slot < kCount && start + slot < end ? binned.instances[start + slot] : -1;
    fetch_row<Policy>(binned, row, id);
  };
  fetch(begin);
  for (int32_t start = begin; start < end; start += kCount) {
    if (!__syncthreads_or(transmittance > 0.0f)) break;
    float left, right;
    const bool reaches = id >= 0 && ((Policy::Bounds::of(row).band(top, top + (kH - 1), left, right) && right >= first &&
                                      left <= first + (kW - 1)) ||
                                     visitor.reaches(row, at.x0, at.y0));
    const unsigned bits = __ballot_sync(kAll, reaches);
    if (at.lane == 0 && slot < kCount) shared.reaching[slot / 32] = bits;
    __syncthreads();
    int count = 0, before_mine = 0;
#pragma unroll
    for (int word = 0; word < kCount / 32; ++word) {
      if (word == slot / 32) before_mine = count;
      count += __popc(shared.reaching[word]);
    }
    if (reaches) shared.entries[before_mine + __popc(bits & ((1u << at.lane) - 1))] = {Policy::pack(row), visitor.tag(id)};
    if (slot < kLongLanes) {
      LabelEntry<Policy> none = {Policy::null_splat(), -1};
      none.splat.x = none.splat.y = -1e9f;  // far from every pixel
      shared.entries[count + slot] = none;
    }
    __syncthreads();
    fetch(start + kCount);  // completes while this batch is visited
    for (int k = at.sub; k < count + at.sub; k += kLongLanes) {
      const LabelEntry<Policy>& entry = shared.entries[k];
      const float alpha = fminf(binned.max_alpha, alpha_at<Policy>(entry, px, py));
      const bool hit = alpha > 0.0f;
      float kept = 1.0f - alpha;  // of this splat and those before it in the group
#pragma unroll
      for (int step = 1; step < kLongLanes; step *= 2) {
        const float nearer = __shfl_up_sync(kAll, kept, step, kLongLanes);
        if (at.sub >= step) kept *= nearer;
      }
      const float nearer = __shfl_up_sync(kAll, kept, 1, kLongLanes);
      const float before = at.sub == 0 ? transmittance : transmittance * nearer, after = transmittance * kept;
      const bool counts = hit && after > kMinTransmittance;
      visitor.visit(k, entry, counts ? alpha * before : 0.0f, before);
      const float all_after = __shfl_sync(kAll, after, kLongLanes - 1, kLongLanes);
      const bool ends = transmittance > 0.0f && !(all_after > kMinTransmittance);
      if (__any_sync(kAll, ends)) {  // T stays at its value before the first splat that would exceed the limit
        const unsigned group = __ballot_sync(kAll, hit && !counts) >> (at.lane & ~(kLongLanes - 1)) & ((1u << kLongLanes) - 1);
        const float t_end = __shfl_sync(kAll, before, group != 0 ? __ffs(group) - 1 : 0, kLongLanes);
        transmittance = ends ? -t_end : (transmittance > 0.0f ? all_after : transmittance);
        if (!__any_sync(kAll, transmittance > 0.0f)) break;
      } else {
        transmittance = transmittance > 0.0f ? all_after : transmittance;
      }
    }
    if (Visitor::kFlushes) {
      __syncthreads();
      visitor.flush(count);
    }
  }
  return fabsf(transmittance);
}

// Assigns tiles to blocks: the first blocks share the longest lists, the others have a tile each. As in blend_fwd.cuh with
// `deterministic`: the choice of long lists does not depend on the order in which they were counted.
template <typename Policy> struct LabelBlock {
  static constexpr int kParts = Policy::kMultiEdge ? 1 : LongShape<1>::kBlocks;
  int tile = -1, part = 0;  // tile -1: nothing to do
  bool is_long = false;

  __device__ explicit LabelBlock(const luxel_binned_splats& binned) {
    const int tiles = tiles_of(binned), block = static_cast<int>(blockIdx.x);
    const int counted = kParts == 1 ? 0 : binned.plan[4 * static_cast<int64_t>(tiles) + 2 * (binned.capacity / Policy::kPiece)];
    const int long_tiles = counted > max_long_tiles(binned) ? 0 : max(0, counted);
    is_long = block < long_tiles * kParts;
    part = is_long ? block % kParts : 0;
    const int place = is_long ? block / kParts : long_tiles + block - long_tiles * kParts;
    if (place < tiles) tile = binned.plan[place];
  }
  static unsigned blocks(const luxel_binned_splats& binned) {
    return static_cast<unsigned>(tiles_of(binned) + (kParts - 1) * max_long_tiles(binned));
  }
};

// A set of labels in shared memory.
struct LabelSet {
  uint32_t words[8];

  __device__ __forceinline__ void insert(int label) { atomicOr(&words[label >> 5], 1u << (label & 31)); }
  __device__ __forceinline__ bool has(int label) const { return words[label >> 5] >> (label & 31) & 1; }
  // How many labels are below one.
  __device__ __forceinline__ int below(int label) const {
    int count = 0;
#pragma unroll
    for (int w = 0; w < 8; ++w) {
      const uint32_t bits = 32 * (w + 1) <= label ? ~0u : (32 * w >= label ? 0u : (1u << (label & 31)) - 1);
      count += __popc(words[w] & bits);
    }
    return count;
  }
};

}  // namespace
}  // namespace luxel
