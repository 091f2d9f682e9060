// Deterministic sums of gradients on the GPU: the backward pass writes each warp's gradients to separate rows, which are added here
// in a fixed order.
#pragma once

#include "kernels/raster/blend/blend_tile.cuh"
#include "kernels/workspace.h"

#include <cub/device/device_radix_sort.cuh>

namespace luxel {
namespace {

// Gradients are stored as [instance, warp, number]; instances are sorted by splat, stably, and a warp adds up the rows of one splat
// in that order.
struct Ordered {
  float* rows;
  int32_t *positions, *ids_sorted, *positions_sorted;
  void* sorting;
  size_t rows_bytes, sorting_bytes;
  int64_t bytes;
};

inline int index_bits(const luxel_blend_args& args) {
  int bits = 1;
  while (bits < 31 && (int64_t(1) << bits) < static_cast<int64_t>(args.binned.count) * args.binned.cameras) ++bits;
  return bits;
}

// row: kRow of the policy.
inline cudaError_t lay_out(const luxel_blend_args& args, int row, Ordered& o) {
  Layout layout;
  const int64_t numbers = args.binned.capacity * kBackwardWarps * (row + args.channels);
  o.rows_bytes = sizeof(float) * numbers;
  o.rows = layout.take<float>(args.workspace, numbers);
  o.positions = layout.take<int32_t>(args.workspace, args.binned.capacity);
  o.ids_sorted = layout.take<int32_t>(args.workspace, args.binned.capacity);
  o.positions_sorted = layout.take<int32_t>(args.workspace, args.binned.capacity);
  const cudaError_t status = cub::DeviceRadixSort::SortPairs(nullptr, o.sorting_bytes, args.binned.instances, o.ids_sorted, o.positions,
                                                             o.positions_sorted, args.binned.capacity, 0, index_bits(args));
  o.sorting = layout.take<char>(args.workspace, static_cast<int64_t>(o.sorting_bytes));
  o.bytes = layout.used;
  return status;
}

__global__ void number_kernel(int32_t* positions, int64_t count) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (i < count) positions[i] = static_cast<int32_t>(i);
}

// A lane takes one number of a row; where there are more than lanes, blocks of another y take the rest.
constexpr int numbers_per_lane(int numbers) { return (numbers + 31) / 32; }

template <int kRow, int D>
__global__ void __launch_bounds__(256) sum_rows_kernel(const luxel_blend_args args, const Ordered o) {
  constexpr int kNumbers = kRow + D;
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x) / 32;
  const int number = (threadIdx.x & 31) + (numbers_per_lane(kNumbers) > 1 ? 32 * static_cast<int>(blockIdx.y) : 0);
  if (first >= args.binned.capacity || number >= kNumbers) return;
  // Slots past the last instance are uninitialised and may look like a splat; the sort is stable and by the low bits only, and puts
  // them after the instances with equal bits.
  const int32_t id = o.ids_sorted[first], instances = args.binned.ranges[2 * tiles_of(args.binned) - 1];
  if (o.positions_sorted[first] >= instances || (first > 0 && o.ids_sorted[first - 1] == id)) return;
  float sum = 0.0f;
  for (int64_t i = first; i < args.binned.capacity && o.ids_sorted[i] == id && o.positions_sorted[i] < instances; ++i) {
    const float* row = o.rows + static_cast<int64_t>(o.positions_sorted[i]) * kBackwardWarps * kNumbers + number;
#pragma unroll
    for (int warp = 0; warp < kBackwardWarps; ++warp) sum += row[warp * kNumbers];
  }
  if (number < kRow)
    out<float>(args.g_splats)[kRow * static_cast<int64_t>(id) + number] += sum;
  else
    out<float>(args.g_values)[D * static_cast<int64_t>(id) + number - kRow] += sum;
}

}  // namespace
}  // namespace luxel
