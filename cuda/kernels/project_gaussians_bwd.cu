// project_gaussians on the GPU, backward: a thread per Gaussian, over all cameras, so that parameter gradients need no
// atomics. A warp gathers the gradients of its 32 Gaussians in shared memory, in the order in which each parameter lies
// in global memory, and then either writes them or spends them at once on a step of Adam, 16 bytes a thread.
#include "project_gaussians.cuh"

#include "../math/adam.h"
#include "error.h"

namespace luxel {
namespace {

constexpr int kThreads = 128;
constexpr int kSmall = 14;  // numbers of a Gaussian without sh_rest
constexpr int kAhead = 4;   // quads that a thread of the writing phase has in flight

struct Sink {
  ParameterRows<float> rows;
  int start[6];  // of each parameter among the numbers of a warp
  uint32_t by_width[6];
  bool aligned;  // all addresses to 16 bytes
  AdamConstants<float> decays;
};

Sink make_sink(const luxel_project_gaussians_args& args) {
  Sink sink = {};
  sink.rows = parameter_rows<float>(args);
  uintptr_t addresses = 0;
  for (int i = 0, start = 0; i < 6; ++i) {
    sink.start[i] = start;
    start += kWarpRows * sink.rows.width[i];
    sink.by_width[i] = reciprocal(sink.rows.width[i] > 0 ? sink.rows.width[i] : 1);
    for (const float* address : {sink.rows.target[i], sink.rows.exp_avg[i], sink.rows.exp_avg_sq[i]})
      addresses |= reinterpret_cast<uintptr_t>(address);
  }
  sink.aligned = (addresses & 15) == 0;
  sink.decays = AdamConstants<float>::decays(args.adam_beta1, args.adam_beta2, args.adam_eps);
  return sink;
}

// What one warp does with the gradients of its Gaussians first .. first+31; `gradients` null means zeros.
template <bool kAdam> struct Writer {
  const Sink& sink;
  AdamConstants<float> constants;
  const float* schedule;
  uint32_t moving;  // rows that Adam moves
  int first, total; // of rows; of numbers

  __device__ __forceinline__ int parameter_of(int at) const {
    return (at >= sink.start[1]) + (at >= sink.start[2]) + (at >= sink.start[3]) + (at >= sink.start[4]) + (at >= sink.start[5]);
  }
  __device__ __forceinline__ int64_t offset(int i, int at) const {
    return static_cast<int64_t>(first) * sink.rows.width[i] + (at - sink.start[i]);
  }
  __device__ __forceinline__ bool moves(int i, int at) const {
    const int e = at - sink.start[i], row = quotient(e, sink.by_width[i]);
    return (moving >> row & 1) && e - row * sink.rows.width[i] < sink.rows.active[i];
  }
  __device__ __forceinline__ AdamConstants<float> constants_of(int i) const {
    AdamConstants<float> c = constants;
    c.rate *= schedule[i];
    return c;
  }

  __device__ __forceinline__ void four(const float* gradients) const {
    const int lane = threadIdx.x & 31;
    for (int base = 4 * lane; base < total; base += 4 * 32 * kAhead) {
      float p[kAhead][4], m[kAhead][4], v[kAhead][4];
      bool any[kAhead], each[kAhead][4];
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        const int at = base + 4 * 32 * j;
        any[j] = at < total;
        if (!kAdam || !any[j]) continue;
        const int i = parameter_of(at);
        any[j] = false;
#pragma unroll
        for (int k = 0; k < 4; ++k) any[j] |= each[j][k] = moves(i, at + k);
        if (!any[j]) continue;
        load4(sink.rows.target[i] + offset(i, at), p[j]);
        load4(sink.rows.exp_avg[i] + offset(i, at), m[j]);
        load4(sink.rows.exp_avg_sq[i] + offset(i, at), v[j]);
      }
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        if (!any[j]) continue;
        const int at = base + 4 * 32 * j, i = parameter_of(at);
        float g[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        if (gradients) load4(gradients + at, g);
        if (!kAdam) {
          store4(sink.rows.target[i] + offset(i, at), g);
          continue;
        }
        const AdamConstants<float> c = constants_of(i);
#pragma unroll
        for (int k = 0; k < 4; ++k)
          if (each[j][k]) adam_update(c, g[k], p[j][k], m[j][k], v[j][k]);
        store4(sink.rows.target[i] + offset(i, at), p[j]);
        store4(sink.rows.exp_avg[i] + offset(i, at), m[j]);
        store4(sink.rows.exp_avg_sq[i] + offset(i, at), v[j]);
      }
    }
  }

  // The last rows, and addresses that are not aligned.
  __device__ __forceinline__ void one_by_one(const float* gradients, int rows) const {
#pragma unroll 1
    for (int i = 0; i < 6; ++i)
      for (int at = sink.start[i] + (threadIdx.x & 31); at < sink.start[i] + rows * sink.rows.width[i]; at += 32) {
        const float g = gradients ? gradients[at] : 0.0f;
        const int64_t where = offset(i, at);
        if (!kAdam) sink.rows.target[i][where] = g;
        else if (moves(i, at))
          adam_update(constants_of(i), g, sink.rows.target[i][where], sink.rows.exp_avg[i][where], sink.rows.exp_avg_sq[i][where]);
      }
  }
};

// kGeneral: several cameras, or gradients of the camera; else one camera, whose rows of sh_rest turn into their gradients
// where they lie.
template <bool kAdam, bool kGeneral>
__global__ void __launch_bounds__(kThreads)
    project_gaussians_bwd_kernel(const __grid_constant__ luxel_project_gaussians_args args, const __grid_constant__ Sink sink) {
  extern __shared__ float4 shared[];
  const bool skipped = args.skip != nullptr && *args.skip != 0;
  if (kAdam && skipped) return;
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int first = blockIdx.x * kThreads + warp * kWarpRows, n = first + lane;
  if (first >= args.count) return;  // warps are on their own: there is no barrier of the block
  const int rows = min(kWarpRows, args.count - first), width = 3 * args.sh_stride;
  bool any = false;
  for (int camera = 0; camera < args.cameras; ++camera)
    any |= n < args.count && args.tile_counts[static_cast<int64_t>(camera) * args.count + n] > 0;
  const uint32_t seen = __ballot_sync(~0u, any);

  Writer<kAdam> writer = {sink, sink.decays, nullptr, ~0u, first, kWarpRows * (kSmall + width)};
  if (kAdam) {
    writer.schedule = in<float>(args.adam_schedule);
    writer.constants = sink.decays.at(1.0f, writer.schedule[6], writer.schedule[7]);
    if (args.adam_visible_only) writer.moving = seen;
    if (writer.moving == 0) return;
  }
  const bool penalties = args.opacity_penalty != 0.0f || args.scale_penalty != 0.0f;
  float* gradients = nullptr;
  if (seen != 0 || penalties) {
    gradients = reinterpret_cast<float*>(shared) + warp * kWarpRows * (kSmall + width);
    float* g_rest = gradients + kWarpRows * kSmall + lane * width;
    GaussianGradient<float> g = {};
    Vec3<float> g_dc = {0.0f, 0.0f, 0.0f};
    float* statistics = args.statistics && !skipped ? out<float>(args.statistics) + 4 * static_cast<int64_t>(n) : nullptr;
    if (kGeneral) {
      for (int k = 0; k < width; ++k) g_rest[k] = 0.0f;
      for (int camera = 0; camera < args.cameras; ++camera) {
        g.camera_rotation = {};
        g.camera_translation = {};
        const bool here = n < args.count && args.tile_counts[static_cast<int64_t>(camera) * args.count + n] > 0;
        if (here) {
          const float* rest = in<float>(args.sh_rest) + static_cast<int64_t>(n) * width;
          project_one_vjp<true>(args, load_camera<float>(args, camera), camera, n, rest, g, g_dc, g_rest, statistics);
        }
        if (args.g_world_to_cam && __any_sync(~0u, here)) {
          const float pose[12] = {g.camera_rotation.r0.x, g.camera_rotation.r0.y, g.camera_rotation.r0.z, g.camera_translation.x,
                                  g.camera_rotation.r1.x, g.camera_rotation.r1.y, g.camera_rotation.r1.z, g.camera_translation.y,
                                  g.camera_rotation.r2.x, g.camera_rotation.r2.y, g.camera_rotation.r2.z, g.camera_translation.z};
#pragma unroll
          for (int k = 0; k < 12; ++k) {
            const float sum = warp_sum(pose[k]);
            if (lane == 0) atomicAdd(out<float>(args.g_world_to_cam) + 16 * camera + k, sum);
          }
        }
      }
    } else {
      stage_rest(args, first, seen, g_rest - lane * width);
      staged_rest();
      for (int k = any ? 3 * sh_terms(args) : 0; k < width; ++k) g_rest[k] = 0.0f;
      if (any) project_one_vjp<false>(args, load_camera<float>(args, 0), 0, n, g_rest, g, g_dc, g_rest, statistics);
    }
    if (penalties && n < args.count) penalties_vjp(args, n, g);
    float row[kSmall];
    flatten(g, g_dc, row);
#pragma unroll
    for (int k = 0; k < kSmall; ++k) {
      constexpr int kParameter[kSmall] = {0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 3, 4, 4, 4};
      constexpr int kStart[5] = {0, 3, 7, 10, 11}, kWidth[5] = {3, 4, 3, 1, 3};
      const int i = kParameter[k];
      gradients[kWarpRows * kStart[i] + lane * kWidth[i] + k - kStart[i]] = row[k];
    }
    __syncwarp();
  }
  if (sink.aligned && rows == kWarpRows) writer.four(gradients);
  else writer.one_by_one(gradients, rows);
}

template <bool kAdam, bool kGeneral> int launch(const luxel_project_gaussians_args& args) {
  const int grid = (args.count + kThreads - 1) / kThreads;
  const size_t shared = sizeof(float) * kThreads * (kSmall + 3 * args.sh_stride);
  project_gaussians_bwd_kernel<kAdam, kGeneral>
      <<<grid, kThreads, shared, static_cast<cudaStream_t>(args.stream)>>>(args, make_sink(args));
  LUXEL_LAUNCHED("project_gaussians_bwd");
  return 0;
}

}  // namespace
}  // namespace luxel

extern "C" int luxel_project_gaussians_bwd(const luxel_project_gaussians_args* args) {
  if (args->dtype != 0) return luxel::fail("the GPU kernels take float32");
  LUXEL_CUDA(cudaSetDevice(args->device));
  const bool general = args->cameras != 1 || args->g_world_to_cam;
  if (args->adam_schedule) return general ? luxel::launch<true, true>(*args) : luxel::launch<true, false>(*args);
  return general ? luxel::launch<false, true>(*args) : luxel::launch<false, false>(*args);
}
