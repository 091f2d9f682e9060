// Consumes the gradients that the backward pass of a projection leaves in a warp's shared memory: they are written to global
// memory, or used for a step of Adam without being written; 16 bytes per thread. (On the CPU: Sink of row_sink.h.)
#pragma once

#include "kernels/raster/project/backward/row_sink.h"
#include "kernels/raster/project/warp_rows.cuh"

namespace luxel {

constexpr int kAhead = 4;  // quads that a thread loads at a time; with 8 the registers halve the occupancy

// The gradients of a warp are stored one parameter after another, sh_rest last.
template <int P> struct WarpSink {
  ParameterRows<float, P> rows;
  int start[P];  // of each parameter among the gradients of a warp
  uint32_t by_width[P];
  bool aligned;  // all addresses are 16-byte aligned
  bool extra;    // whether there are additional gradients (adam_table) to be added
  AdamConstants<float> decays;
};

template <int P, typename Args> WarpSink<P> make_sink(const Args& args, const ParameterRows<float, P>& rows) {
  WarpSink<P> sink = {};
  sink.rows = rows;
  uintptr_t addresses = 0;
  for (int i = 0, start = 0; i < P; ++i) {
    sink.start[i] = start;
    start += kWarpRows * rows.width[i];
    sink.by_width[i] = width_reciprocal(rows.width[i] > 0 ? rows.width[i] : 1);
    sink.extra |= rows.extra[i] != nullptr;
    for (const float* address : {static_cast<const float*>(rows.target[i]), static_cast<const float*>(rows.exp_avg[i]),
                                 static_cast<const float*>(rows.exp_avg_sq[i]), rows.extra[i]})
      addresses |= reinterpret_cast<uintptr_t>(address);
  }
  sink.aligned = (addresses & 15) == 0;
  sink.decays = AdamConstants<float>::decays(args.projection.adam_beta1, args.projection.adam_beta2, args.projection.adam_eps);
  return sink;
}

// Consumes the gradients of one warp's primitives first .. first+31; `gradients` null means zeros.
template <bool kAdam, int P> struct Writer {
  static constexpr int kRest = P - 1;  // sh_rest
  const WarpSink<P>& sink;
  AdamConstants<float> constants;
  const float* schedule;
  uint32_t moving;  // mask of rows that Adam updates
  int first;        // row

  // False if there is nothing to do. With adam_visible_only, rows not in `seen` stay unchanged.
  template <typename Args> __device__ __forceinline__ bool begin(const Args& args, uint32_t seen) {
    if (!kAdam) return true;
    schedule = in<float>(args.projection.adam_schedule);
    constants = sink.decays.at(1.0f, schedule[P], schedule[P + 1]);
    if (args.projection.adam_visible_only) moving = seen;
    return moving != 0;
  }

  // Four consecutive elements of a parameter: its index, the offset in the warp's part, and a mask of the elements to update.
  struct Place {
    int parameter, at;
    uint32_t moves;
  };

  __device__ __forceinline__ uint32_t moves(int parameter, int at) const {
    const int row = quotient(at, sink.by_width[parameter]);
    return (moving >> row & 1) && at - row * sink.rows.width[parameter] < sink.rows.active[parameter];
  }
  __device__ __forceinline__ Place place(int parameter, int at) const {
    if (!kAdam || (moving == ~0u && sink.rows.active[parameter] == sink.rows.width[parameter])) return {parameter, at, 15};
    if (parameter == kRest) {  // most of the elements: a quad lies in one row or two
      const int row = quotient(at, sink.by_width[kRest]), last = quotient(at + 3, sink.by_width[kRest]);
      if (((moving >> row | moving >> last) & 1) == 0) return {parameter, at, 0};
    }
    const uint32_t low = moves(parameter, at) | moves(parameter, at + 1) << 1;
    return {parameter, at, low | moves(parameter, at + 2) << 2 | moves(parameter, at + 3) << 3};
  }
  __device__ __forceinline__ int64_t offset(Place where) const {
    return static_cast<int64_t>(first) * sink.rows.width[where.parameter] + where.at;
  }
  __device__ __forceinline__ AdamConstants<float> constants_of(int parameter) const {
    AdamConstants<float> c = constants;
    c.rate *= schedule[sink.rows.place[parameter]];
    return c;
  }

  // kAhead quads at once: all loads are issued before the first use.
  template <typename Where> __device__ __forceinline__ void four(const float* gradients, Where where) const {
    Place places[kAhead];
    float p[kAhead][4], m[kAhead][4], v[kAhead][4];
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      places[j] = where(j);
      if (!kAdam || !places[j].moves) continue;
      load4(sink.rows.target[places[j].parameter] + offset(places[j]), p[j]);
      load4(sink.rows.exp_avg[places[j].parameter] + offset(places[j]), m[j]);
      load4(sink.rows.exp_avg_sq[places[j].parameter] + offset(places[j]), v[j]);
    }
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      if (!places[j].moves) continue;
      float g[4] = {0.0f, 0.0f, 0.0f, 0.0f};
      if (gradients) load4(gradients + sink.start[places[j].parameter] + places[j].at, g);
      if (kAdam) {
        const AdamConstants<float> c = constants_of(places[j].parameter);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          float p1 = p[j][k], m1 = m[j][k], v1 = v[j][k];
          adam_update(c, g[k], p1, m1, v1);
          const bool moved = places[j].moves >> k & 1;  // selected, not branched on
          p[j][k] = moved ? p1 : p[j][k];
          m[j][k] = moved ? m1 : m[j][k];
          v[j][k] = moved ? v1 : v[j][k];
        }
        store4(sink.rows.exp_avg[places[j].parameter] + offset(places[j]), m[j]);
        store4(sink.rows.exp_avg_sq[places[j].parameter] + offset(places[j]), v[j]);
      }
      store4(sink.rows.target[places[j].parameter] + offset(places[j]), kAdam ? p[j] : g);
    }
  }

  // Index of the parameter, among the first kEnd, that element `at` belongs to.
  template <int kEnd> __device__ __forceinline__ int parameter_at(int at) const {
    int parameter = 0;
#pragma unroll
    for (int i = 1; i < kEnd; ++i) parameter += at >= sink.start[i];
    return parameter;
  }

  // 32 rows at aligned addresses.
  __device__ __forceinline__ void whole(const float* gradients) const {
    const int from = 4 * (threadIdx.x & 31), small = sink.start[kRest], rest = kWarpRows * sink.rows.width[kRest];
    constexpr int kStep = 4 * 32;
    for (int base = from; base < small; base += kStep * kAhead)
      four(gradients, [&](int j) {
        const int at = base + kStep * j;
        if (at >= small) return Place{0, 0, 0};
        const int parameter = parameter_at<kRest>(at);
        return place(parameter, at - sink.start[parameter]);
      });
    if (kAdam && sink.rows.active[kRest] == 0) return;
    for (int base = from; base < rest; base += kStep * kAhead)
      four(gradients, [&](int j) {
        const int at = base + kStep * j;
        return at < rest ? place(kRest, at) : Place{kRest, 0, 0};
      });
  }

  // For the last rows, and for addresses that are not aligned.
  __device__ __forceinline__ void one_by_one(const float* gradients, int rows) const {
#pragma unroll 1
    for (int i = 0; i < P; ++i)
      for (int at = threadIdx.x & 31; at < rows * sink.rows.width[i]; at += 32) {
        const float g = gradients ? gradients[sink.start[i] + at] : 0.0f;
        const int64_t where = offset({i, at, 1});
        if (!kAdam) sink.rows.target[i][where] = g;
        else if (moves(i, at))
          adam_update(constants_of(i), g, sink.rows.target[i][where], sink.rows.exp_avg[i][where],
                      sink.rows.exp_avg_sq[i][where]);
      }
  }

  // Adds the additional gradients (adam_table); all loads of kAhead quads are issued before the first use.
  __device__ __forceinline__ void add_whole(float* gradients) const {
    constexpr int kStep = 4 * 32;
    const int end = sink.start[kRest] + (sink.rows.extra[kRest] ? kWarpRows * sink.rows.width[kRest] : 0);
    for (int base = 4 * (threadIdx.x & 31); base < end; base += kStep * kAhead) {
      float more[kAhead][4];
      bool there[kAhead];
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        const int at = base + kStep * j, parameter = parameter_at<P>(at);
        const float* extra = sink.rows.extra[parameter];
        there[j] = at < end && extra != nullptr;
        if (there[j]) load4(extra + offset({parameter, at - sink.start[parameter], 0}), more[j]);
      }
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        if (!there[j]) continue;
        float g[4];
        load4(gradients + base + kStep * j, g);
#pragma unroll
        for (int k = 0; k < 4; ++k) g[k] += more[j][k];
        store4(gradients + base + kStep * j, g);
      }
    }
  }
  __device__ __forceinline__ void add_one_by_one(float* gradients, int rows) const {
#pragma unroll 1
    for (int i = 0; i < P; ++i)
      if (sink.rows.extra[i])
        for (int at = threadIdx.x & 31; at < rows * sink.rows.width[i]; at += 32)
          gradients[sink.start[i] + at] += sink.rows.extra[i][offset({i, at, 0})];
  }

  // Consumes the gradients of the warp's rows below `count`, which are complete.
  __device__ __forceinline__ void take(float* gradients, int count) const {
    __syncwarp();
    const int rows = min(kWarpRows, count - first);
    const bool together = sink.aligned && rows == kWarpRows;
    if (kAdam && sink.extra) {
      if (together) add_whole(gradients);
      else add_one_by_one(gradients, rows);
      __syncwarp();
    }
    if (together) whole(gradients);
    else one_by_one(gradients, rows);
  }
};

}  // namespace luxel
