// The disc policy blended three ways, for tests/render/ops/raster/test_policy_example.py: by the scalar walk, by the library's
// tile rasterizer on the CPU, and the gradient at one pixel as the GPU's inner loop computes it. Built only by that test:
//   g++ -std=c++17 -O1 -fopenmp -shared -fPIC -I cuda cuda/examples/disc.cpp
#include "examples/disc_policy.h"
#include "examples/scalar_walk.h"
#include "kernels/raster/blend/blend.h"

#include <vector>

namespace {

using luxel::DiscPolicy;
constexpr int kChannels = 3, kRow = DiscPolicy<double>::kRow;

static_assert(luxel::check_cpu_policy<DiscPolicy<float>, float>());
static_assert(luxel::check_cpu_policy<DiscPolicy<double>, double>());
static_assert(luxel::check_gpu_policy<DiscPolicy<float>>());

}  // namespace

extern "C" {

// rows [N,8] nearest first, values [N,3]; image [H,W,3], transmittance [H,W]; g_rows, g_values zeroed by the caller.
void disc_walk(const double* rows, const double* values, int count, int width, int height, double max_alpha, double* image,
               double* transmittance, const double* g_image, double* g_rows, double* g_values) {
  std::vector<int> list(count), last(width * height);
  for (int i = 0; i < count; ++i) list[i] = i;
  const luxel::WalkInputs<double> in = {rows, values, list.data(), count, width, height, kChannels, max_alpha};
  luxel::walk_forward<DiscPolicy<double>>(in, image, transmittance, last.data());
  luxel::walk_backward<DiscPolicy<double>>(in, transmittance, last.data(), g_image, g_rows, g_values);
}

// The same by the tile rasterizer.
void disc_tiles(const double* rows, const double* values, int count, int width, int height, double max_alpha, double* image,
                double* transmittance, const double* g_image, double* g_rows, double* g_values) {
  const int tiles_x = luxel::tiles_along(width), tiles_y = luxel::tiles_along(height);
  std::vector<std::vector<int32_t>> lists(tiles_x * tiles_y);
  for (int32_t i = 0; i < count; ++i) {
    const auto bounds = luxel::DiscBounds<double>::of(rows + kRow * i);
    luxel::for_tile_rows(bounds, tiles_x, tiles_y, 0, tiles_y, [&](int row, int column, int end) {
      for (; column < end; ++column) lists[row * tiles_x + column].push_back(i);
    });
  }
  std::vector<int32_t> instances, ranges, last(width * height);
  for (const auto& list : lists) {
    ranges.push_back(static_cast<int32_t>(instances.size()));
    instances.insert(instances.end(), list.begin(), list.end());
    ranges.push_back(static_cast<int32_t>(instances.size()));
  }
  luxel_blend_args args = {};
  args.dtype = 1;
  args.binned.splats = rows;
  args.values = values;
  args.binned.instances = instances.data();
  args.binned.ranges = ranges.data();
  args.binned.capacity = static_cast<int64_t>(instances.size());
  args.binned.count = count;
  args.binned.cameras = 1;
  args.binned.width = width;
  args.binned.height = height;
  args.channels = kChannels;
  args.binned.max_alpha = static_cast<float>(max_alpha);
  args.image = image;
  args.transmittance = transmittance;
  args.last = last.data();
  args.g_image = g_image;
  args.g_splats = g_rows;
  args.g_values = g_values;
  std::vector<char> workspace(luxel::blend_workspace(args, kRow));
  args.workspace = workspace.data();
  luxel::forward<DiscPolicy<double>, double, kChannels>(args);
  luxel::backward<DiscPolicy<double>, double, kChannels>(args);
}

// The gradient by a row of g_alpha * alpha at two pixels of one column, (px, py) and (px, py + 4), as warps gather it.
void disc_column_gradient(const float* row, float px, float py, float g_alpha, float* g_row) {
  using Policy = DiscPolicy<float>;
  using Sums = Policy::Sums<false>;
  const Policy::Packed disc = Policy::pack(row);
  const Policy::Column column(disc, px);
  Sums sums;
  for (int r = 0; r < 2; ++r) {
    const float dy = py + 4.0f * static_cast<float>(r) - disc.y;
    const Policy::Coverage coverage = column.at(disc, dy);
    if (coverage.hits(disc.highest())) sums.add(disc, column, coverage, dy, coverage.alpha() * g_alpha);
  }
  float numbers[Sums::kCount];
  sums.store(disc, column, numbers);
  for (int k = 0; k < Sums::kCount; ++k) g_row[Sums::slot(k)] += Sums::scale(k) * numbers[k];
}
}
