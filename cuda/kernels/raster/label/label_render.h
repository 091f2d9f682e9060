// label_render on the CPU: a task per tile. Twin of label_render.cuh.
#pragma once

#include "kernels/error.h"
#include "kernels/raster/label/label_tile.h"
#include "kernels/raster/label/vote_table.h"

namespace luxel {
namespace {

constexpr int kAtOnce = 32;  // labels that a walk over a list sums; further ones take further walks

// The labels of the splats of a tile in ascending order, and their numbers.
struct ListLabels {
  int count = 0;
  int16_t number[256];  // of a label; -1 if no splat has it
  uint8_t label[256];   // of a number

  template <typename T> ListLabels(const luxel_label_render_args& args, const Tile<T>& tile) {
    bool there[256] = {};
    const int64_t first = static_cast<int64_t>(tile.camera) * args.binned.count;
    for (int32_t i = tile.begin; i < tile.end; ++i) there[args.labels[args.binned.instances[i] - first]] = true;
    for (int k = 0; k < 256; ++k) {
      number[k] = there[k] && k < args.label_count ? static_cast<int16_t>(count) : int16_t{-1};
      if (number[k] >= 0) label[count++] = static_cast<uint8_t>(k);
    }
  }
};

// Sums of T alpha of each label and pixel, for labels numbered from `start`.
template <typename T> struct LabelVisitor {
  const luxel_label_render_args& args;
  const ListLabels& labels;
  int64_t first;  // id of the camera's first splat
  int start;
  T (&sums)[kAtOnce][kPixels];
  T* current = nullptr;

  void fetch(int64_t id) const { __builtin_prefetch(args.labels + id - first); }
  bool begin(int64_t id, const T*) {
    const int number = labels.number[args.labels[id - first]] - start;
    const bool counted = number >= 0 && number < kAtOnce;
    if (counted) current = sums[number];
    return counted;
  }
  void add(int p, Vector<T> weight) const { store_vector(current + p, load_vector(current + p) + weight); }
  void end(int64_t) const {}
};

template <typename Policy, typename T>
void render_tile(const luxel_label_render_args& args, int64_t index) {
  const Tile<T> tile(args.binned, index);
  const ListLabels labels(args, tile);
  alignas(64) T transmittance[kPixels], most[kPixels] = {}, sums[kAtOnce][kPixels];
  uint8_t leading[kPixels];
  std::memset(leading, kNoLabel, sizeof leading);
  for (int start = 0; start == 0 || start < labels.count; start += kAtOnce) {
    const int count = smaller(kAtOnce, labels.count - start);
    std::memset(sums, 0, sizeof(sums[0]) * count);
    LabelVisitor<T> visitor = {args, labels, static_cast<int64_t>(tile.camera) * args.binned.count, start, sums};
    walk_tile<Policy>(args.binned, tile, transmittance, visitor);
    for (int k = 0; k < count; ++k) {
      for (int p = 0; p < kPixels; ++p) {
        const bool more = sums[k][p] > most[p];
        most[p] = more ? sums[k][p] : most[p];
        leading[p] = more ? labels.label[start + k] : leading[p];
      }
    }
  }
  for (int row = 0; row < tile.rows; ++row) {
    for (int column = 0; column < tile.columns; ++column) {
      const int p = row * kSide + column;
      const int64_t pixel = tile.pixel(args.binned, row) + column;
      args.image[pixel] = leading[p];
      out<T>(args.weight)[pixel] = most[p];
      out<T>(args.transmittance)[pixel] = transmittance[p] < T(0) ? -transmittance[p] : transmittance[p];
    }
  }
}

template <typename Policy, typename T> int render(const luxel_label_render_args& args) {
  static_assert(check_cpu_policy<Policy, T>());
#pragma omp parallel for schedule(dynamic, 4)
  for (int64_t tile = 0; tile < tile_count(args.binned); ++tile) render_tile<Policy, T>(args, tile);
  return 0;
}

// Policy<T>: of the primitive.
template <template <typename> class Policy> int label_render(const luxel_label_render_args& args) {
  return args.dtype ? render<Policy<double>, double>(args) : render<Policy<float>, float>(args);
}

}  // namespace
}  // namespace luxel
