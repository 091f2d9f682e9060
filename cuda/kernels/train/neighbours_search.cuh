// The search of neighbours on the GPU: a warp walks the tree of boxes for the 32 points of a leaf at once.
#pragma once

#include "device/launch.cuh"
#include "kernels/train/neighbours.h"

namespace luxel {
namespace {

constexpr int kThreads = 128;
constexpr int kRun = 32;        // points of a leaf, children of a node: a lane for each
constexpr int kMaxLevels = 7;  // of the tree, leaves included: enough for 2^31 points

using Key = uint64_t;
constexpr Key kNone = ~Key(0);

struct Places {
  Key *keys, *sorted_keys;
  int32_t *indices, *order;  // of points: as given, along the curve
  Place<float>* places;      // along the curve
  Box<float>* boxes;         // of all levels
  int32_t starts[kMaxLevels + 1];  // of each level among the boxes
  int levels;
  float2* ranges;  // of each axis
  int32_t* valid;  // [1] points that count
  void* sort;
  size_t sort_bytes;
  int64_t bytes;
};

// The K nearest so far of a lane's point, in order: the bits of the squared distance, and the index below them.
template <int K> struct Nearest {
  Key keys[K];

  __device__ __forceinline__ void offer(Key key) {
    if (key >= keys[K - 1]) return;
#pragma unroll
    for (int j = 0; j < K; ++j) {
      const bool before = key < keys[j];
      const Key later = before ? keys[j] : key;
      keys[j] = before ? key : keys[j];
      key = later;
    }
  }
  __device__ __forceinline__ bool reaches(float square_distance) const {
    return __float_as_uint(square_distance) <= static_cast<uint32_t>(keys[K - 1] >> 32);
  }
};

// The search of a warp, for the points of one leaf.
template <int K> struct Search {
  const Places& p;
  Box<float> box;  // around all its points
  Place<float> place;
  int32_t own;
  bool active;   // this lane has a point
  int32_t end;  // of the points that count
  Nearest<K> nearest;

  __device__ __forceinline__ bool may_improve(const Box<float>& other) const {
    const Box<float> point = {place, place};
    return __any_sync(~0u, active && !other.empty() && nearest.reaches(square_distance(point, other)));
  }

  __device__ __forceinline__ void visit_leaf(int leaf) {
    const int first = leaf * kRun, last = min(first + kRun, end);
    for (int i = first; i < last; ++i) {
      const int32_t index = p.order[i];
      const float distance = square_distance(place, p.places[i]);
      if (index != own) nearest.offer(static_cast<Key>(__float_as_uint(distance)) << 32 | static_cast<uint32_t>(index));
    }
  }

  // Which children of a node any point of the warp can reach, judged by the box around them all.
  __device__ __forceinline__ uint32_t near_children(int level, int node) const {
    const int child = node * kRun + (threadIdx.x & 31);
    uint32_t farthest = active ? static_cast<uint32_t>(nearest.keys[K - 1] >> 32) : 0u;
    for (int offset = 16; offset > 0; offset >>= 1) farthest = max(farthest, __shfl_xor_sync(~0u, farthest, offset));
    bool near = false;
    if (child < p.starts[level + 1] - p.starts[level]) {
      const Box<float> other = p.boxes[p.starts[level] + child];
      near = !other.empty() && __float_as_uint(square_distance(box, other)) <= farthest;
    }
    return __ballot_sync(~0u, near);
  }

  // Visits everything below a node of the level above `top` except one child, which has been searched. Lane l stores the mask of
  // children that remain to be visited at level l.
  __device__ __forceinline__ void visit_children(int top, int node, int searched) {
    const int lane = threadIdx.x & 31;
    uint32_t left = near_children(top, node) & ~(1u << (searched % kRun));
    int level = top;
    while (true) {
      const uint32_t mask = __shfl_sync(~0u, left, level);
      if (mask == 0) {
        if (level == top) return;
        ++level;
        node /= kRun;
        continue;
      }
      if (lane == level) left = mask & (mask - 1);
      const int child = node * kRun + __ffs(mask) - 1;
      if (!may_improve(p.boxes[p.starts[level] + child])) continue;
      if (level == 0) {
        visit_leaf(child);
        continue;
      }
      --level;
      node = child;
      const uint32_t children = near_children(level, node);
      if (lane == level) left = children;
    }
  }
};

template <int K>
__global__ void __launch_bounds__(kThreads) search_kernel(const luxel_neighbours_args args, const __grid_constant__ Places p) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if ((i & ~31) >= args.count) return;
  const int32_t valid = *p.valid;
  const bool active = i < valid;
  Search<K> search = {p, {}, {}, -1, active, valid, {}};
#pragma unroll
  for (int j = 0; j < K; ++j) search.nearest.keys[j] = kNone;
  if (i < args.count) search.own = p.order[i];
  if (active) search.place = p.places[i];
  if (__any_sync(~0u, active)) {
    int node = i / kRun;
    search.box = p.boxes[node];
    search.visit_leaf(node);
    for (int level = 0; level + 1 < p.levels; ++level) {
      search.visit_children(level, node / kRun, node);
      node /= kRun;
    }
  }
  if (i >= args.count) return;
  int32_t* row = args.neighbours + static_cast<int64_t>(search.own) * args.k;
#pragma unroll
  for (int j = 0; j < K; ++j)
    if (j < args.k) row[j] = active && search.nearest.keys[j] != kNone ? static_cast<int32_t>(search.nearest.keys[j]) : search.own;
}

}  // namespace
}  // namespace luxel
