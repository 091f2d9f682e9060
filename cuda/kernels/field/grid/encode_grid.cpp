// CPU twin of encode_grid.
#include "kernels/field/grid/encode_grid.h"

#include <omp.h>

namespace luxel {
namespace {

constexpr int64_t kMany = 64;  // positions from which several threads pay off

template <typename T, int F> auto reader(const luxel_encode_grid_args& args, const GridLevel& level) {
  const T* const table = in<T>(args.table) + int64_t(level.offset) * F;
  return [table](uint32_t entry, T* to) {
    for (int f = 0; f < F; ++f) to[f] = table[int64_t(entry) * F + f];
  };
}

template <typename T, int D, int F> int forward(const luxel_encode_grid_args& args, const GridLevels& levels) {
#pragma omp parallel for schedule(static) if (args.count >= kMany)
  for (int64_t n = 0; n < args.count; ++n) {
    for (int l = 0; l < args.levels; ++l) {
      T* const to = out<T>(args.out) + (n * args.levels + l) * F;
      grid_value<T, D, F>(levels.at[l], in<T>(args.x) + n * D, reader<T, F>(args, levels.at[l]), to);
    }
  }
  return 0;
}

// Adds weight * g_out to entries of the table. Each entry belongs to one thread, which visits the positions in order, so that the
// sums do not depend on the number of threads. Corners(n, level, add) calls add(entry, weight).
template <typename T, int F, typename Corners>
void scatter(const luxel_encode_grid_args& args, const GridLevels& levels, const Corners& corners) {
  const int64_t parts = (omp_get_max_threads() + args.levels - 1) / args.levels;
#pragma omp parallel for schedule(dynamic, 1) if (args.count >= kMany)
  for (int64_t job = 0; job < parts * args.levels; ++job) {
    const int64_t l = job / parts, part = job % parts;
    const GridLevel level = levels.at[l];
    const int64_t size = level.size, begin = size * part / parts, end = size * (part + 1) / parts;
    T* const table = out<T>(args.g_table) + int64_t(level.offset) * F;
    for (int64_t n = 0; n < args.count; ++n) {
      const T* const g = in<T>(args.g_out) + (n * args.levels + l) * F;
      corners(n, level, [&](uint32_t entry, T weight) {
        if (entry < begin || entry >= end) return;
        for (int f = 0; f < F; ++f) table[int64_t(entry) * F + f] += weight * g[f];
      });
    }
  }
}

template <typename T, int D, int F> int backward(const luxel_encode_grid_args& args, const GridLevels& levels) {
  if (args.g_table) {
    scatter<T, F>(args, levels, [&](int64_t n, const GridLevel& level, const auto& add) {
      grid_vjp_table<T, D>(level, in<T>(args.x) + n * D, add);
    });
  }
  if (!args.g_x) return 0;
#pragma omp parallel for schedule(static) if (args.count >= kMany)
  for (int64_t n = 0; n < args.count; ++n) {
    T g_x[D] = {};
    for (int l = 0; l < args.levels; ++l) {
      const T* const g = in<T>(args.g_out) + (n * args.levels + l) * F;
      grid_vjp_x<T, D, F>(levels.at[l], in<T>(args.x) + n * D, reader<T, F>(args, levels.at[l]), g, g_x);
    }
    for (int d = 0; d < D; ++d) out<T>(args.g_x)[n * D + d] = g_x[d];
  }
  return 0;
}

template <typename T, int D, int F> int second_backward(const luxel_encode_grid_args& args, const GridLevels& levels) {
  if (args.g_table) {
    scatter<T, F>(args, levels, [&](int64_t n, const GridLevel& level, const auto& add) {
      grid_vjp_x_vjp_table<T, D>(level, in<T>(args.x) + n * D, in<T>(args.gg_x) + n * D, add);
    });
  }
  if (!args.g_x && !args.gg_out) return 0;
#pragma omp parallel for schedule(static) if (args.count >= kMany)
  for (int64_t n = 0; n < args.count; ++n) {
    T g_x[D] = {};
    for (int l = 0; l < args.levels; ++l) {
      const int64_t row = (n * args.levels + l) * F;
      T gg[F];
      grid_vjp_x_vjp<T, D, F>(levels.at[l], in<T>(args.x) + n * D, reader<T, F>(args, levels.at[l]), in<T>(args.gg_x) + n * D,
                              in<T>(args.g_out) + row, gg, g_x);
      if (args.gg_out) {
        for (int f = 0; f < F; ++f) out<T>(args.gg_out)[row + f] = gg[f];
      }
    }
    if (args.g_x) {
      for (int d = 0; d < D; ++d) out<T>(args.g_x)[n * D + d] = g_x[d];
    }
  }
  return 0;
}

enum class Pass { kForward, kBackward, kSecond };

template <typename T> int run(const luxel_encode_grid_args& args, Pass pass) {
  if (args.half_table) return fail("encode_grid: float16 tables are for the GPU");
  GridLevels levels;
  if (load_levels(args, &levels) < 0) return -1;
  return with_sizes(args, [&](auto dimensions, auto features) {
    constexpr int D = decltype(dimensions)::value, F = decltype(features)::value;
    if (pass == Pass::kForward) return forward<T, D, F>(args, levels);
    if (pass == Pass::kBackward) return backward<T, D, F>(args, levels);
    return second_backward<T, D, F>(args, levels);
  });
}

int run_typed(const luxel_encode_grid_args& args, Pass pass) {
  return args.dtype ? run<double>(args, pass) : run<float>(args, pass);
}

}  // namespace
}  // namespace luxel

extern "C" {

int luxel_encode_grid_fwd(const luxel_encode_grid_args* args) { return luxel::run_typed(*args, luxel::Pass::kForward); }
int luxel_encode_grid_bwd(const luxel_encode_grid_args* args) { return luxel::run_typed(*args, luxel::Pass::kBackward); }
int luxel_encode_grid_bwd_bwd(const luxel_encode_grid_args* args) { return luxel::run_typed(*args, luxel::Pass::kSecond); }
}
