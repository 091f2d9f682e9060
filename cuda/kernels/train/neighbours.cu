// neighbours on the GPU: points are sorted along a space-filling curve (Morton 1966), with a tree of boxes over runs of 32, 1024,
// ... of them, and a warp searches it for the 32 points of a run at once. Nothing is read back by the host, so that the stage can
// be captured in a CUDA graph.
#include "kernels/train/neighbours_search.cuh"
#include "kernels/workspace.h"

#include <cub/block/block_radix_sort.cuh>
#include <cub/device/device_radix_sort.cuh>

namespace luxel {
namespace {

constexpr int kSampleThreads = 256, kSampleItems = 4, kSamples = kSampleThreads * kSampleItems;
constexpr float kTail = 0.02f;  // share of the samples, at either end, that may lie outside of the curve's cube

// Bits of an axis in the key of a point; one more, above them all, marks points that do not count.
__host__ __device__ __forceinline__ int bits_of_axis(int dimensions) { return dimensions == 4 ? 11 : 15; }
__host__ __device__ __forceinline__ int bits_of_key(int dimensions) { return dimensions * bits_of_axis(dimensions) + 1; }

cudaError_t lay_out(const luxel_neighbours_args& args, Places& p) {
  Layout layout;
  p.keys = layout.take<Key>(args.workspace, args.count);
  p.sorted_keys = layout.take<Key>(args.workspace, args.count);
  p.indices = layout.take<int32_t>(args.workspace, args.count);
  p.order = layout.take<int32_t>(args.workspace, args.count);
  p.places = layout.take<Place<float>>(args.workspace, args.count);
  p.levels = 0;
  p.starts[0] = 0;
  for (int64_t nodes = args.count; nodes > 1 || p.levels == 0;) {
    nodes = (nodes + kRun - 1) / kRun;
    p.starts[p.levels + 1] = p.starts[p.levels] + static_cast<int32_t>(nodes);
    ++p.levels;
  }
  p.boxes = layout.take<Box<float>>(args.workspace, p.starts[p.levels]);
  p.ranges = layout.take<float2>(args.workspace, 4);
  p.valid = layout.take<int32_t>(args.workspace, 1);
  const cudaError_t status =
      cub::DeviceRadixSort::SortPairs(nullptr, p.sort_bytes, p.keys, p.sorted_keys, p.indices, p.order, args.count, 0,
                                      bits_of_key(args.dimensions));
  p.sort = layout.take<char>(args.workspace, static_cast<int64_t>(p.sort_bytes));
  p.bytes = layout.used;
  return status;
}

__device__ __forceinline__ float coordinate(Place<float> p, int axis) {
  return axis == 0 ? p.x : (axis == 1 ? p.y : (axis == 2 ? p.z : p.t));
}

// The range of most points along an axis, from a sample; a block for each axis. A few outliers must not use up the cells
// of the curve.
__global__ void __launch_bounds__(kSampleThreads) sample_ranges_kernel(const luxel_neighbours_args args, float2* ranges, int32_t* valid) {
  using Sort = cub::BlockRadixSort<float, kSampleThreads, kSampleItems>;
  __shared__ typename Sort::TempStorage storage;
  __shared__ float sorted[kSamples];
  const int axis = blockIdx.x;
  float values[kSampleItems];
  int counted = 0;
#pragma unroll
  for (int i = 0; i < kSampleItems; ++i) {
    const int64_t sample = threadIdx.x * kSampleItems + i, n = sample * args.count / kSamples;
    const Place<float> place = load_place<float>(args, n);
    const bool good = counts(args, n, place);
    values[i] = good ? coordinate(place, axis) : INFINITY;
    counted += __syncthreads_count(good);
  }
  Sort(storage).Sort(values);
#pragma unroll
  for (int i = 0; i < kSampleItems; ++i) sorted[threadIdx.x * kSampleItems + i] = values[i];
  __syncthreads();
  if (threadIdx.x != 0) return;
  const int low = static_cast<int>(kTail * counted), high = max(counted - 1 - low, 0);
  ranges[axis] = counted > 0 ? make_float2(sorted[low], sorted[high]) : make_float2(0.0f, 0.0f);
  if (axis == 0) *valid = 0;
}

// The bits of x with gaps between them, where those of other axes go.
__device__ __forceinline__ Key spread(uint32_t x, int bits, int dimensions) {
  Key key = 0;
  for (int bit = 0; bit < bits; ++bit) key |= static_cast<Key>(x >> bit & 1) << (bit * dimensions);
  return key;
}

__global__ void __launch_bounds__(kThreads) keys_kernel(const luxel_neighbours_args args, const float2* ranges, Key* keys,
                                                        int32_t* indices) {
  const int n = blockIdx.x * kThreads + threadIdx.x;
  if (n >= args.count) return;
  const int bits = bits_of_axis(args.dimensions);
  const Place<float> place = load_place<float>(args, n);
  float side = 0.0f;  // half of the cube's side, equal along all axes
  for (int axis = 0; axis < args.dimensions; ++axis) side = fmaxf(side, ranges[axis].y - ranges[axis].x);
  const float cells = static_cast<float>(1 << bits), scale = side > 0.0f ? 0.5f * cells / side : 0.0f;
  Key key = 0;
  for (int axis = 0; axis < args.dimensions; ++axis) {
    const float middle = 0.5f * ranges[axis].x + 0.5f * ranges[axis].y;
    const float cell = fminf(fmaxf((coordinate(place, axis) - middle) * scale + 0.5f * cells, 0.0f), cells - 1.0f);
    key |= spread(static_cast<uint32_t>(cell), bits, args.dimensions) << axis;
  }
  keys[n] = counts(args, n, place) ? key : Key(1) << (bits * args.dimensions);
  indices[n] = n;
}

__device__ __forceinline__ Box<float> warp_box(Box<float> box) {
  float* const numbers = reinterpret_cast<float*>(&box);
#pragma unroll
  for (int k = 0; k < 8; ++k) {
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) {
      const float other = __shfl_xor_sync(~0u, numbers[k], offset);
      numbers[k] = k < 4 ? fminf(numbers[k], other) : fmaxf(numbers[k], other);
    }
  }
  return box;
}

// A warp per leaf: copies the points of its run in curve order, and computes their bounding box.
__global__ void __launch_bounds__(kThreads)
    leaves_kernel(const luxel_neighbours_args args, const Key* keys, const int32_t* order, Place<float>* places, Box<float>* boxes,
                  int32_t* valid) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if ((i & ~31) >= args.count) return;
  const int top = args.dimensions * bits_of_axis(args.dimensions);
  Box<float> box = Box<float>::none();
  if (i < args.count && keys[i] >> top == 0) {
    const Place<float> place = load_place<float>(args, order[i]);
    places[i] = place;
    box = {place, place};
    if (i + 1 == args.count || keys[i + 1] >> top != 0) *valid = i + 1;
  }
  box = warp_box(box);
  if ((threadIdx.x & 31) == 0) boxes[i / kRun] = box;
}

// A warp for each node: the box of its children.
__global__ void __launch_bounds__(kThreads) nodes_kernel(const Box<float>* children, int count, Box<float>* boxes) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if ((i & ~31) >= count) return;
  const Box<float> box = warp_box(i < count ? children[i] : Box<float>::none());
  if ((threadIdx.x & 31) == 0) boxes[i / kRun] = box;
}

}  // namespace
}  // namespace luxel

extern "C" {

int64_t luxel_neighbours_workspace(const luxel_neighbours_args* args) {
  luxel::Places places;
  LUXEL_CUDA(luxel::lay_out(*args, places));
  return places.bytes;
}

int luxel_neighbours(const luxel_neighbours_args* args) {
  using namespace luxel;
  if (args->dtype != 0) return fail("the GPU kernels take float32");
  if (args->count == 0) return 0;
  LUXEL_CUDA(cudaSetDevice(args->device));
  Places p;
  LUXEL_CUDA(lay_out(*args, p));
  if (args->workspace_bytes < p.bytes) return fail("neighbours: workspace too small");
  void* const stream = args->stream;
  const dim3 points(blocks_for(args->count, kThreads));
  if (launch("neighbours, sample", sample_ranges_kernel, args->dimensions, kSampleThreads, 0, stream, *args, p.ranges, p.valid) < 0) return -1;
  if (launch("neighbours, keys", keys_kernel, points, kThreads, 0, stream, *args, p.ranges, p.keys, p.indices) < 0) return -1;
  LUXEL_CUDA(cub::DeviceRadixSort::SortPairs(p.sort, p.sort_bytes, p.keys, p.sorted_keys, p.indices, p.order, args->count, 0,
                                             bits_of_key(args->dimensions), static_cast<cudaStream_t>(stream)));
  if (launch("neighbours, leaves", leaves_kernel, points, kThreads, 0, stream, *args, p.sorted_keys, p.order, p.places, p.boxes, p.valid) < 0)
    return -1;
  for (int level = 1; level < p.levels; ++level) {
    const int children = p.starts[level] - p.starts[level - 1];
    if (launch("neighbours, nodes", nodes_kernel, blocks_for(children, kThreads), kThreads, 0, stream, p.boxes + p.starts[level - 1],
               children, p.boxes + p.starts[level]) < 0)
      return -1;
  }
  const auto search = args->k <= 4 ? search_kernel<4> : (args->k <= 8 ? search_kernel<8> : search_kernel<16>);
  return launch("neighbours, search", search, points, kThreads, 0, stream, *args, p);
}
}
