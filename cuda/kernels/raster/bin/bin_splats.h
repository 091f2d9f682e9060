// bin_splats on the CPU: a radix sort by depth, then a stable counting sort by tile. Twin of bin_splats.cu.
#pragma once

#include "abi/raster.h"
#include "math/raster/policy.h"
#include "kernels/error.h"
#include "kernels/raster/stage.h"

#include <cstring>
#include <omp.h>
#include <vector>

namespace luxel {

struct SortedSplats;  // of the GPU

namespace {

// The bits of positive floats have the order of integers.
inline uint32_t depth_key(float depth) {
  uint32_t bits;
  std::memcpy(&bits, &depth, sizeof bits);
  return bits;
}
inline uint64_t depth_key(double depth) {
  uint64_t bits;
  std::memcpy(&bits, &depth, sizeof bits);
  return bits;
}

template <typename Key> struct Entry {
  Key key;
  int32_t index;
};

// Stable sort by depth; returns the buffer, a or b, that holds the result.
template <typename Key> Entry<Key>* radix_sort(Entry<Key>* a, Entry<Key>* b, int64_t count) {
  constexpr int kDigits = sizeof(Key);
  int64_t starts[kDigits][257] = {};
  for (int64_t i = 0; i < count; ++i)
    for (int digit = 0; digit < kDigits; ++digit) ++starts[digit][((a[i].key >> (8 * digit)) & 255) + 1];
  for (int digit = 0; digit < kDigits; ++digit) {
    int64_t* const start = starts[digit];
    bool constant = false;
    for (int d = 0; d < 256; ++d) constant |= start[d + 1] == count;
    if (constant) continue;
    for (int d = 0; d < 256; ++d) start[d + 1] += start[d];
    for (int64_t i = 0; i < count; ++i) b[start[(a[i].key >> (8 * digit)) & 255]++] = a[i];
    Entry<Key>* swap = a;
    a = b;
    b = swap;
  }
  return a;
}

// The instances of one thread's splats: tile and splat of its instances, front to back, and how many there are in each tile.
struct Part {
  struct Instance {
    int32_t tile, index;
  };
  std::vector<Instance> instances;
  std::vector<int32_t> of_tile;  // then: where in the result the next one of the tile goes
};

// Policy<T>: of the primitive.
template <template <typename> class Policy, typename T> void bin(const luxel_bin_splats_args& args) {
  using Sorted = Entry<decltype(depth_key(T()))>;
  auto* const a = static_cast<Sorted*>(args.workspace);
  constexpr int kRow = Policy<T>::kRow;
  const T* splats = in<T>(args.splats);
  int64_t seen = 0;
  for (int64_t index = 0; index < static_cast<int64_t>(args.count) * args.cameras && seen < args.visible_capacity; ++index)
    if (args.tile_counts[index] > 0) a[seen++] = {depth_key(splats[kRow * index + 3]), static_cast<int32_t>(index)};
  const Sorted* sorted = radix_sort(a, a + args.visible_capacity, seen);

  const int tiles_x = tiles_along(args.width), tiles_y = tiles_along(args.height);
  const int64_t tiles = static_cast<int64_t>(tiles_x) * tiles_y, all = tiles * args.cameras;
  // Each thread takes a run of the sorted splats, one after the other, so that a tile's list is its parts in their order.
  const int threads = static_cast<int>(smaller<int64_t>(omp_get_max_threads(), seen / 256 + 1));
  std::vector<Part> parts(threads);
#pragma omp parallel for schedule(static, 1) num_threads(threads)
  for (int part = 0; part < threads; ++part) {
    const int64_t first = seen * part / threads, end = seen * (part + 1) / threads;
    Part& mine = parts[part];
    mine.instances.reserve(static_cast<size_t>(args.capacity / threads + 64));
    mine.of_tile.assign(static_cast<size_t>(all), 0);
    for (int64_t i = first; i < end; ++i) {
      const int32_t index = sorted[i].index;
      const int64_t base = index / args.count * tiles;
      const auto bounds = Policy<T>::Bounds::of(splats + kRow * static_cast<int64_t>(index));
      for_tile_rows(bounds, tiles_x, tiles_y, 0, tiles_y, [&](int row, int column, int last) {
        for (; column < last; ++column) {
          const auto tile = static_cast<int32_t>(base + static_cast<int64_t>(row) * tiles_x + column);
          ++mine.of_tile[tile];
          mine.instances.push_back({tile, index});
        }
      });
    }
  }
  int64_t next = 0;
  for (int64_t tile = 0; tile < all; ++tile) {
    args.ranges[2 * tile] = static_cast<int32_t>(smaller(next, args.capacity));
    for (Part& mine : parts) {
      const int32_t length = mine.of_tile[tile];
      mine.of_tile[tile] = static_cast<int32_t>(smaller(next, args.capacity));
      next += length;
    }
    if (next > args.capacity) args.overflow[0] = 1;
    args.ranges[2 * tile + 1] = static_cast<int32_t>(smaller(next, args.capacity));
  }
#pragma omp parallel for schedule(static, 1) num_threads(threads)
  for (int part = 0; part < threads; ++part)
    for (const Part::Instance& instance : parts[part].instances) {
      int32_t& at = parts[part].of_tile[instance.tile];
      if (at < args.capacity) args.instances[at++] = instance.index;
    }
}

inline int64_t bin_workspace(const luxel_bin_splats_args& args) {
  const int64_t bytes = 2 * args.visible_capacity * static_cast<int64_t>(sizeof(Entry<uint64_t>));
  return (bytes + 255) / 256 * 256 + 256;
}

template <template <typename> class Policy> int bin_splats(const luxel_bin_splats_args& args, const SortedSplats*) {
  if (args.workspace_bytes < bin_workspace(args)) return fail("workspace too small");
  if (args.capacity > INT32_MAX) return fail("more than 2^31 tile instances");
  args.overflow[0] = 0;
  args.dtype ? bin<Policy, double>(args) : bin<Policy, float>(args);
  return 0;
}

}  // namespace
}  // namespace luxel
