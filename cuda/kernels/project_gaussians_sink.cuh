// What becomes of the gradients that the backward pass of project_gaussians leaves in a warp's shared memory: they are
// written, or spent at once on a step of Adam; 16 bytes a thread.
#pragma once

#include "../math/adam.h"
#include "project_gaussians.h"
#include "warp_rows.cuh"

namespace luxel {

constexpr int kSmall = 14;  // numbers of a Gaussian without sh_rest
constexpr int kAhead = 4;   // quads that a thread has in flight; with 8 the registers halve the warps, and the speed

struct Sink {
  ParameterRows<float> rows;
  int start[6];  // of each parameter among the numbers of a warp
  uint32_t by_width[6];
  bool aligned;  // all addresses to 16 bytes
  AdamConstants<float> decays;
};

inline Sink make_sink(const luxel_project_gaussians_args& args) {
  Sink sink = {};
  sink.rows = parameter_rows<float>(args);
  uintptr_t addresses = 0;
  for (int i = 0, start = 0; i < 6; ++i) {
    sink.start[i] = start;
    start += kWarpRows * sink.rows.width[i];
    sink.by_width[i] = width_reciprocal(sink.rows.width[i] > 0 ? sink.rows.width[i] : 1);
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
  int first;        // row

  // Four numbers of a parameter: which, from where in its part of this warp's numbers, and which of them are changed.
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
    if (parameter == 5) {  // most of the numbers: a quad lies in one row or two, seldom both to be moved
      const int row = quotient(at, sink.by_width[5]), last = quotient(at + 3, sink.by_width[5]);
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
    c.rate *= schedule[parameter];
    return c;
  }

  // kAhead places at once: all loads come before the first use.
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

  // 32 rows at aligned addresses.
  __device__ __forceinline__ void whole(const float* gradients) const {
    const int from = 4 * (threadIdx.x & 31);
    constexpr int kStep = 4 * 32;
    for (int base = from; base < kWarpRows * kSmall; base += kStep * kAhead)
      four(gradients, [&](int j) {
        const int at = base + kStep * j;
        if (at >= kWarpRows * kSmall) return Place{0, 0, 0};
        const int parameter = (at >= sink.start[1]) + (at >= sink.start[2]) + (at >= sink.start[3]) + (at >= sink.start[4]);
        return place(parameter, at - sink.start[parameter]);
      });
    if (kAdam && sink.rows.active[5] == 0) return;
    for (int base = from; base < kWarpRows * sink.rows.width[5]; base += kStep * kAhead)
      four(gradients, [&](int j) {
        const int at = base + kStep * j;
        return at < kWarpRows * sink.rows.width[5] ? place(5, at) : Place{5, 0, 0};
      });
  }

  // The last rows, and addresses that are not aligned.
  __device__ __forceinline__ void one_by_one(const float* gradients, int rows) const {
#pragma unroll 1
    for (int i = 0; i < 6; ++i)
      for (int at = threadIdx.x & 31; at < rows * sink.rows.width[i]; at += 32) {
        const float g = gradients ? gradients[sink.start[i] + at] : 0.0f;
        const int64_t where = offset({i, at, 1});
        if (!kAdam) sink.rows.target[i][where] = g;
        else if (moves(i, at))
          adam_update(constants_of(i), g, sink.rows.target[i][where], sink.rows.exp_avg[i][where],
                      sink.rows.exp_avg_sq[i][where]);
      }
  }
};

}  // namespace luxel
