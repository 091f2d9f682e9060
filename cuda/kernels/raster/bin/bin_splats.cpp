// CPU twin of bin_splats.cu: a radix sort by depth, then a stable counting sort by tile.
#include "abi/raster.h"
#include "math/convex_policy.h"
#include "math/surfels/policy.h"
#include "math/gaussian_policy.h"
#include "kernels/error.h"
#include "kernels/raster/stage.h"

#include <cstring>
#include <omp.h>

namespace luxel {
namespace {

// The bits of positive floats have the order of integers.
uint64_t depth_key(float depth) {
  uint32_t bits;
  std::memcpy(&bits, &depth, sizeof bits);
  return bits;
}
uint64_t depth_key(double depth) {
  uint64_t bits;
  std::memcpy(&bits, &depth, sizeof bits);
  return bits;
}

struct Entry {
  uint64_t key;
  int32_t index;
};

// Stable sort by depth; returns the buffer, a or b, that holds the result.
Entry* radix_sort(Entry* a, Entry* b, int64_t count) {
  for (int shift = 0; shift < 64; shift += 8) {
    int64_t starts[257] = {};
    for (int64_t i = 0; i < count; ++i) ++starts[((a[i].key >> shift) & 255) + 1];
    bool constant = false;
    for (int d = 0; d < 256; ++d) constant |= starts[d + 1] == count;
    if (constant) continue;
    for (int d = 0; d < 256; ++d) starts[d + 1] += starts[d];
    for (int64_t i = 0; i < count; ++i) b[starts[(a[i].key >> shift) & 255]++] = a[i];
    Entry* swap = a;
    a = b;
    b = swap;
  }
  return a;
}

int64_t rounded(int64_t bytes) { return (bytes + 255) / 256 * 256; }

// Policy<T>: of the primitive.
template <template <typename> class Policy, typename T> void bin(const luxel_bin_splats_args& args) {
  Entry* a = static_cast<Entry*>(args.workspace);
  Entry* b = a + args.visible_capacity;
  constexpr int kRow = Policy<T>::kRow;
  const T* splats = in<T>(args.splats);
  int64_t seen = 0;
  for (int64_t index = 0; index < static_cast<int64_t>(args.count) * args.cameras && seen < args.visible_capacity; ++index)
    if (args.tile_counts[index] > 0) a[seen++] = {depth_key(splats[kRow * index + 3]), static_cast<int32_t>(index)};
  const Entry* sorted = radix_sort(a, b, seen);

  const int tiles_x = tiles_along(args.width), tiles_y = tiles_along(args.height);
  const int64_t tiles = static_cast<int64_t>(tiles_x) * tiles_y;
  const int threads = smaller(omp_get_max_threads(), tiles_y);
  // Each thread owns a band of tile rows and visits all splats, so that no two threads write the same list.
  auto walk = [&](auto visit) {
#pragma omp parallel num_threads(threads)
    {
      const int parts = omp_get_num_threads(), part = omp_get_thread_num();
      const int first = static_cast<int>(static_cast<int64_t>(tiles_y) * part / parts);
      const int end = static_cast<int>(static_cast<int64_t>(tiles_y) * (part + 1) / parts);
      for (int64_t i = 0; i < seen; ++i) {
        const int32_t index = sorted[i].index;
        const int64_t base = index / args.count * tiles;
        const auto bounds = Policy<T>::Bounds::of(splats + kRow * static_cast<int64_t>(index));
        for_tile_rows(bounds, tiles_x, tiles_y, first, end, [&](int row, int column, int last) {
          visit(index, base + static_cast<int64_t>(row) * tiles_x, column, last);
        });
      }
    }
  };
  const int64_t all = tiles * args.cameras;
  std::memset(args.ranges, 0, sizeof(int32_t) * 2 * all);
  walk([&](int32_t, int64_t row, int column, int last) {
    for (; column < last; ++column) ++args.ranges[2 * (row + column) + 1];
  });
  int64_t next = 0;
  for (int64_t tile = 0; tile < all; ++tile) {
    const int64_t length = args.ranges[2 * tile + 1];
    if (next + length > args.capacity) args.overflow[0] = 1;
    args.ranges[2 * tile] = args.ranges[2 * tile + 1] = static_cast<int32_t>(smaller(next, args.capacity));
    next += length;
  }
  walk([&](int32_t index, int64_t row, int column, int last) {
    for (; column < last; ++column) {
      int32_t& end = args.ranges[2 * (row + column) + 1];
      if (end < args.capacity) args.instances[end++] = index;
    }
  });
}

template <template <typename> class Policy> void bin(const luxel_bin_splats_args& args) {
  args.dtype ? bin<Policy, double>(args) : bin<Policy, float>(args);
}

}  // namespace
}  // namespace luxel

extern "C" {

int64_t luxel_bin_splats_workspace(const luxel_bin_splats_args* args) {
  return luxel::rounded(2 * args->visible_capacity * static_cast<int64_t>(sizeof(luxel::Entry))) + 256;
}

int luxel_bin_splats(const luxel_bin_splats_args* args) {
  if (args->workspace_bytes < luxel_bin_splats_workspace(args)) return luxel::fail("workspace too small");
  if (args->capacity > INT32_MAX) return luxel::fail("more than 2^31 tile instances");
  args->overflow[0] = 0;
  switch (args->primitive) {
    case LUXEL_GAUSSIANS: luxel::bin<luxel::GaussianPolicy>(*args); return 0;
    case LUXEL_CONVEXES: luxel::bin<luxel::ConvexPolicy>(*args); return 0;
    case LUXEL_SURFELS: luxel::bin<luxel::SurfelPolicy>(*args); return 0;
    default: return luxel::fail("%d is no primitive", args->primitive);
  }
}
}
