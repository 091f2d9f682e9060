// photometric_loss on the GPU: a block walks down a strip of an image, so that each pixel is read about once.
//
// RGB is interleaved, and a row is taken as 3 W floats: a window reaches 5 pixels = 15 floats to each side and steps
// by 3. Every thread owns one such column. Of each row it takes the horizontal window from shared memory and stores
// the last 11 results in registers, from which the vertical window comes. The ring's index is known at compile
// time because rows are taken 11 at a time.
#include "abi/train.h"
#include "math/train/ssim.h"
#include "device/launch.cuh"

namespace luxel {
namespace {

// Tunables. Threads: columns of a strip; more need fewer halo loads, fewer fit the width better. Blocks: resident
// blocks per multiprocessor, which limit the registers.
constexpr int kThreads = 128;
constexpr int kForwardBlocks = 5, kBackwardBlocks = 6;

constexpr int kHalo = 3 * kSsimRadius;
constexpr int kRowFloats = kThreads + 2 * kHalo;
constexpr int kSums = 4;  // per block: w |x - y|, v SSIM, w, v; v is w less what `valid` leaves out

struct Image {  // of one camera, and the strip of it that a block owns
  int floats, height, column, first, last;
  int64_t start;
  __device__ Image(int width, int height_, int rows)
      : floats(3 * width), height(height_), column(static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x)),
        first(static_cast<int>(blockIdx.y) * rows), last(min(first + rows, height_)),
        start(static_cast<int64_t>(blockIdx.z) * 3 * width * height_) {}
  __device__ bool holds(int row, int at) const { return row >= 0 && row < height && at >= 0 && at < floats; }
  __device__ int offset(int row, int at) const { return row * floats + at; }  // the host checks that it fits
};

// Vertical window: ring[(newest + 1) % 11] is the oldest of 11 rows.
template <int newest> __device__ __forceinline__ float vertical(const float (&ring)[kSsimTaps]) {
  float sum = 0;
#pragma unroll
  for (int k = 0; k < kSsimTaps; ++k) sum += static_cast<float>(ssim_tap(k)) * ring[(newest + 1 + k) % kSsimTaps];
  return sum;
}

// Calls body(step<k>, row) for the input rows of a strip, 11 unrolled at a time; body returns false to end.
template <int k> struct Step { static constexpr int value = k; };
template <int k, typename Body> __device__ __forceinline__ bool eleven(Body& body, int row) {
  if constexpr (k < kSsimTaps) {
    if (!body(Step<k>(), row + k)) return false;
    return eleven<k + 1>(body, row);
  } else {
    return true;
  }
}
template <typename Body> __device__ __forceinline__ void walk(int first, Body body) {
  for (int row = first; eleven<0>(body, row); row += kSsimTaps) {}
}

struct ForwardJob {
  const float *x, *y, *weight;
  float *partials, *sums;
  int64_t plane;
  int width, height, rows, valid;
};

template <bool kWeighted> __device__ __forceinline__ float2 load_pair(const ForwardJob& job, const Image& image, int row, int at) {
  if (!image.holds(row, at)) return make_float2(0.0f, 0.0f);
  const int i = image.offset(row, at);
  const float y = job.y[image.start + i];
  if (kWeighted && !(job.weight[image.start / 3 + i / 3] > 0)) return make_float2(y, y);
  return make_float2(job.x[image.start + i], y);
}

__device__ __forceinline__ SsimMoments<float> horizontal_moments(const float2* row) {
  constexpr float centre = static_cast<float>(ssim_tap(kSsimRadius));
  const float2 c = row[kHalo];
  SsimMoments<float> m = {centre * c.x, centre * c.y, centre * (c.x * c.x + c.y * c.y), centre * (c.x * c.y)};
#pragma unroll
  for (int k = 0; k < kSsimRadius; ++k) {
    const float tap = static_cast<float>(ssim_tap(k));
    const float2 a = row[3 * k], b = row[2 * kHalo - 3 * k];
    m.x += tap * (a.x + b.x);
    m.y += tap * (a.y + b.y);
    m.square += tap * (a.x * a.x + b.x * b.x + a.y * a.y + b.y * b.y);
    m.product += tap * (a.x * a.y + b.x * b.y);
  }
  return m;
}

// Sum over the block, in a fixed order; valid in thread 0.
__device__ __forceinline__ float block_sum(float value, float* scratch) {
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(~0u, value, offset);
  __syncthreads();
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0;
  for (int warp = 0; warp < kThreads / 32; ++warp) sum += scratch[warp];
  return sum;
}

template <bool kWeighted>
__global__ void __launch_bounds__(kThreads, kForwardBlocks) photometric_loss_fwd_kernel(const ForwardJob job) {
  __shared__ float2 rows[2][kRowFloats];
  __shared__ float scratch[kThreads / 32];
  const Image image(job.width, job.height, job.rows);
  const int thread = threadIdx.x, left = image.column - kHalo;
  const bool has_halo = thread < 2 * kHalo, owns = image.column < image.floats;
  const int pixel_column = image.column / 3;
  const bool inner_column = !job.valid || (pixel_column >= kSsimRadius && pixel_column < job.width - kSsimRadius);
  float l1 = 0, similarity = 0, sum_w = 0, sum_v = 0;
  float ring_x[kSsimTaps], ring_y[kSsimTaps], ring_square[kSsimTaps], ring_product[kSsimTaps];

  float2 next = load_pair<kWeighted>(job, image, image.first - kSsimRadius, left), next_halo = make_float2(0.0f, 0.0f);
  if (has_halo) next_halo = load_pair<kWeighted>(job, image, image.first - kSsimRadius, left + kThreads);
  walk(image.first - kSsimRadius, [&](auto step, int row) {
    constexpr int k = decltype(step)::value;
    const int out = row - kSsimRadius;
    if (out >= image.last) return false;
    float2* line = rows[row & 1];
    line[thread] = next;
    if (has_halo) line[kThreads + thread] = next_halo;
    __syncthreads();  // the other line is free: all have read it before they came here
    next = load_pair<kWeighted>(job, image, row + 1, left);
    if (has_halo) next_halo = load_pair<kWeighted>(job, image, row + 1, left + kThreads);

    const SsimMoments<float> m = horizontal_moments(line + thread);
    ring_x[k] = m.x;
    ring_y[k] = m.y;
    ring_square[k] = m.square;
    ring_product[k] = m.product;
    if (owns && row >= image.first && row < image.last) {
      const float2 c = line[thread + kHalo];
      float w = 1;
      if (kWeighted) w = fmaxf(job.weight[image.start / 3 + image.offset(row, image.column) / 3], 0.0f);
      l1 += w * fabsf(c.x - c.y);
      sum_w += w;
    }
    if (owns && out >= image.first) {
      float v = inner_column && (!job.valid || (out >= kSsimRadius && out < job.height - kSsimRadius)) ? 1.0f : 0.0f;
      const int at = image.offset(out, image.column);
      if (kWeighted) v *= fmaxf(job.weight[image.start / 3 + at / 3], 0.0f);
      const SsimMoments<float> window = {vertical<k>(ring_x), vertical<k>(ring_y), vertical<k>(ring_square),
                                         vertical<k>(ring_product)};
      float g_x, g_square, g_product;
      similarity += v * ssim_vjp(window, 1.0f, g_x, g_square, g_product);
      sum_v += v;
      if (job.partials) {
        (job.partials + image.start)[at] = v * g_x;
        (job.partials + job.plane + image.start)[at] = v * g_square;
        (job.partials + 2 * job.plane + image.start)[at] = v * g_product;
      }
    }
    return true;
  });

  const float totals[kSums] = {block_sum(l1, scratch), block_sum(similarity, scratch), block_sum(sum_w, scratch),
                               block_sum(sum_v, scratch)};
  if (thread == 0) {
    const int64_t block = (static_cast<int64_t>(blockIdx.z) * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    for (int s = 0; s < kSums; ++s) job.sums[block * kSums + s] = totals[s];
  }
}

__global__ void __launch_bounds__(256) photometric_loss_sum_kernel(const float* sums, int64_t blocks, double ssim_weight,
                                                                   float* loss, float* scales) {
  __shared__ double scratch[kSums][256];
  double total[kSums] = {};
  for (int64_t block = threadIdx.x; block < blocks; block += 256)
    for (int s = 0; s < kSums; ++s) total[s] += sums[block * kSums + s];
  for (int s = 0; s < kSums; ++s) scratch[s][threadIdx.x] = total[s];
  for (int half = 128; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half)
      for (int s = 0; s < kSums; ++s) scratch[s][threadIdx.x] += scratch[s][threadIdx.x + half];
  }
  if (threadIdx.x > 0) return;
  const double w = scratch[2][0], v = scratch[3][0];
  const double by_l1 = w > 0 ? (1 - ssim_weight) / w : 0, by_ssim = v > 0 ? -ssim_weight / v : 0;
  scales[0] = static_cast<float>(by_l1);
  scales[1] = static_cast<float>(by_ssim);
  *loss = static_cast<float>(by_l1 * scratch[0][0] + (v > 0 ? ssim_weight : 0) + by_ssim * scratch[1][0]);
}

struct BackwardJob {
  const float *x, *y, *weight, *partials, *scales, *g_loss;
  float* g_rgb;
  int64_t plane;
  int width, height, rows;
};

struct Triple { float v[3]; };

__device__ __forceinline__ Triple load_partials(const BackwardJob& job, const Image& image, int row, int at) {
  if (!image.holds(row, at)) return {{0.0f, 0.0f, 0.0f}};
  const int i = image.offset(row, at);
  const float* first = job.partials + image.start;
  return {{first[i], (first + job.plane)[i], (first + 2 * job.plane)[i]}};
}

__device__ __forceinline__ float horizontal(const float* row) {
  float sum = static_cast<float>(ssim_tap(kSsimRadius)) * row[kHalo];
#pragma unroll
  for (int k = 0; k < kSsimRadius; ++k) sum += static_cast<float>(ssim_tap(k)) * (row[3 * k] + row[2 * kHalo - 3 * k]);
  return sum;
}

template <bool kWeighted>
__global__ void __launch_bounds__(kThreads, kBackwardBlocks) photometric_loss_bwd_kernel(const BackwardJob job) {
  __shared__ float rows[2][3][kRowFloats];
  const Image image(job.width, job.height, job.rows);
  const int thread = threadIdx.x, left = image.column - kHalo;
  const bool has_halo = thread < 2 * kHalo, owns = image.column < image.floats;
  const float by_l1 = *job.g_loss * job.scales[0], by_ssim = *job.g_loss * job.scales[1];
  float ring_x[kSsimTaps], ring_square[kSsimTaps], ring_product[kSsimTaps];

  Triple next = load_partials(job, image, image.first - kSsimRadius, left), next_halo = {};
  if (has_halo) next_halo = load_partials(job, image, image.first - kSsimRadius, left + kThreads);
  walk(image.first - kSsimRadius, [&](auto step, int row) {
    constexpr int k = decltype(step)::value;
    const int out = row - kSsimRadius;
    if (out >= image.last) return false;
    const auto line = rows[row & 1];
#pragma unroll
    for (int map = 0; map < 3; ++map) {
      line[map][thread] = next.v[map];
      if (has_halo) line[map][kThreads + thread] = next_halo.v[map];
    }
    __syncthreads();
    next = load_partials(job, image, row + 1, left);
    if (has_halo) next_halo = load_partials(job, image, row + 1, left + kThreads);
    const bool writes = owns && out >= image.first;
    const int at = image.offset(out, image.column);
    float x = 0, y = 0, w = 1;
    if (writes) {  // loaded here, used after the windows
      x = (job.x + image.start)[at];
      y = (job.y + image.start)[at];
      if (kWeighted) w = job.weight[image.start / 3 + at / 3];
    }
    ring_x[k] = horizontal(line[0] + thread);
    ring_square[k] = horizontal(line[1] + thread);
    ring_product[k] = horizontal(line[2] + thread);
    if (writes) {
      const float sign = static_cast<float>(x > y) - static_cast<float>(x < y);
      const float by_window = ssim_pixel_vjp(x, y, vertical<k>(ring_x), vertical<k>(ring_square), vertical<k>(ring_product));
      const float g = by_l1 * w * sign + by_ssim * by_window;
      (job.g_rgb + image.start)[at] = !kWeighted || w > 0 ? g : 0.0f;
    }
    return true;
  });
}

// Strips as tall as lets all blocks be resident at once: 10 rows above and below each are read twice. Heights are
// 11 n - 10, full turns of the ring.
struct Grid {
  dim3 blocks;
  int rows;
  Grid(const luxel_photometric_loss_args& args, int resident) {
    const int columns = (3 * args.width + kThreads - 1) / kThreads;
    rows = 12;
    auto strips = [&] { return (args.height + rows - 1) / rows; };
    while (rows < args.height && int64_t(columns) * strips() * args.cameras > resident) rows += kSsimTaps;
    blocks = dim3(columns, strips(), args.cameras);
  }
  int64_t count() const { return int64_t(blocks.x) * blocks.y * blocks.z; }
};

int64_t max_blocks(const luxel_photometric_loss_args& args) { return Grid(args, 1 << 30).count(); }

int check(const luxel_photometric_loss_args& args, const char* stage) {
  if (args.dtype) return fail("%s: the GPU has float32 only", stage);
  if (int64_t(3) * args.width * args.height > 0x7fffffff)
    return fail("%s: an image of %dx%d is too large", stage, args.width, args.height);
  if (args.cameras > 65535) return fail("%s: at most 65535 images at once, got %d", stage, args.cameras);
  return 0;
}

}  // namespace
}  // namespace luxel

extern "C" {

int64_t luxel_photometric_loss_workspace(const luxel_photometric_loss_args* args) {
  return luxel::max_blocks(*args) * luxel::kSums * static_cast<int64_t>(sizeof(float));
}

int luxel_photometric_loss_fwd(const luxel_photometric_loss_args* args) {
  using namespace luxel;
  if (check(*args, "photometric_loss_fwd")) return -1;
  if (args->workspace_bytes < luxel_photometric_loss_workspace(args)) return fail("photometric_loss_fwd: workspace too small");
  LUXEL_CUDA(cudaSetDevice(args->device));
  int resident = 0;
  if (resident_blocks(kForwardBlocks, args->device, &resident)) return -1;
  const Grid grid(*args, resident);
  auto* sums = static_cast<float*>(args->workspace);
  const int64_t plane = int64_t(3) * args->cameras * args->height * args->width;
  const ForwardJob job = {static_cast<const float*>(args->rgb), static_cast<const float*>(args->target),
                          static_cast<const float*>(args->weight), static_cast<float*>(args->partials), sums, plane,
                          args->width, args->height, grid.rows, args->valid};
  const auto kernel = args->weight ? photometric_loss_fwd_kernel<true> : photometric_loss_fwd_kernel<false>;
  if (launch("photometric_loss_fwd", kernel, grid.blocks, kThreads, 0, args->stream, job) < 0) return -1;
  return launch("photometric_loss_sum", photometric_loss_sum_kernel, 1, 256, 0, args->stream, sums, grid.count(), args->ssim_weight,
                static_cast<float*>(args->loss), static_cast<float*>(args->scales));
}

int luxel_photometric_loss_bwd(const luxel_photometric_loss_args* args) {
  using namespace luxel;
  if (check(*args, "photometric_loss_bwd")) return -1;
  LUXEL_CUDA(cudaSetDevice(args->device));
  int resident = 0;
  if (resident_blocks(kBackwardBlocks, args->device, &resident)) return -1;
  const Grid grid(*args, resident);
  const int64_t plane = int64_t(3) * args->cameras * args->height * args->width;
  const BackwardJob job = {static_cast<const float*>(args->rgb), static_cast<const float*>(args->target),
                           static_cast<const float*>(args->weight), static_cast<const float*>(args->partials),
                           static_cast<const float*>(args->scales), static_cast<const float*>(args->g_loss),
                           static_cast<float*>(args->g_rgb), plane, args->width, args->height, grid.rows};
  const auto kernel = args->weight ? photometric_loss_bwd_kernel<true> : photometric_loss_bwd_kernel<false>;
  return launch("photometric_loss_bwd", kernel, grid.blocks, kThreads, 0, args->stream, job);
}
}
