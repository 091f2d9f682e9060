// label_votes on the CPU: a task per tile. Twin of label_votes.cuh.
//
// The weights of a (tile, splat, label) are summed in a fixed order, then added to the table in fixed point: so the result has
// the same bits whatever the number of threads.
#pragma once

#include "kernels/error.h"
#include "kernels/raster/label/label_tile.h"
#include "kernels/raster/label/vote_table.h"

namespace luxel {
namespace {

// The labels of a tile's pixels, numbered in the order in which they appear; and, for each vector of pixels, which of them it has.
template <typename T> struct TileLabels {
  static constexpr int W = kLanes<T>, kVectors = kPixels / W;
  int count = 0;
  int label[kPixels];            // of a number; kNoLabel: no vote
  uint8_t number[kPixels];       // of each pixel; of those outside of the image any
  int16_t first[kVectors + 1];   // of each vector in the two below
  uint8_t shared_by[kPixels];    // number of a label in the vector
  alignas(64) T share[kPixels][W];  // 1 for its pixels, 0 for others

  TileLabels(const luxel_label_votes_args& args, const Tile<T>& tile) {
    int16_t number_of[256];
    for (int16_t& n : number_of) n = -1;
    for (int p = 0; p < kPixels; ++p) {
      const int row = p / kSide, column = p % kSide;
      number[p] = p > 0 ? number[p - 1] : 0;
      if (row >= tile.rows || column >= tile.columns) continue;
      const int given = args.maps[tile.pixel(args.binned, row) + column], known = given < args.labels ? given : kNoLabel;
      if (number_of[known] < 0) {
        number_of[known] = static_cast<int16_t>(count);
        label[count++] = known;
      }
      number[p] = static_cast<uint8_t>(number_of[known]);
    }
    int entries = 0;
    for (int v = 0; v < kVectors; ++v) {
      first[v] = static_cast<int16_t>(entries);
      for (int lane = 0; lane < W; ++lane) {
        const uint8_t own = number[v * W + lane];
        int entry = first[v];
        while (entry < entries && shared_by[entry] != own) ++entry;
        if (entry == entries) {
          shared_by[entries] = own;
          for (int other = 0; other < W; ++other) share[entries][other] = number[v * W + other] == own ? T(1) : T(0);
          ++entries;
        }
      }
    }
    first[kVectors] = static_cast<int16_t>(entries);
  }
};

// Where the sums of a tile go.
struct Table {
  const luxel_label_votes_args& args;
  double scale;

  explicit Table(const luxel_label_votes_args& args)
      : args(args), scale(static_cast<double>(int64_t{1} << (args.fine ? kFineBits : kVoteBits))) {}
  void fetch(int64_t n, int label) const {
    const int64_t width = args.keys ? kSlots + 1 : args.labels + 1;
    __builtin_prefetch(args.votes + (args.fine ? 2 : 1) * (n * width + (args.keys ? 0 : smaller(label, args.labels))), 1);
  }
  template <typename T> void add(int64_t n, int label, T sum) const {
    if (!(sum > T(0))) return;
    add_votes(args, n, label, static_cast<int64_t>(static_cast<double>(sum) * scale + 0.5));
  }
};

// T alpha, summed by label. kOne: all pixels of the tile have the same label.
template <typename T, bool kOne> struct WeightVisitor {
  using V = Vector<T>;
  const Table& table;
  const TileLabels<T>& labels;
  int64_t first;  // id of the camera's first splat
  V sums[kOne ? 1 : kPixels];

  void fetch(int64_t id) const { table.fetch(id - first, labels.label[0]); }
  bool begin(int64_t, const T*) {
    for (int k = 0; k < (kOne ? 1 : labels.count); ++k) sums[k] = V{};
    return true;
  }
  void add(int p, V weight) {
    if (kOne) {
      sums[0] += weight;
      return;
    }
    const int v = p / kLanes<T>;
    for (int k = labels.first[v]; k < labels.first[v + 1]; ++k)
      sums[labels.shared_by[k]] += weight * load_vector(labels.share[k]);
  }
  void end(int64_t id) const {
    for (int k = 0; k < (kOne ? 1 : labels.count); ++k) table.add(id - first, labels.label[k], sum_lanes<T>(sums[k]));
  }
};

// The centre rule: counts of pixels.
template <typename T> struct CentreVisitor {
  const Table& table;
  const TileLabels<T>& labels;
  int64_t first;
  const Tile<T>& tile;
  const T* transmittance;

  void fetch(int64_t) const {}
  bool begin(int64_t id, const T* splat) const {
    const T radius = T(kCentreRadius), x = splat[0] - T(tile.x0) - T(0.5), y = splat[1] - T(tile.y0) - T(0.5);
    const int top = static_cast<int>(clamp(ceil_of(y - radius), T(0), T(kSide)));
    const int bottom = static_cast<int>(clamp(floor_of(y + radius), T(-1), T(tile.rows - 1)));
    const int left = static_cast<int>(clamp(ceil_of(x - radius), T(0), T(kSide)));
    const int right = static_cast<int>(clamp(floor_of(x + radius), T(-1), T(tile.columns - 1)));
    for (int row = top; row <= bottom; ++row) {
      for (int column = left; column <= right; ++column) {
        const int p = row * kSide + column;
        const bool near = square(T(column) - x) + square(T(row) - y) <= radius * radius;
        if (near && transmittance[p] > T(kCentreTransmittance)) table.add(id - first, labels.label[labels.number[p]], T(1));
      }
    }
    return false;
  }
  void add(int, Vector<T>) const {}
  void end(int64_t) const {}
};

template <typename Policy, typename T> void vote_tile(const luxel_label_votes_args& args, int64_t index) {
  const Tile<T> tile(args.binned, index);
  if (tile.begin >= tile.end) return;
  const TileLabels<T> labels(args, tile);
  const Table table(args);
  const int64_t first = static_cast<int64_t>(tile.camera) * args.binned.count;
  alignas(64) T transmittance[kPixels];
  if (args.centre_rule) {
    CentreVisitor<T> visitor = {table, labels, first, tile, transmittance};
    walk_tile<Policy>(args.binned, tile, transmittance, visitor);
  } else if (labels.count == 1) {
    WeightVisitor<T, true> visitor = {table, labels, first, {}};
    walk_tile<Policy>(args.binned, tile, transmittance, visitor);
  } else {
    WeightVisitor<T, false> visitor = {table, labels, first, {}};
    walk_tile<Policy>(args.binned, tile, transmittance, visitor);
  }
}

template <typename Policy, typename T> int vote(const luxel_label_votes_args& args) {
  static_assert(check_cpu_policy<Policy, T>());
#pragma omp parallel for schedule(dynamic, 4)
  for (int64_t tile = 0; tile < tile_count(args.binned); ++tile) vote_tile<Policy, T>(args, tile);
  return 0;
}

// Policy<T>: of the primitive.
template <template <typename> class Policy> int label_votes(const luxel_label_votes_args& args) {
  return args.dtype ? vote<Policy<double>, double>(args) : vote<Policy<float>, float>(args);
}

}  // namespace
}  // namespace luxel
