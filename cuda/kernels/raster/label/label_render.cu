// label_render on the GPU: sums of T alpha of each label and pixel in shared memory, for the labels that the splats of the tile
// have. A walk over the list sums some labels; where a tile has more, it is walked again.
#include "math/convex_policy.h"
#include "math/gaussian_policy.h"
#include "kernels/raster/label/label_walk.cuh"

namespace luxel {
namespace {

constexpr int kAtOnce = 24;  // labels that a walk sums

template <typename Policy> struct RenderShared {
  LabelShared<Policy> walk;
  float sums[kAtOnce][kPixels];
  LabelSet labels;        // of the splats in the tile's list
  uint8_t label_of[256];  // in ascending order
  uint8_t number[256];    // the inverse
};

// The sum of the present label is in a register: splats of an object follow one another.
template <typename Policy> struct RenderVisitor {
  static constexpr bool kFlushes = false;
  const luxel_label_render_args& args;
  RenderShared<Policy>& shared;
  int32_t first;  // id of the camera's first splat
  int start;      // number of the first label that this walk sums
  int current = -1;
  float sum = 0.0f;

  __device__ __forceinline__ int32_t tag(int32_t id) const {
    const int label = args.labels[id - first];
    const int place = label < args.label_count ? shared.number[label] - start : -1;
    return place >= 0 && place < kAtOnce ? place : -1;
  }
  __device__ __forceinline__ unsigned reach(const float*, int, int) const { return 0; }
  __device__ __forceinline__ void visit(int, const LabelEntry<Policy>& entry, float weight, float) {
    const int label = entry.tag;  // the same for all lanes
    if (label != current) {
      store();
      sum = label >= 0 ? shared.sums[label][threadIdx.x] : 0.0f;
      current = label;
    }
    sum += weight;
  }
  __device__ __forceinline__ void flush(int32_t) const {}
  __device__ __forceinline__ void store() {
    if (current >= 0) shared.sums[current][threadIdx.x] = sum;
  }
};

// Fills the tables of labels of the tile's list; returns their number. All threads of the block call it.
template <typename Policy>
__device__ __forceinline__ int gather_labels(const luxel_label_render_args& args, RenderShared<Policy>& shared, int tile, int32_t first) {
  const int32_t begin = args.ranges[2 * tile], end = args.ranges[2 * tile + 1];
  const int thread = static_cast<int>(threadIdx.x), lane = thread & 31;
  if (thread < 8) shared.labels.words[thread] = 0;
  __syncthreads();
  for (int32_t start = begin; start < end; start += kPixels) {
    const int32_t instance = start + thread;
    const int label = instance < end ? args.labels[args.instances[instance] - first] : kNoLabel;
    const unsigned peers = __match_any_sync(kAll, label);
    if (lane == __ffs(peers) - 1 && label < args.label_count) shared.labels.insert(label);
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
__global__ void __launch_bounds__(kPixels, label_blocks<Policy>())
    label_render_kernel(const luxel_blend_args walk, const luxel_label_render_args args) {
  static_assert(kPixels == 256, "a thread per label");
  __shared__ RenderShared<Policy> shared;
  const int tile = walk.plan[blockIdx.x];  // long lists first
  const Place<1> at(walk, tile);
  const int32_t first = at.camera * args.count;
  const int count = gather_labels(args, shared, tile, first);
  float most = 0.0f, transmittance = 1.0f;
  int leading = kNoLabel;
  for (int start = 0; start == 0 || start < count; start += kAtOnce) {
    const int labels = min(kAtOnce, count - start);
    for (int k = 0; k < labels; ++k) shared.sums[k][threadIdx.x] = 0.0f;
    __syncthreads();  // tables are filled, entries of the walk before are no longer read
    RenderVisitor<Policy> visitor = {args, shared, first, start};
    transmittance = walk_list<Policy>(walk, shared.walk, at, tile, visitor);
    visitor.store();
    for (int k = 0; k < labels; ++k) {
      const float sum = shared.sums[k][threadIdx.x];
      if (!(sum > most)) continue;
      most = sum;
      leading = shared.label_of[start + k];
    }
  }
  if (!at.inside(0)) return;
  args.image[at.pixel] = static_cast<uint8_t>(leading);
  out<float>(args.weight)[at.pixel] = most;
  out<float>(args.transmittance)[at.pixel] = transmittance;
}

template <typename Policy> int render(const luxel_label_render_args& args) {
  const luxel_blend_args walk = walk_args(args);
  return launch("label_render", label_render_kernel<Policy>, static_cast<unsigned>(tiles_of(walk)), kPixels, 0, args.stream, walk,
                args);
}

}  // namespace
}  // namespace luxel

extern "C" int luxel_label_render(const luxel_label_render_args* args) {
  using namespace luxel;
  if (args->dtype != 0) return fail("the GPU kernels take float32");
  LUXEL_CUDA(cudaSetDevice(args->device));
  if (args->primitive == LUXEL_GAUSSIANS) return render<GaussianPolicy<float>>(*args);
  if (args->primitive == LUXEL_CONVEXES) return render<ConvexPolicy<float>>(*args);
  return fail("primitive %d has no policy", args->primitive);
}
