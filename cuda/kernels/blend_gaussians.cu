// blend_gaussians on the GPU: a block per 16x16 tile, a warp per 8x4 subtile.
//
// A batch of splats is loaded by the whole block; each thread tests its splat against the eight subtiles once, so that
// a warp only walks the splats that can reach its 32 pixels. The backward pass walks the same lists from the back and
// reduces each splat's gradient over the warp by a transposing butterfly (9 shuffles for 8 numbers instead of 40)
// before one instruction adds them to memory.
#include "../abi.h"
#include "../math/splat.h"
#include "error.h"
#include "project_gaussians.h"

namespace luxel {
namespace {

// Tunables of this kernel family.
constexpr int kThreads = 256;                     // one per pixel of a tile, and the size of a batch of splats
constexpr int kSubtileW = 8, kSubtileH = 4;       // pixels of a warp
constexpr int kSubtilesX = LUXEL_TILE / kSubtileW;
constexpr int kSubtilesY = LUXEL_TILE / kSubtileH;
constexpr int kWarps = kThreads / 32;
static_assert(kSubtileW * kSubtileH == 32 && kSubtilesX * kSubtilesY == kWarps, "one subtile per warp");
constexpr unsigned kAll = ~0u;
constexpr float kLog2e = 1.44269504088896341f;

template <int D> struct Batch {
  float4 place[kThreads];  // x, y, opacity, depth
  float4 conic[kThreads];  // a/2, b, c/2, each times log2(e); the last is not used
  float value[kThreads][D];
  int32_t id[kThreads];
  uint8_t subtiles[kThreads];  // bit w: may reach the pixels of warp w
};

// Which subtiles of the tile at (x0, y0) the splat can reach.
__device__ __forceinline__ unsigned reachable_subtiles(const float* splat, float x0, float y0) {
  const SplatEllipse<float> e = SplatEllipse<float>::of(splat);
  unsigned mask = 0;
#pragma unroll
  for (int row = 0; row < kSubtilesY; ++row) {
    float left, right;
    const float top = y0 + static_cast<float>(row * kSubtileH) + 0.5f;
    if (!e.band(top, top + static_cast<float>(kSubtileH - 1), left, right)) continue;
#pragma unroll
    for (int column = 0; column < kSubtilesX; ++column) {
      const float first = x0 + static_cast<float>(column * kSubtileW) + 0.5f;
      if (right >= first && left <= first + static_cast<float>(kSubtileW - 1)) mask |= 1u << (row * kSubtilesX + column);
    }
  }
  return mask;
}

template <int D>
__device__ __forceinline__ void load_splat(const luxel_blend_gaussians_args& args, Batch<D>& batch, int slot, int64_t instance,
                                           int32_t end, float x0, float y0) {
  unsigned mask = 0;
  if (instance < end) {
    const int32_t id = args.instances[instance];
    const float4* splat = reinterpret_cast<const float4*>(in<float>(args.splats) + LUXEL_SPLAT * static_cast<int64_t>(id));
    const float4 place = splat[0], shape = splat[1];
    const float flat[7] = {place.x, place.y, place.z, place.w, shape.x, shape.y, shape.z};
    mask = reachable_subtiles(flat, x0, y0);
    batch.place[slot] = place;
    batch.conic[slot] = {0.5f * kLog2e * shape.x, kLog2e * shape.y, 0.5f * kLog2e * shape.z, 0.0f};
    const float* value = in<float>(args.values) + D * static_cast<int64_t>(id);
#pragma unroll
    for (int d = 0; d < D; ++d) batch.value[slot][d] = value[d];
    batch.id[slot] = id;
  }
  batch.subtiles[slot] = static_cast<uint8_t>(mask);
}

__device__ __forceinline__ float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// exp(-power) and power (in units of log2), written out so that both passes round alike.
__device__ __forceinline__ float falloff_at(float4 conic, float dx, float dy, float& power) {
  power = fmaf(conic.y * dx, dy, fmaf(conic.x * dx, dx, conic.z * dy * dy));
  return exp2_of(-power);
}

struct Place {
  int camera, x0, y0, x, y, warp, lane;
  bool inside;
  int64_t pixel;

  __device__ explicit Place(const luxel_blend_gaussians_args& args) {
    const int tiles_x = tiles_along(args.width), tiles_y = tiles_along(args.height);
    const int tile = blockIdx.x % (tiles_x * tiles_y);
    camera = blockIdx.x / (tiles_x * tiles_y);
    x0 = tile % tiles_x * LUXEL_TILE;
    y0 = tile / tiles_x * LUXEL_TILE;
    warp = threadIdx.x >> 5;
    lane = threadIdx.x & 31;
    x = x0 + warp % kSubtilesX * kSubtileW + lane % kSubtileW;
    y = y0 + warp / kSubtilesX * kSubtileH + lane / kSubtileW;
    inside = x < args.width && y < args.height;
    pixel = (static_cast<int64_t>(camera) * args.height + y) * args.width + x;
  }
};

template <int D, bool kMedian>
__global__ void __launch_bounds__(kThreads) blend_gaussians_fwd_kernel(const luxel_blend_gaussians_args args) {
  __shared__ Batch<D> batch;
  const Place at(args);
  const int32_t begin = args.ranges[2 * blockIdx.x], end = args.ranges[2 * blockIdx.x + 1];
  const float px = static_cast<float>(at.x) + 0.5f, py = static_cast<float>(at.y) + 0.5f;
  float transmittance = 1.0f, sums[D] = {}, median = 0.0f;
  int32_t last = 0, seen = 0;
  bool alive = at.inside;
  for (int32_t start = begin; start < end; start += kThreads) {
    if (__syncthreads_count(alive) == 0) break;
    load_splat(args, batch, threadIdx.x, static_cast<int64_t>(start) + threadIdx.x, end, at.x0, at.y0);
    __syncthreads();
    for (int group = 0; group < kThreads && start + group < end; group += 32) {
      unsigned bits = __ballot_sync(kAll, batch.subtiles[group + at.lane] >> at.warp & 1);
      if (!__any_sync(kAll, alive)) break;
      while (bits != 0) {
        const int slot = group + __ffs(bits) - 1;
        bits &= bits - 1;
        const float4 place = batch.place[slot];
        float power;
        const float falloff = falloff_at(batch.conic[slot], px - place.x, py - place.y, power);
        const float alpha = fminf(args.max_alpha, place.z * falloff);
        if (!(power >= 0.0f && alpha >= kMinAlpha && alive)) continue;
        const float after = transmittance * (1.0f - alpha);
        if (after <= kMinTransmittance) {
          alive = false;
          continue;
        }
        const float weight = alpha * transmittance;
#pragma unroll
        for (int d = 0; d < D; ++d) sums[d] = fmaf(weight, batch.value[slot][d], sums[d]);
        if (kMedian && transmittance > 0.5f && after <= 0.5f) median = place.w;
        transmittance = after;
        last = start + slot + 1;
        ++seen;
      }
    }
  }
  if (!at.inside) return;
  const float* background = args.background ? in<float>(args.background) + D * at.camera : nullptr;
  float* image = out<float>(args.image) + at.pixel * D;
#pragma unroll
  for (int d = 0; d < D; ++d) image[d] = background ? fmaf(transmittance, background[d], sums[d]) : sums[d];
  out<float>(args.transmittance)[at.pixel] = transmittance;
  args.last[at.pixel] = last;
  args.contributors[at.pixel] = seen;
  if (kMedian) out<float>(args.median_depth)[at.pixel] = median;
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

template <int D, bool kAbsolute>
__global__ void __launch_bounds__(kThreads) blend_gaussians_bwd_kernel(const luxel_blend_gaussians_args args) {
  __shared__ Batch<D> batch;
  __shared__ int32_t block_last;
  const Place at(args);
  const int32_t begin = args.ranges[2 * blockIdx.x], end_of_list = args.ranges[2 * blockIdx.x + 1];
  const float px = static_cast<float>(at.x) + 0.5f, py = static_cast<float>(at.y) + 0.5f;
  float transmittance = 1.0f, behind = 0.0f, g_image[D] = {};
  int32_t last = 0;
  if (at.inside) {
    transmittance = in<float>(args.transmittance)[at.pixel];
    last = args.last[at.pixel];
    const float* background = args.background ? in<float>(args.background) + D * at.camera : nullptr;
    float slope = args.g_transmittance ? in<float>(args.g_transmittance)[at.pixel] : 0.0f;
#pragma unroll
    for (int d = 0; d < D; ++d) {
      g_image[d] = in<float>(args.g_image)[at.pixel * D + d];
      if (background) slope = fmaf(g_image[d], background[d], slope);
    }
    behind = slope * transmittance;
  }
  if (args.g_background) {
#pragma unroll
    for (int d = 0; d < D; ++d) {
      float g = at.inside ? g_image[d] * transmittance : 0.0f;
      for (int bit = 16; bit >= 1; bit /= 2) g += __shfl_xor_sync(kAll, g, bit);
      if (at.lane == 0 && g != 0.0f) atomicAdd(out<float>(args.g_background) + D * at.camera + d, g);
    }
  }
  int32_t warp_last = last;
  for (int bit = 16; bit >= 1; bit /= 2) warp_last = max(warp_last, __shfl_xor_sync(kAll, warp_last, bit));
  if (threadIdx.x == 0) block_last = 0;
  __syncthreads();
  if (at.lane == 0) atomicMax(&block_last, warp_last);
  __syncthreads();
  const int32_t end = min(end_of_list, block_last);
  if (end <= begin) return;

  for (int32_t start = begin + (end - 1 - begin) / kThreads * kThreads; start >= begin; start -= kThreads) {
    __syncthreads();
    load_splat(args, batch, threadIdx.x, static_cast<int64_t>(start) + threadIdx.x, end, at.x0, at.y0);
    __syncthreads();
    for (int group = (min(end - start, kThreads) - 1) / 32 * 32; group >= 0; group -= 32) {
      if (start + group >= warp_last) continue;
      unsigned bits = __ballot_sync(kAll, batch.subtiles[group + at.lane] >> at.warp & 1);
      while (bits != 0) {
        const int top = 31 - __clz(bits);
        bits &= ~(1u << top);
        const int slot = group + top;
        const float4 place = batch.place[slot], conic = batch.conic[slot];
        const float dx = px - place.x, dy = py - place.y;
        float power;
        const float falloff = falloff_at(conic, dx, dy, power);
        const float raw = place.z * falloff, alpha = fminf(args.max_alpha, raw);
        const bool counts = power >= 0.0f && alpha >= kMinAlpha && start + slot < last;
        if (!__any_sync(kAll, counts)) continue;
        float g_splat[LUXEL_SPLAT] = {}, g_value[power_of_two_from(D)] = {};
        if (counts) {
          const float inverse = __fdividef(1.0f, 1.0f - alpha);
          transmittance *= inverse;
          const float weight = alpha * transmittance;
          float slope = 0.0f;
#pragma unroll
          for (int d = 0; d < D; ++d) {
            slope = fmaf(g_image[d], batch.value[slot][d], slope);
            g_value[d] = weight * g_image[d];
          }
          if (raw <= args.max_alpha) {
            const float g_alpha = transmittance * slope - behind * inverse;
            const float g_power = -raw * g_alpha;
            const float a = conic.x * (2.0f / kLog2e), b = conic.y * (1.0f / kLog2e), c = conic.z * (2.0f / kLog2e);
            g_splat[0] = -g_power * (a * dx + b * dy);
            g_splat[1] = -g_power * (c * dy + b * dx);
            g_splat[2] = falloff * g_alpha;
            g_splat[4] = 0.5f * g_power * dx * dx;
            g_splat[5] = g_power * dx * dy;
            g_splat[6] = 0.5f * g_power * dy * dy;
            if (kAbsolute) {
              g_splat[3] = fabsf(g_splat[0]);
              g_splat[7] = fabsf(g_splat[1]);
            }
          }
          behind = fmaf(weight, slope, behind);
        }
        constexpr int P = power_of_two_from(D), kLanes = 32 / P;
        const float splat_sum = transpose_sum(g_splat, at.lane);
        const float value_sum = transpose_sum(g_value, at.lane);
        const int64_t id = batch.id[slot];
        // Lanes 0, 4, 8, ... hold the splat's eight sums; lane 1 of each group of 32 / P holds a value's.
        const int number = at.lane / 4, channel = at.lane / kLanes;
        const bool has_splat = at.lane % 4 == 0 && (kAbsolute || number % 4 != 3);
        const bool has_value = at.lane % kLanes == 1 && channel < D;
        if (has_splat || has_value)
          atomicAdd(has_splat ? out<float>(args.g_splats) + LUXEL_SPLAT * id + number : out<float>(args.g_values) + D * id + channel,
                    has_splat ? splat_sum : value_sum);
      }
    }
  }
}

unsigned blocks_of(const luxel_blend_gaussians_args& args) {
  return static_cast<unsigned>(static_cast<int64_t>(tiles_along(args.width)) * tiles_along(args.height) * args.cameras);
}

template <int D> void forward(const luxel_blend_gaussians_args& args) {
  const cudaStream_t stream = static_cast<cudaStream_t>(args.stream);
  if (args.median_depth)
    blend_gaussians_fwd_kernel<D, true><<<blocks_of(args), kThreads, 0, stream>>>(args);
  else
    blend_gaussians_fwd_kernel<D, false><<<blocks_of(args), kThreads, 0, stream>>>(args);
}

template <int D> void backward(const luxel_blend_gaussians_args& args) {
  const cudaStream_t stream = static_cast<cudaStream_t>(args.stream);
  if (args.absolute)
    blend_gaussians_bwd_kernel<D, true><<<blocks_of(args), kThreads, 0, stream>>>(args);
  else
    blend_gaussians_bwd_kernel<D, false><<<blocks_of(args), kThreads, 0, stream>>>(args);
}

int run(const luxel_blend_gaussians_args& args, bool back) {
  if (args.dtype != 0) return fail("the GPU kernels take float32");
  LUXEL_CUDA(cudaSetDevice(args.device));
  switch (args.channels) {
#define LUXEL_CHANNELS(D) \
  case D: back ? backward<D>(args) : forward<D>(args); break;
    LUXEL_CHANNELS(3)
    LUXEL_CHANNELS(4)
    LUXEL_CHANNELS(6)
    LUXEL_CHANNELS(7)
    LUXEL_CHANNELS(8)
    LUXEL_CHANNELS(16)
#undef LUXEL_CHANNELS
    default: return fail("%d channels are not one of 3, 4, 6, 7, 8, 16", args.channels);
  }
  LUXEL_LAUNCHED(back ? "blend_gaussians_bwd" : "blend_gaussians_fwd");
  return 0;
}

}  // namespace
}  // namespace luxel

extern "C" {

int64_t luxel_blend_gaussians_workspace(const luxel_blend_gaussians_args*) { return 0; }
int luxel_blend_gaussians_fwd(const luxel_blend_gaussians_args* args) { return luxel::run(*args, false); }
int luxel_blend_gaussians_bwd(const luxel_blend_gaussians_args* args) { return luxel::run(*args, true); }
}
