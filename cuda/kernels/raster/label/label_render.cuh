// label_render on the GPU: sums of T alpha of each label and pixel in shared memory, for the labels that the splats of the tile
// have. A walk over the list sums some labels; where a tile has more, it is walked again.
#pragma once

#include "kernels/raster/label/label_walk.cuh"

namespace luxel {
namespace {

constexpr int kAtOnce = 24;  // labels that a walk sums
constexpr int kAtOnceOfLong = kAtOnce * kPixels / LongPlace::kPixels;  // in the same memory, where blocks share a tile

template <typename Policy> struct RenderShared {
  union {
    LabelShared<Policy> walk;
    LabelLongShared<Policy> long_walk;
  };
  union {
    float sums[kAtOnce][kPixels];
    float long_sums[kAtOnceOfLong][LongPlace::kPixels];
  };
  LabelSet labels;        // of the splats in the tile's list
  uint8_t label_of[256];  // in ascending order
  uint8_t number[256];    // the inverse
  __device__ RenderShared() {}
};

// Which sum a splat is added to; -1: none. start: number of the first label that this walk sums.
template <typename Policy>
__device__ __forceinline__ int32_t sum_of(const luxel_label_render_args& args, const RenderShared<Policy>& shared, int64_t splat,
                                          int start, int at_once) {
  const int label = args.labels[splat], place = label < args.label_count ? shared.number[label] - start : -1;
  return place >= 0 && place < at_once ? place : -1;
}

// The sum of the present label is in a register: splats of an object follow one another.
template <typename Policy> struct RenderVisitor {
  static constexpr bool kFlushes = false, kCommits = false;
  const luxel_label_render_args& args;
  RenderShared<Policy>& shared;
  int32_t first;  // id of the camera's first splat
  int start;      // number of the first label that this walk sums
  int current = -1;
  float sum = 0.0f;

  __device__ __forceinline__ int32_t tag(int32_t id) const { return sum_of(args, shared, id - first, start, kAtOnce); }
  __device__ __forceinline__ unsigned reach(const float*, int, int) const { return 0; }
  __device__ __forceinline__ void visit(int, int, const LabelEntry<Policy>& entry, float weight, float) {
    const int label = entry.tag;  // the same for all lanes
    if (label != current) {
      store();
      sum = label >= 0 ? shared.sums[label][threadIdx.x] : 0.0f;
      current = label;
    }
    sum += weight;
  }
  __device__ __forceinline__ void commit(int) const {}
  __device__ __forceinline__ void flush(int32_t) const {}
  __device__ __forceinline__ void store() {
    if (current >= 0) shared.sums[current][threadIdx.x] = sum;
  }
};

// Where eight lanes share a pixel: each has its part of the sum of the present label; where the splats of the eight have several,
// the first lane adds them one by one.
template <typename Policy> struct LongRenderVisitor {
  static constexpr bool kFlushes = false;
  const luxel_label_render_args& args;
  RenderShared<Policy>& shared;
  const LongPlace& at;
  int32_t first;
  int start;
  int current = -1;
  float sum = 0.0f;

  __device__ __forceinline__ int32_t tag(int32_t id) const { return sum_of(args, shared, id - first, start, kAtOnceOfLong); }
  __device__ __forceinline__ bool reaches(const float*, int, int) const { return false; }
  __device__ __forceinline__ void visit(int, const LabelEntry<Policy>& entry, float weight, float) {
    const int label = __shfl_sync(kAll, entry.tag, 0);
    const bool alike = __all_sync(kAll, entry.tag == label);
    if (!alike || label != current) store();
    current = alike ? label : -1;
    if (alike) {
      sum += weight;
      return;
    }
#pragma unroll
    for (int u = 0; u < kLongLanes; ++u) {
      const int of_splat = __shfl_sync(kAll, entry.tag, u, kLongLanes);
      const float added = __shfl_sync(kAll, weight, u, kLongLanes);
      if (at.sub == 0 && of_splat >= 0) shared.long_sums[of_splat][at.mine] += added;
    }
  }
  __device__ __forceinline__ void flush(int) const {}
  __device__ __forceinline__ void store() {
    if (current >= 0) {
#pragma unroll
      for (int bit = kLongLanes / 2; bit >= 1; bit /= 2) sum += __shfl_xor_sync(kAll, sum, bit);
      if (at.sub == 0) shared.long_sums[current][at.mine] += sum;
    }
    sum = 0.0f;
  }
};

// The leading label of a pixel.
struct Leading {
  float most = 0.0f;
  int label = kNoLabel;

  __device__ __forceinline__ void look(float sum, int other) {
    if (!(sum > most)) return;
    most = sum;
    label = other;
  }
  __device__ __forceinline__ void store(const luxel_label_render_args& args, int64_t pixel, float transmittance) const {
    args.image[pixel] = static_cast<uint8_t>(label);
    out<float>(args.weight)[pixel] = most;
    out<float>(args.transmittance)[pixel] = transmittance;
  }
};

// Fills the tables of labels of the tile's list; returns their number. All threads of the block call it.
template <typename Policy>
__device__ __forceinline__ int gather_labels(const luxel_label_render_args& args, RenderShared<Policy>& shared, int tile, int32_t first) {
  const int32_t begin = args.binned.ranges[2 * tile], end = args.binned.ranges[2 * tile + 1];
  const int thread = static_cast<int>(threadIdx.x), lane = thread & 31;
  if (thread < 8) shared.labels.words[thread] = 0;
  __syncthreads();
  constexpr int kAhead = 4;  // loads of a thread on their way together
  for (int32_t start = begin; start < end; start += kAhead * kPixels) {
    int label[kAhead];
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      const int32_t instance = start + u * kPixels + thread;
      label[u] = instance < end ? args.labels[args.binned.instances[instance] - first] : kNoLabel;
    }
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      const unsigned peers = __match_any_sync(kAll, label[u]);
      if (lane == __ffs(peers) - 1 && label[u] < args.label_count && !shared.labels.has(label[u])) shared.labels.insert(label[u]);
    }
  }
  __syncthreads();
  const int number = shared.labels.below(thread);
  if (shared.labels.has(thread)) {
    shared.number[thread] = static_cast<uint8_t>(number);
    shared.label_of[number] = static_cast<uint8_t>(thread);
  }
  return shared.labels.below(256);
}

template <typename Policy>
__device__ __forceinline__ void render_tile(const luxel_label_render_args& args,
                                            RenderShared<Policy>& shared, int tile, int count) {
  const Place<1> at(args.binned, tile);
  Leading leading;
  float transmittance = 1.0f;
  for (int start = 0; start == 0 || start < count; start += kAtOnce) {
    const int labels = min(kAtOnce, count - start);
    for (int k = 0; k < labels; ++k) shared.sums[k][threadIdx.x] = 0.0f;
    __syncthreads();  // tables are filled, entries of the walk before are no longer read
    RenderVisitor<Policy> visitor = {args, shared, at.camera * args.binned.count, start};
    transmittance = walk_list<Policy>(args.binned, shared.walk, at, tile, visitor);
    visitor.store();
    for (int k = 0; k < labels; ++k) leading.look(shared.sums[k][threadIdx.x], shared.label_of[start + k]);
  }
  if (at.inside(0)) leading.store(args, at.pixel, transmittance);
}

template <typename Policy>
__device__ __forceinline__ void render_long(const luxel_label_render_args& args,
                                            RenderShared<Policy>& shared, int tile, int part, int count) {
  const LongPlace at(args.binned, tile, part);
  Leading leading;
  float transmittance = 1.0f;
  for (int start = 0; start == 0 || start < count; start += kAtOnceOfLong) {
    const int labels = min(kAtOnceOfLong, count - start);
    __syncthreads();  // the sums of the walk before are no longer read
    for (int k = threadIdx.x; k < labels * LongPlace::kPixels; k += kPixels)
      shared.long_sums[k / LongPlace::kPixels][k % LongPlace::kPixels] = 0.0f;
    __syncthreads();
    LongRenderVisitor<Policy> visitor = {args, shared, at, at.camera * args.binned.count, start};
    transmittance = walk_long_list<Policy>(args.binned, shared.long_walk, at, tile, visitor);
    visitor.store();
    __syncwarp();
    for (int k = 0; k < labels; ++k) leading.look(shared.long_sums[k][at.mine], shared.label_of[start + k]);
  }
  if (at.inside && at.sub == 0) leading.store(args, at.pixel, transmittance);
}

template <typename Policy>
__global__ void __launch_bounds__(kPixels, label_blocks<Policy>())
    label_render_kernel(const luxel_label_render_args args) {
  static_assert(kPixels == 256, "a thread per label");
  __shared__ RenderShared<Policy> shared;
  const LabelBlock<Policy> block(args.binned);
  if (block.tile < 0) return;
  const int count = gather_labels(args, shared, block.tile, Place<1>(args.binned, block.tile).camera * args.binned.count);
  if (!block.is_long)
    render_tile(args, shared, block.tile, count);
  else if constexpr (!Policy::kMultiEdge)
    render_long(args, shared, block.tile, block.part, count);
}

template <typename Policy> int label_render(const luxel_label_render_args& args) {
  if (args.dtype != 0) return fail("the GPU kernels take float32");
  LUXEL_CUDA(cudaSetDevice(args.device));
  return launch("label_render", label_render_kernel<Policy>, LabelBlock<Policy>::blocks(args.binned), kPixels, 0, args.stream, args);
}

}  // namespace
}  // namespace luxel
