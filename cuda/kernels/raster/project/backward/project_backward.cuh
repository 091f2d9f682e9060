// The backward pass of a stage that projects primitives (see projection_stage.h), on the GPU: a thread per primitive, over all
// cameras, so that parameter gradients need no atomics. A warp loads inputs of its 32 primitives into shared memory, all at once,
// because dependent loads would take longer than the arithmetic. It collects the gradients there too, in the order of each
// parameter's global memory, and passes them to the sink (row_sink.cuh). Twin of project_backward.h.
#pragma once

#include "device/launch.cuh"
#include "kernels/raster/project/backward/row_sink.cuh"
#include "kernels/raster/project/projection_stage.h"

#include <utility>

namespace luxel {

// Index of the first number of parameter i in a row.
template <typename Stage> constexpr int start_of(int i) { return i == 0 ? 0 : start_of<Stage>(i - 1) + Stage::width(i - 1); }

// Of a warp in shared memory: the numbers of parameter i begin at kWarpRows * start_of(i).
template <typename Stage, int kParameter> __device__ __forceinline__ int small_place(int lane) {
  constexpr int kStart = start_of<Stage>(kParameter), kWidth = Stage::width(kParameter);
  return kWarpRows * kStart + kWidth * lane;
}

// Stores a lane's gradient among those of its warp.
template <typename Stage, int kParameter = 0>
__device__ __forceinline__ void store_small(const float (&row)[Stage::kNumbers], float* numbers, int lane) {
  if constexpr (kParameter < Stage::kParameters - 1) {
    constexpr int kStart = start_of<Stage>(kParameter), kWidth = Stage::width(kParameter);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) numbers[small_place<Stage, kParameter>(lane) + k] = row[kStart + k];
    store_small<Stage, kParameter + 1>(row, numbers, lane);
  }
}

// Where a warp has the inputs of its primitives. kGeneral: several cameras, or gradients by the camera; otherwise there is one
// camera, and the parameters in shared memory are overwritten by their gradients. kOfViews: with several cameras the parameters are
// in shared memory too, after the gradients.
template <typename Stage, bool kGeneral, bool kOfViews = false> struct WarpInputs {
  using Args = typename Stage::Args;
  using Row = typename Stage::template Row<float>;
  static constexpr bool kStaged = !kGeneral || kOfViews;
  static constexpr int kSmall = Stage::kParameters - 1;
  const Args& args;
  int n, lane;
  const float *parameters, *behind;

  // Floats of shared memory per primitive, after those of the gradients.
  static __host__ __device__ __forceinline__ int numbers(const Args& args) {
    if (!kGeneral) return Stage::kSplat + value_channels(args);
    return kOfViews ? Stage::kNumbers + 3 * args.projection.sh_stride : 0;
  }

  // any: whether the lane's primitive is visible, seen: the mask of the warp's. Clears the gradients by sh_rest that
  // project_one_vjp does not overwrite.
  __device__ __forceinline__ WarpInputs(const Args& args, int first, uint32_t seen, bool any, float* gradients)
      : args(args), n(first + (threadIdx.x & 31)), lane(threadIdx.x & 31) {
    const int width = 3 * args.projection.sh_stride, used = 3 * sh_terms(args);
    float* const small = gradients + kWarpRows * (Stage::kNumbers + width);
    float* const to = kGeneral ? small : gradients;
    behind = small;
    parameters = to;
    if (kStaged && (seen != 0 || has_penalties(args))) {
      stage_small(first, to, std::make_integer_sequence<int, kSmall>());
      if (used > 0) stage(args.sh_rest, first, args.projection.count, width, used, seen, to + kWarpRows * Stage::kNumbers);
    }
    if (!kGeneral && seen != 0) {
      const int channels = value_channels(args);
      stage(args.projection.g_splats, first, args.projection.count, Stage::kSplat, Stage::kSplat, seen, small);
      stage(args.projection.g_values, first, args.projection.count, channels, channels, ~0u, small + Stage::kSplat * kWarpRows);
    }
    float* const g_rest = gradients + kWarpRows * Stage::kNumbers + lane * width;
    for (int k = 0; kGeneral && k < width; ++k) g_rest[k] = 0.0f;
    if (kStaged) staged();
    for (int k = any ? used : 0; !kGeneral && k < width; ++k) g_rest[k] = 0.0f;
  }

  __device__ __forceinline__ Row row() const {
    if constexpr (kStaged) return staged_row(std::make_integer_sequence<int, kSmall>());
    else return row_of<float>(args, n);
  }
  // Of the only camera.
  __device__ __forceinline__ const float* g_splat() const { return behind + Stage::kSplat * lane; }
  __device__ __forceinline__ const float* g_value() const {
    return behind + Stage::kSplat * kWarpRows + value_channels(args) * lane;
  }

 private:
  template <int... I> __device__ __forceinline__ void stage_small(int first, float* to, std::integer_sequence<int, I...>) const {
    const ParameterList<Stage::kParameters> list = parameters_of(args);
    (stage(list.of[I].rows, first, args.projection.count, std::integral_constant<int, Stage::width(I)>::value,
           std::integral_constant<int, Stage::width(I)>::value, ~0u, to + small_place<Stage, I>(0)),
     ...);
  }
  template <int... I> __device__ __forceinline__ Row staged_row(std::integer_sequence<int, I...>) const {
    return {parameters + small_place<Stage, I>(lane)...,
            parameters + kWarpRows * Stage::kNumbers + 3 * args.projection.sh_stride * lane};
  }
};

// Adds the warp's gradients by one camera to the global ones.
template <typename Stage>
__device__ __forceinline__ void add_camera(const typename Stage::Args& args, int camera,
                                           const typename Stage::template Gradient<float>& gradient) {
  if (args.projection.g_world_to_cam) add_pose_of_warp(gradient.pose, out<float>(args.projection.g_world_to_cam) + 16 * camera);
  if constexpr (Stage::kLenses)
    if (args.g_shutters) add_shutter_of_warp(gradient.pose, out<float>(args.g_shutters) + LUXEL_SHUTTER * camera);
  if constexpr (Stage::kTimestamps)
    if (args.g_timestamps) {
      const float sum = warp_sum(gradient.timestamp);
      if ((threadIdx.x & 31) == 0) atomicAdd(out<float>(args.g_timestamps) + camera, sum);
    }
}

// Tunables: threads(kGeneral) per block, blocks<Camera>(kGeneral) resident per multiprocessor, which limit the registers, and
// Inputs<kGeneral>, WarpInputs or a class like it.
template <typename Stage, typename Tunables, bool kGeneral>
__host__ __device__ __forceinline__ int numbers_backward(const typename Stage::Args& args) {
  return points_width<Stage>(args) + Stage::kNumbers + 3 * args.projection.sh_stride +
         Tunables::template Inputs<kGeneral>::numbers(args);
}

template <typename Stage, typename Tunables, typename Camera, bool kAdam, bool kGeneral>
__global__ void __launch_bounds__(Tunables::threads(kGeneral), Tunables::template blocks<Camera>(kGeneral))
    project_bwd_kernel(const __grid_constant__ typename Stage::Args args,
                       const __grid_constant__ WarpSink<Stage::kParameters> sink) {
  extern __shared__ float4 shared[];
  const bool skipped = args.projection.skip != nullptr && *args.projection.skip != 0;
  if (kAdam && skipped) return;
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int first = blockIdx.x * Tunables::threads(kGeneral) + warp * kWarpRows, n = first + lane;
  if (first >= args.projection.count) return;  // warps are independent: there is no block-wide barrier
  bool any = false;
  for (int camera = 0; camera < args.projection.cameras; ++camera)
    any |= n < args.projection.count && args.projection.tile_counts[static_cast<int64_t>(camera) * args.projection.count + n] > 0;
  const uint32_t seen = __ballot_sync(~0u, any);

  Writer<kAdam, Stage::kParameters> writer = {sink, sink.decays, nullptr, ~0u, first};
  if (!writer.begin(args, seen)) return;
  float* gradients = nullptr;  // null stands for zeros
  if (seen != 0 || has_penalties(args) || sink.extra) {
    gradients = reinterpret_cast<float*>(shared) + warp * kWarpRows * numbers_backward<Stage, Tunables, kGeneral>(args);
    float* const numbers = gradients + kWarpRows * points_width<Stage>(args);
    float* const g_rest = numbers + kWarpRows * Stage::kNumbers + lane * 3 * args.projection.sh_stride;
    const typename Tunables::template Inputs<kGeneral> inputs(args, first, seen, any, gradients);
    typename Stage::template Gradient<float> gradient = {};
    if constexpr (Stage::kPoints) gradient.points = gradients + lane * points_width<Stage>(args);
    float* const rows = skipped ? nullptr : out<float>(args.projection.statistics);
    float* const statistics = rows ? rows + 4 * static_cast<int64_t>(n) : nullptr;
    if (kGeneral) {
      ViewStatistics<float> stats(any ? statistics : nullptr, args.projection.largest_of_views != 0);
      for (int camera = 0; camera < args.projection.cameras; ++camera) {
        gradient.pose = {};
        if constexpr (Stage::kTimestamps) gradient.timestamp = 0.0f;
        const int64_t index = static_cast<int64_t>(camera) * args.projection.count + n;
        const bool here = n < args.projection.count && args.projection.tile_counts[index] > 0;
        if (here)
          project_one_vjp<true>(args, load_camera(args, camera, CameraType<Camera>()), inputs.row(),
                                in<float>(args.projection.g_splats) + Stage::kSplat * index,
                                in<float>(args.projection.g_values) + value_channels(args) * index, gradient, g_rest, stats.of_view());
        stats.end_view(camera == 0);
        if (__any_sync(~0u, here)) add_camera<Stage>(args, camera, gradient);
      }
      stats.end();
    } else if (any) {
      project_one_vjp<false>(args, load_camera(args, 0, CameraType<Camera>()), inputs.row(), inputs.g_splat(), inputs.g_value(),
                             gradient, g_rest, statistics);
    }
    if (has_penalties(args) && n < args.projection.count) penalties_vjp(args, inputs.row(), gradient);
    float row[Stage::kNumbers] = {};
    flatten(args, inputs.row(), any, gradient, row);
    store_small<Stage>(row, numbers, lane);
  }
  writer.take(gradients, args.projection.count);
}

// name: of the stage, for messages.
template <typename Stage, typename Tunables> int project_backward(const char* name, const typename Stage::Args& args) {
  const auto run = [&](auto type, auto adam, auto general) {
    constexpr bool kGeneral = decltype(general)::value;
    constexpr int kThreads = Tunables::threads(kGeneral);
    const auto kernel = project_bwd_kernel<Stage, Tunables, typename decltype(type)::Type, decltype(adam)::value, kGeneral>;
    const size_t shared = sizeof(float) * kThreads * numbers_backward<Stage, Tunables, kGeneral>(args);
    return launch(name, kernel, blocks_for(args.projection.count, kThreads), kThreads, shared, args.stream, args,
                  make_sink(args, rows_of<float>(args, parameters_of(args))));
  };
  bool general = args.projection.cameras != 1 || args.projection.g_world_to_cam;
  if constexpr (Stage::kTimestamps) general |= args.g_timestamps != nullptr;
  if constexpr (Stage::kLenses) general |= args.g_shutters != nullptr;
  return with_camera_type<Stage, float>(args, [&](auto type) {
    const std::true_type on;
    const std::false_type off;
    if (args.projection.adam_schedule) return general ? run(type, on, on) : run(type, on, off);
    return general ? run(type, off, on) : run(type, off, off);
  });
}

}  // namespace luxel
