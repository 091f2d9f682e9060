// The tile rasterizer on the GPU, for any primitive (Policy, see math/splat.h). Twin of blend.h.
//
// Forward: a block per 16x16 tile, heavy tiles first; a warp per subtile. A batch of splats is loaded by the whole
// block, and each is tested against the subtiles once, so that a warp only walks the splats that can reach its pixels.
//
// Backward: a block per piece of a tile's list, so that a tile with thousands of splats is shared by many blocks. The
// forward pass left what each pixel had gathered at the end of each piece; from there a piece is walked from the back.
// A splat's gradient is reduced over the warp by a transposing butterfly (9 shuffles for 8 numbers instead of 40), then
// one instruction adds it to memory.
#pragma once

#include "../abi.h"
#include "../math/splat.h"
#include "error.h"
#include "project_gaussians.h"
#include "workspace.h"

#include <cub/device/device_radix_sort.cuh>

namespace luxel {
namespace {

// Tunables of this kernel family.
// The longest list bounds the forward pass, so there a thread has one pixel; the backward pass is bound by its
// reductions, which two pixels of a thread share.
constexpr int kBackwardPixels = 2;
constexpr int kBackwardWarps = LUXEL_TILE * LUXEL_TILE / kBackwardPixels / 32;
constexpr int kAhead = 4;  // splats whose alpha is computed at once, ahead of blending them one by one
constexpr int kBatch = LUXEL_PIECE;

// How R pixels per thread lie in a tile: a warp has 8 x 4R of them.
template <int R> struct Shape {
  static constexpr int kThreads = LUXEL_TILE * LUXEL_TILE / R;
  static constexpr int kSubtileW = 8, kSubtileH = 4 * R;
  static constexpr int kSubtilesX = LUXEL_TILE / kSubtileW, kSubtilesY = LUXEL_TILE / kSubtileH;
};
constexpr unsigned kAll = ~0u;

template <typename Policy, int D> struct Batch {
  Policy splat[kBatch];
  float value[kBatch][D];
  int32_t id[kBatch];
  uint8_t subtiles[kBatch];  // bit w: may reach the pixels of warp w
};

// Which subtiles of the tile at (x0, y0) the primitive can reach.
template <int R, typename Bounds> __device__ __forceinline__ unsigned reachable_subtiles(const Bounds& bounds, float x0, float y0) {
  constexpr int kSubtileW = Shape<R>::kSubtileW, kSubtileH = Shape<R>::kSubtileH;
  constexpr int kSubtilesX = Shape<R>::kSubtilesX, kSubtilesY = Shape<R>::kSubtilesY;
  unsigned mask = 0;
#pragma unroll
  for (int row = 0; row < kSubtilesY; ++row) {
    float left, right;
    const float top = y0 + static_cast<float>(row * kSubtileH) + 0.5f;
    if (!bounds.band(top, top + static_cast<float>(kSubtileH - 1), left, right)) continue;
#pragma unroll
    for (int column = 0; column < kSubtilesX; ++column) {
      const float first = x0 + static_cast<float>(column * kSubtileW) + 0.5f;
      if (right >= first && left <= first + static_cast<float>(kSubtileW - 1)) mask |= 1u << (row * kSubtilesX + column);
    }
  }
  return mask;
}

// A primitive on its way from memory into a batch.
template <int D> struct Fetched {
  float row[LUXEL_SPLAT], value[D];
  int32_t id;
};

template <int D>
__device__ __forceinline__ void fetch_splat(const luxel_blend_args& args, Fetched<D>& splat, int32_t instance, int32_t end) {
  splat.id = instance < end ? args.instances[instance] : -1;
  if (splat.id < 0) return;
  const float4* row = reinterpret_cast<const float4*>(in<float>(args.splats) + LUXEL_SPLAT * static_cast<int64_t>(splat.id));
#pragma unroll
  for (int i = 0; i < LUXEL_SPLAT / 4; ++i) {
    const float4 four = row[i];
    splat.row[4 * i] = four.x;
    splat.row[4 * i + 1] = four.y;
    splat.row[4 * i + 2] = four.z;
    splat.row[4 * i + 3] = four.w;
  }
  const float* value = in<float>(args.values) + D * static_cast<int64_t>(splat.id);
#pragma unroll
  for (int d = 0; d < D; ++d) splat.value[d] = value[d];
}

template <int R, typename Policy, int D>
__device__ __forceinline__ void store_splat(Batch<Policy, D>& batch, int slot, const Fetched<D>& splat, float x0, float y0) {
  unsigned mask = 0;
  if (splat.id >= 0) {
    mask = reachable_subtiles<R>(Policy::Bounds::of(splat.row), x0, y0);
    batch.splat[slot] = Policy::load(splat.row);
#pragma unroll
    for (int d = 0; d < D; ++d) batch.value[slot][d] = splat.value[d];
    batch.id[slot] = splat.id;
  }
  batch.subtiles[slot] = static_cast<uint8_t>(mask);
}

// The visitor: what a pixel gathers of the primitives that contribute to it, nearest first. D channels of values, how
// many they were and, if kMedian, the depth at which T falls to 1/2.
template <int D, bool kMedian> struct Gathered {
  float sums[D] = {}, median = 0.0f;
  int32_t seen = 0;

  __device__ __forceinline__ void visit(bool counts, float weight, const float* value, float before, float after, float depth) {
#pragma unroll
    for (int d = 0; d < D; ++d) sums[d] = fmaf(weight, value[d], sums[d]);
    if (kMedian && counts && before > 0.5f && after <= 0.5f) median = depth;
    seen += counts;
  }
};

// Where a thread stands: its first pixel; the others are 4 rows apart.
template <int R> struct Place {
  int camera, x0, y0, x, y, warp, lane;
  int64_t pixel;
  int width, height;

  __device__ Place(const luxel_blend_args& args, int tile) : width(args.width), height(args.height) {
    const int tiles_x = tiles_along(width), per_image = tiles_x * tiles_along(height);
    camera = tile / per_image;
    tile %= per_image;
    x0 = tile % tiles_x * LUXEL_TILE;
    y0 = tile / tiles_x * LUXEL_TILE;
    warp = threadIdx.x >> 5;
    lane = threadIdx.x & 31;
    x = x0 + warp % Shape<R>::kSubtilesX * 8 + lane % 8;
    y = y0 + warp / Shape<R>::kSubtilesX * (4 * R) + lane / 8;
    pixel = (static_cast<int64_t>(camera) * height + y) * width + x;
  }
  __device__ bool inside(int r) const { return x < width && y + 4 * r < height; }
  __device__ int64_t pixel_at(int r) const { return pixel + static_cast<int64_t>(4 * r) * width; }
};

LUXEL_HD int32_t tiles_of(const luxel_blend_args& args) {
  return tiles_along(args.width) * tiles_along(args.height) * args.cameras;
}

// Where piece k of a tile left the state of a pixel: channel c is at [c * 256].
template <int D, int R>
__device__ float* state_of(const luxel_blend_args& args, const Place<R>& at, int tile, int k, int r) {
  const int64_t slot = args.plan[tiles_of(args) + tile] + k;
  const int pixel = (at.y - at.y0 + 4 * r) * LUXEL_TILE + at.x - at.x0;
  return out<float>(args.states) + slot * (D + 1) * LUXEL_TILE * LUXEL_TILE + pixel;
}

template <typename Policy, int D, bool kMedian>
__global__ void __launch_bounds__(Shape<1>::kThreads) blend_fwd_kernel(const luxel_blend_args args) {
  __shared__ Batch<Policy, D> batch;
  const int tile = args.plan[blockIdx.x];
  const Place<1> at(args, tile);
  const int32_t begin = args.ranges[2 * tile], end = args.ranges[2 * tile + 1];
  const float px = static_cast<float>(at.x) + 0.5f, py = static_cast<float>(at.y) + 0.5f;
  Gathered<D, kMedian> gathered;
  float transmittance = 1.0f;
  int32_t last = 0;
  bool alive = at.inside(0);
  Fetched<D> next;
  fetch_splat(args, next, begin + static_cast<int32_t>(threadIdx.x), end);
  for (int32_t start = begin; start < end; start += kBatch) {
    if (__syncthreads_count(alive) == 0) break;
    store_splat<1>(batch, threadIdx.x, next, at.x0, at.y0);
    __syncthreads();
    fetch_splat(args, next, start + kBatch + static_cast<int32_t>(threadIdx.x), end);  // arrives while this batch is blended
    for (int group = 0; group < kBatch && start + group < end; group += 32) {
      unsigned bits = __ballot_sync(kAll, batch.subtiles[group + at.lane] >> at.warp & 1);
      if (!__any_sync(kAll, alive)) break;
      while (bits != 0) {
        int slot[kAhead];
        float alpha[kAhead];
#pragma unroll
        for (int u = 0; u < kAhead; ++u) {
          const bool exists = bits != 0;
          slot[u] = group + (exists ? __ffs(bits) - 1 : 0);
          bits &= bits - 1;
          const Policy splat = batch.splat[slot[u]];
          bool valid;
          const float falloff = splat.falloff(px - splat.x, py - splat.y, valid);
          alpha[u] = exists && valid ? fminf(args.max_alpha, splat.opacity * falloff) : 0.0f;
        }
#pragma unroll
        for (int u = 0; u < kAhead; ++u) {
          const bool hit = alpha[u] >= kMinAlpha && alive;
          const float after = transmittance * (1.0f - alpha[u]);
          const bool stop = hit && after <= kMinTransmittance, counts = hit && !stop;
          alive = alive && !stop;
          const float weight = counts ? alpha[u] * transmittance : 0.0f;
          gathered.visit(counts, weight, batch.value[slot[u]], transmittance, after, batch.splat[slot[u]].depth);
          transmittance = counts ? after : transmittance;
          last = counts ? start + slot[u] + 1 : last;
        }
      }
    }
    if (args.states && start + kBatch < end) {
      float* state = state_of<D>(args, at, tile, (start - begin) / kBatch, 0);
#pragma unroll
      for (int d = 0; d < D; ++d) state[d * LUXEL_TILE * LUXEL_TILE] = gathered.sums[d];
      state[D * LUXEL_TILE * LUXEL_TILE] = transmittance;
    }
  }
  if (!at.inside(0)) return;
  const float* background = args.background ? in<float>(args.background) + D * at.camera : nullptr;
  float* image = out<float>(args.image) + at.pixel * D;
#pragma unroll
  for (int d = 0; d < D; ++d) image[d] = background ? fmaf(transmittance, background[d], gathered.sums[d]) : gathered.sums[d];
  out<float>(args.transmittance)[at.pixel] = transmittance;
  args.last[at.pixel] = last;
  args.contributors[at.pixel] = gathered.seen;
  if (kMedian) out<float>(args.median_depth)[at.pixel] = gathered.median;
}

// Sums P numbers over the warp at once; lane l ends with the sum of number l / (32 / P).
template <int P> __device__ __forceinline__ float transpose_sum(float (&v)[P], int lane) {
  int bit = 16;
#pragma unroll
  for (int half = P / 2; half >= 1; half /= 2, bit /= 2) {
    const bool upper = lane & bit;
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const float sent = upper ? v[i] : v[i + half], kept = upper ? v[i + half] : v[i];
      v[i] = kept + __shfl_xor_sync(kAll, sent, bit);
    }
  }
#pragma unroll
  for (; bit >= 1; bit /= 2) v[0] += __shfl_xor_sync(kAll, v[0], bit);
  return v[0];
}

constexpr int power_of_two_from(int n) { return n <= 4 ? 4 : (n <= 8 ? 8 : 16); }

template <typename Policy, int D, bool kAbsolute, int R>
__global__ void __launch_bounds__(Shape<R>::kThreads) blend_bwd_kernel(const luxel_blend_args args) {
  __shared__ Batch<Policy, D> batch;
  const int2 piece = reinterpret_cast<const int2*>(args.plan + 2 * static_cast<int64_t>(tiles_of(args)))[blockIdx.x];
  const int tile = piece.x;
  if (tile < 0) return;
  const Place<R> at(args, tile);
  const int32_t start = args.ranges[2 * tile] + piece.y * kBatch;
  const int32_t end = min(start + kBatch, args.ranges[2 * tile + 1]);
  const bool whole = end == args.ranges[2 * tile + 1];  // the last piece ends where the pixels did
  const float px = static_cast<float>(at.x) + 0.5f, py = static_cast<float>(at.y) + 0.5f;
  float transmittance[R], behind[R], g_image[R][D] = {};
  int32_t last[R] = {}, thread_last = 0;
  const float* background = args.background ? in<float>(args.background) + D * at.camera : nullptr;
#pragma unroll
  for (int r = 0; r < R; ++r) {
    transmittance[r] = 1.0f;
    behind[r] = 0.0f;
    if (!at.inside(r)) continue;
    const int64_t pixel = at.pixel_at(r);
    last[r] = args.last[pixel];
    thread_last = max(thread_last, last[r]);
  }
  if (piece.y > 0 && __syncthreads_or(thread_last > start) == 0) return;
#pragma unroll
  for (int r = 0; r < R; ++r) {
    if (!at.inside(r)) continue;
    const int64_t pixel = at.pixel_at(r);
    const float t_end = in<float>(args.transmittance)[pixel];
    // behind: slope of the loss along what lies behind this piece, times T
    float slope = args.g_transmittance ? in<float>(args.g_transmittance)[pixel] * t_end : 0.0f;
    const float* state = whole ? nullptr : state_of<D>(args, at, tile, piece.y, r);
#pragma unroll
    for (int d = 0; d < D; ++d) {
      const float g = g_image[r][d] = in<float>(args.g_image)[pixel * D + d];
      if (!whole)
        slope = fmaf(g, in<float>(args.final_image)[pixel * D + d] - state[d * LUXEL_TILE * LUXEL_TILE], slope);
      else if (background)
        slope = fmaf(g * t_end, background[d], slope);
    }
    transmittance[r] = whole ? t_end : state[D * LUXEL_TILE * LUXEL_TILE];
    behind[r] = slope;
  }
  int32_t warp_last = thread_last;
  for (int bit = 16; bit >= 1; bit /= 2) warp_last = max(warp_last, __shfl_xor_sync(kAll, warp_last, bit));
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const int slot = threadIdx.x + r * Shape<R>::kThreads;
    Fetched<D> splat;
    fetch_splat(args, splat, start + slot, end);
    store_splat<R>(batch, slot, splat, at.x0, at.y0);
  }
  __syncthreads();
  for (int group = (end - start - 1) / 32 * 32; group >= 0; group -= 32) {
    if (start + group >= warp_last) continue;
    unsigned bits = __ballot_sync(kAll, batch.subtiles[group + at.lane] >> at.warp & 1);
    while (bits != 0) {
      const int top = 31 - __clz(bits);
      bits &= ~(1u << top);
      const int slot = group + top;
      const Policy splat = batch.splat[slot];
      const float dx = px - splat.x;
      float falloff[R], alpha[R];
      bool counts[R], any = false;
#pragma unroll
      for (int r = 0; r < R; ++r) {
        bool valid;
        falloff[r] = splat.falloff(dx, py + static_cast<float>(4 * r) - splat.y, valid);
        alpha[r] = fminf(args.max_alpha, splat.opacity * falloff[r]);
        counts[r] = valid && alpha[r] >= kMinAlpha && start + slot < last[r];
        any |= counts[r];
      }
      if (!__any_sync(kAll, any)) continue;
      float g_splat[LUXEL_SPLAT] = {}, g_value[power_of_two_from(D)] = {};
#pragma unroll
      for (int r = 0; r < R; ++r) {
        if (!counts[r]) continue;
        const float inverse = __fdividef(1.0f, 1.0f - alpha[r]);
        transmittance[r] *= inverse;
        const float weight = alpha[r] * transmittance[r];
        float slope = 0.0f;
#pragma unroll
        for (int d = 0; d < D; ++d) {
          slope = fmaf(g_image[r][d], batch.value[slot][d], slope);
          g_value[d] = fmaf(weight, g_image[r][d], g_value[d]);
        }
        if (splat.opacity * falloff[r] <= args.max_alpha) {
          const float g_alpha = transmittance[r] * slope - behind[r] * inverse;
          const auto g = splat.alpha_vjp(dx, py + static_cast<float>(4 * r) - splat.y, falloff[r], g_alpha);
          g_splat[0] += g.x;
          g_splat[1] += g.y;
          g_splat[2] += g.opacity;
          g_splat[4] += g.a;
          g_splat[5] += g.b;
          g_splat[6] += g.c;
          if (kAbsolute) {
            g_splat[3] += fabsf(g.x);
            g_splat[7] += fabsf(g.y);
          }
        }
        behind[r] = fmaf(weight, slope, behind[r]);
      }
      constexpr int P = power_of_two_from(D), kLanes = 32 / P;
      const float splat_sum = transpose_sum(g_splat, at.lane);
      const float value_sum = transpose_sum(g_value, at.lane);
      const int64_t id = batch.id[slot];
      // Lanes 0, 4, 8, ... hold the splat's eight sums; lane 1 of each group of 32 / P holds a value's.
      const int number = at.lane / 4, channel = at.lane / kLanes;
      const bool has_splat = at.lane % 4 == 0 && (kAbsolute || number % 4 != 3);
      const bool has_value = at.lane % kLanes == 1 && channel < D;
      if (has_splat || has_value) {
        const float sum = has_splat ? splat_sum : value_sum;
        if (args.deterministic)  // kept per warp, see sum_rows_kernel
          out<float>(args.workspace)[((static_cast<int64_t>(start) + slot) * kBackwardWarps + at.warp) * (LUXEL_SPLAT + D) +
                                     (has_splat ? number : LUXEL_SPLAT + channel)] = sum;
        else
          atomicAdd(has_splat ? out<float>(args.g_splats) + LUXEL_SPLAT * id + number : out<float>(args.g_values) + D * id + channel, sum);
      }
    }
  }
}

// Deterministic mode: gradients wait in rows [instance, warp, number]; instances are sorted by splat, stably, and a warp
// adds up what belongs to one splat in that order.
struct Ordered {
  float* rows;
  int32_t *positions, *ids_sorted, *positions_sorted;
  void* sorting;
  size_t rows_bytes, sorting_bytes;
  int64_t bytes;
};

inline int index_bits(const luxel_blend_args& args) {
  int bits = 1;
  while (bits < 31 && (int64_t(1) << bits) < static_cast<int64_t>(args.count) * args.cameras) ++bits;
  return bits;
}

inline cudaError_t lay_out(const luxel_blend_args& args, Ordered& o) {
  Layout layout;
  const int64_t numbers = args.capacity * kBackwardWarps * (LUXEL_SPLAT + args.channels);
  o.rows_bytes = sizeof(float) * numbers;
  o.rows = layout.take<float>(args.workspace, numbers);
  o.positions = layout.take<int32_t>(args.workspace, args.capacity);
  o.ids_sorted = layout.take<int32_t>(args.workspace, args.capacity);
  o.positions_sorted = layout.take<int32_t>(args.workspace, args.capacity);
  const cudaError_t status = cub::DeviceRadixSort::SortPairs(nullptr, o.sorting_bytes, args.instances, o.ids_sorted, o.positions,
                                                             o.positions_sorted, args.capacity, 0, index_bits(args));
  o.sorting = layout.take<char>(args.workspace, static_cast<int64_t>(o.sorting_bytes));
  o.bytes = layout.used;
  return status;
}

__global__ void number_kernel(int32_t* positions, int64_t count) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (i < count) positions[i] = static_cast<int32_t>(i);
}

template <int D> __global__ void __launch_bounds__(256) sum_rows_kernel(const luxel_blend_args args, const Ordered o) {
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x) / 32;
  const int lane = threadIdx.x & 31;
  if (first >= args.capacity || lane >= LUXEL_SPLAT + D) return;
  const int32_t id = o.ids_sorted[first];
  // Slots past the last instance hold anything; their rows are zeros.
  if (id < 0 || id >= static_cast<int64_t>(args.count) * args.cameras || (first > 0 && o.ids_sorted[first - 1] == id)) return;
  float sum = 0.0f;
  for (int64_t i = first; i < args.capacity && o.ids_sorted[i] == id; ++i) {
    const float* row = o.rows + static_cast<int64_t>(o.positions_sorted[i]) * kBackwardWarps * (LUXEL_SPLAT + D) + lane;
#pragma unroll
    for (int warp = 0; warp < kBackwardWarps; ++warp) sum += row[warp * (LUXEL_SPLAT + D)];
  }
  if (lane < LUXEL_SPLAT)
    out<float>(args.g_splats)[LUXEL_SPLAT * static_cast<int64_t>(id) + lane] += sum;
  else
    out<float>(args.g_values)[D * static_cast<int64_t>(id) + lane - LUXEL_SPLAT] += sum;
}

// d image / d background is T_end: a sum over all pixels, apart from any list of splats.
template <int D> __global__ void __launch_bounds__(256) background_bwd_kernel(const luxel_blend_args args) {
  const int64_t pixels = static_cast<int64_t>(args.width) * args.height;
  const int camera = blockIdx.y;
  float g[D] = {};
  for (int64_t p = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; p < pixels;
       p += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const int64_t pixel = camera * pixels + p;
    const float t_end = in<float>(args.transmittance)[pixel];
#pragma unroll
    for (int d = 0; d < D; ++d) g[d] = fmaf(in<float>(args.g_image)[pixel * D + d], t_end, g[d]);
  }
#pragma unroll
  for (int d = 0; d < D; ++d) {
    for (int bit = 16; bit >= 1; bit /= 2) g[d] += __shfl_xor_sync(kAll, g[d], bit);
    if ((threadIdx.x & 31) == 0) atomicAdd(out<float>(args.g_background) + D * camera + d, g[d]);
  }
}

template <typename Policy, int D> void forward(const luxel_blend_args& args) {
  const cudaStream_t stream = static_cast<cudaStream_t>(args.stream);
  constexpr int kThreads = Shape<1>::kThreads;
  const unsigned tiles = static_cast<unsigned>(tiles_of(args));
  if (args.median_depth)
    blend_fwd_kernel<Policy, D, true><<<tiles, kThreads, 0, stream>>>(args);
  else
    blend_fwd_kernel<Policy, D, false><<<tiles, kThreads, 0, stream>>>(args);
}

template <typename Policy, int D> int backward(const luxel_blend_args& args) {
  const cudaStream_t stream = static_cast<cudaStream_t>(args.stream);
  constexpr int R = kBackwardPixels;
  const unsigned pieces = static_cast<unsigned>(tiles_of(args) + args.capacity / kBatch);
  Ordered o = {};
  const bool ordered = args.deterministic && args.capacity > 0;
  if (ordered) {
    LUXEL_CUDA(lay_out(args, o));
    if (args.workspace_bytes < o.bytes) return fail("workspace too small");
    LUXEL_CUDA(cudaMemsetAsync(o.rows, 0, o.rows_bytes, stream));
  }
  if (args.absolute)
    blend_bwd_kernel<Policy, D, true, R><<<pieces, Shape<R>::kThreads, 0, stream>>>(args);
  else
    blend_bwd_kernel<Policy, D, false, R><<<pieces, Shape<R>::kThreads, 0, stream>>>(args);
  if (ordered) {
    number_kernel<<<static_cast<unsigned>((args.capacity + 255) / 256), 256, 0, stream>>>(o.positions, args.capacity);
    LUXEL_CUDA(cub::DeviceRadixSort::SortPairs(o.sorting, o.sorting_bytes, args.instances, o.ids_sorted, o.positions,
                                               o.positions_sorted, args.capacity, 0, index_bits(args), stream));
    sum_rows_kernel<D><<<static_cast<unsigned>((args.capacity + 7) / 8), 256, 0, stream>>>(args, o);
  }
  // One warp where the order must be fixed.
  if (args.g_background)
    background_bwd_kernel<D><<<dim3(args.deterministic ? 1 : 128, args.cameras), args.deterministic ? 32 : 256, 0, stream>>>(args);
  return 0;
}

// Bytes that a backward pass needs; pointers are not looked at.
inline int64_t blend_workspace(const luxel_blend_args& args) {
  if (!args.deterministic || args.capacity == 0) return 0;
  Ordered o = {};
  LUXEL_CUDA(lay_out(args, o));
  return o.bytes;
}

template <typename Policy> int blend(const luxel_blend_args& args, bool back) {
  if (args.dtype != 0) return fail("the GPU kernels take float32");
  LUXEL_CUDA(cudaSetDevice(args.device));
  switch (args.channels) {
#define LUXEL_CHANNELS(D) \
  case D:                                                 \
    if (!back)                                            \
      forward<Policy, D>(args);                           \
    else if (const int status = backward<Policy, D>(args); status < 0) \
      return status;                                      \
    break;
    LUXEL_CHANNELS(3)
    LUXEL_CHANNELS(4)
    LUXEL_CHANNELS(6)
    LUXEL_CHANNELS(7)
    LUXEL_CHANNELS(8)
    LUXEL_CHANNELS(16)
#undef LUXEL_CHANNELS
    default: return fail("%d channels are not one of 3, 4, 6, 7, 8, 16", args.channels);
  }
  LUXEL_LAUNCHED(back ? "blend_bwd" : "blend_fwd");
  return 0;
}

}  // namespace
}  // namespace luxel
