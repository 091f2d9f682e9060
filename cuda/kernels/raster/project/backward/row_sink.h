// The parameters of a projection as rows of numbers, and the sink of their gradients, which writes them or uses them for a step of
// Adam without writing them (on the GPU: row_sink.cuh).
#pragma once

#include "math/train/adam.h"
#include "kernels/raster/project/projection_stage.h"
#include "kernels/raster/project/sh_values.h"

#include <cstring>

namespace luxel {

// P parameters. target: the tensor that the backward pass writes, a gradient or, with Adam, the parameter itself.
template <typename T, int P> struct ParameterRows {
  T *target[P], *exp_avg[P], *exp_avg_sq[P];  // moments, with Adam only
  const T* extra[P];                          // to be added to the gradient; null if absent
  int width[P];                               // numbers of a row
  int active[P];                              // how many of them, from the first on, Adam updates
  int place[P];                               // index of its learning rate
};
// Args: the argument struct of a projection stage. Parameters are in the order of a gradient row, sh_rest last.
template <typename T, typename Args, int P>
ParameterRows<T, P> rows_of(const Args& args, const ParameterList<P>& parameters) {
  ParameterRows<T, P> rows = {};
  for (int i = 0; i < P; ++i) {
    const Parameter& parameter = parameters.of[i];
    rows.width[i] = rows.active[i] = parameter.width;
    rows.place[i] = parameter.place;
    rows.target[i] = out<T>(args.projection.adam_schedule ? const_cast<void*>(parameter.rows) : parameter.gradient);
    if (!args.projection.adam_schedule) continue;
    const int64_t* addresses = args.projection.adam_table + 3 * parameter.place;
    rows.exp_avg[i] = reinterpret_cast<T*>(addresses[0]);
    rows.exp_avg_sq[i] = reinterpret_cast<T*>(addresses[1]);
    rows.extra[i] = reinterpret_cast<const T*>(addresses[2]);
  }
  if (args.projection.adam_active_sh_only) rows.active[P - 1] = 3 * sh_terms(args.projection.sh_degree, args.projection.sh_stride);
  if (args.projection.adam_keep_sh_rest) rows.active[P - 1] = 0;
  return rows;
}

// The sink on the CPU, row by row.
template <typename T, int P> struct Sink {
  ParameterRows<T, P> rows;
  bool adam, visible_only;
  AdamConstants<T> constants[P];

  template <typename Args>
  Sink(const Args& args, const ParameterRows<T, P>& rows)
      : rows(rows), adam(args.projection.adam_schedule != nullptr), visible_only(args.projection.adam_visible_only != 0) {
    if (!adam) return;
    const T* schedule = in<T>(args.projection.adam_schedule);
    const auto decays = AdamConstants<T>::decays(args.projection.adam_beta1, args.projection.adam_beta2, args.projection.adam_eps);
    for (int i = 0; i < P; ++i) constants[i] = decays.at(schedule[rows.place[i]], schedule[P], schedule[P + 1]);
  }

  // Consumes the gradient of row n: g_rest by sh_rest, `gradient` by all other parameters. Both are overwritten.
  void take(int64_t n, T* gradient, T* g_rest, bool seen) const {
    if (adam && visible_only && !seen) return;
    for (int i = 0; i < P; ++i) {
      T* g = i < P - 1 ? gradient : g_rest;
      const int64_t at = n * rows.width[i];
      T* target = rows.target[i] + at;
      if (adam) {
        T *m = rows.exp_avg[i] + at, *v = rows.exp_avg_sq[i] + at;
        if (rows.extra[i])
          for (int k = 0; k < rows.active[i]; ++k) g[k] += rows.extra[i][at + k];
#pragma omp simd
        for (int k = 0; k < rows.active[i]; ++k) adam_update(constants[i], g[k], target[k], m[k], v[k]);
      } else if (rows.width[i] > 0) {
        std::memcpy(target, g, sizeof(T) * rows.width[i]);
      }
      gradient += rows.width[i];
    }
  }
};

// Accumulates the statistics [4] of a primitive over the views of a step: adds all views to its row, or only the maximum over views
// of each number.
template <typename T> struct ViewStatistics {
  T* row;  // null: no statistics
  bool largest;
  alignas(16) T view[4] = {};
  T most[4] = {};

  LUXEL_HD ViewStatistics(T* row, bool largest) : row(row), largest(largest && row != nullptr) {}

  // Where the current view accumulates.
  LUXEL_HD T* of_view() { return largest ? view : row; }
  LUXEL_HD void end_view(bool first) {
    if (!largest) return;
LUXEL_UNROLL
    for (int k = 0; k < 4; ++k) {
      most[k] = first ? view[k] : larger(view[k], most[k]);
      view[k] = T(0);
    }
  }
  LUXEL_HD void end() {
    if (!largest) return;
LUXEL_UNROLL
    for (int k = 0; k < 3; ++k) row[k] += most[k];
    row[3] = larger(row[3], most[3]);
  }
};

}  // namespace luxel
