// CPU twin of blend_gaussians.cu: one task per tile, the inner loop vectorised over the 16 pixels of a row.
//
// Branches on alpha are 0/1 masks so that the loop vectorises. Gradients of one (tile, splat) pair are summed within
// the task and stored per instance; a second pass adds them per splat in a fixed order, so that the result depends
// neither on the number of threads nor on their timing.
#include "../abi.h"
#include "../math/splat.h"
#include "error.h"
#include "project_gaussians.h"

#include <cstring>
#include <omp.h>

namespace luxel {
namespace {

constexpr int kSide = LUXEL_TILE, kPixels = kSide * kSide;

template <typename T> struct Tile {
  int camera, x0, y0, columns, rows;
  int32_t begin, end;

  Tile(const luxel_blend_gaussians_args& args, int64_t index) {
    const int tiles_x = tiles_along(args.width), tiles_y = tiles_along(args.height);
    const int64_t per_image = static_cast<int64_t>(tiles_x) * tiles_y;
    camera = static_cast<int>(index / per_image);
    const int local = static_cast<int>(index % per_image);
    x0 = local % tiles_x * kSide;
    y0 = local / tiles_x * kSide;
    columns = smaller(kSide, args.width - x0);
    rows = smaller(kSide, args.height - y0);
    begin = args.ranges[2 * index];
    end = args.ranges[2 * index + 1];
  }
  int64_t pixel(const luxel_blend_gaussians_args& args, int row) const {
    return (static_cast<int64_t>(camera) * args.height + y0 + row) * args.width + x0;
  }
};

int64_t tile_count(const luxel_blend_gaussians_args& args) {
  return static_cast<int64_t>(tiles_along(args.width)) * tiles_along(args.height) * args.cameras;
}

// Rows of the tile that the splat can reach, [first, last].
template <typename T> void reachable_rows(const T* splat, const Tile<T>& tile, int& first, int& last) {
  const SplatEllipse<T> e = SplatEllipse<T>::of(splat);
  const T top = e.y - e.extent_y - T(0.5) - T(tile.y0), bottom = e.y + e.extent_y - T(0.5) - T(tile.y0);
  first = static_cast<int>(clamp(ceil_of(top), T(0), T(kSide)));
  last = static_cast<int>(clamp(floor_of(bottom), T(-1), T(tile.rows - 1)));
}

template <typename T, int D, bool kMedian> void forward_tile(const luxel_blend_gaussians_args& args, int64_t index) {
  const Tile<T> tile(args, index);
  const T* splats = in<T>(args.splats);
  const T* values = in<T>(args.values);
  const T max_alpha = T(args.max_alpha);
  alignas(64) T transmittance[kPixels], alive[kPixels], sums[D][kPixels], median[kMedian ? kPixels : 1];
  alignas(64) int32_t last[kPixels], seen[kPixels];
  for (int p = 0; p < kPixels; ++p) {
    transmittance[p] = T(1);
    alive[p] = p % kSide < tile.columns && p / kSide < tile.rows ? T(1) : T(0);
    last[p] = 0;
  }
  std::memset(sums, 0, sizeof sums);
  std::memset(median, 0, sizeof median);
  std::memset(seen, 0, sizeof seen);
  for (int32_t i = tile.begin; i < tile.end; ++i) {
    if ((i - tile.begin) % 16 == 15) {
      T living = T(0);
      for (int p = 0; p < kPixels; ++p) living = larger(living, alive[p]);
      if (living == T(0)) break;
    }
    const int64_t id = args.instances[i];
    const GaussianPolicy<T> g = GaussianPolicy<T>::load(splats + LUXEL_SPLAT * id);
    const T depth = splats[LUXEL_SPLAT * id + 3];
    const T* value = values + D * id;
    int row, last_row;
    reachable_rows(splats + LUXEL_SPLAT * id, tile, row, last_row);
    for (; row <= last_row; ++row) {
      const T dy = T(tile.y0 + row) + T(0.5) - g.y, first_dx = T(tile.x0) + T(0.5) - g.x;
      const int base = row * kSide;
#pragma omp simd
      for (int column = 0; column < kSide; ++column) {
        const int p = base + column;
        const T power = g.power(first_dx + T(column), dy);
        const T alpha = smaller(max_alpha, g.opacity * exp_of(-power));
        const T before = transmittance[p];
        const T after = before * (T(1) - alpha);
        const bool hit = (power >= T(0)) & (alpha >= T(kMinAlpha)) & (alive[p] > T(0));
        const bool stop = hit & (after <= T(kMinTransmittance));
        const bool counts = hit & !stop;
        alive[p] = stop ? T(0) : alive[p];
        const T weight = counts ? alpha * before : T(0);
        for (int d = 0; d < D; ++d) sums[d][p] += weight * value[d];
        transmittance[p] = counts ? after : before;
        last[p] = counts ? i + 1 : last[p];
        seen[p] += counts ? 1 : 0;
        if (kMedian) median[p] = counts & (before > T(0.5)) & (after <= T(0.5)) ? depth : median[p];
      }
    }
  }
  const T* background = args.background ? in<T>(args.background) + D * tile.camera : nullptr;
  for (int row = 0; row < tile.rows; ++row) {
    const int64_t pixel = tile.pixel(args, row);
    for (int column = 0; column < tile.columns; ++column) {
      const int p = row * kSide + column;
      T* image = out<T>(args.image) + (pixel + column) * D;
      for (int d = 0; d < D; ++d) image[d] = sums[d][p] + (background ? transmittance[p] * background[d] : T(0));
      out<T>(args.transmittance)[pixel + column] = transmittance[p];
      args.last[pixel + column] = last[p];
      args.contributors[pixel + column] = seen[p];
      if (kMedian) out<T>(args.median_depth)[pixel + column] = median[p];
    }
  }
}

// Per instance: gradients of x, y, opacity, |x|, a, b, c, |y| as in g_splats, then of the D values.
template <typename T, int D, bool kAbsolute>
void backward_tile(const luxel_blend_gaussians_args& args, int64_t index, T* rows, T* g_background) {
  const Tile<T> tile(args, index);
  const T* splats = in<T>(args.splats);
  const T* values = in<T>(args.values);
  const T* background = args.background ? in<T>(args.background) + D * tile.camera : nullptr;
  const T max_alpha = T(args.max_alpha);
  // behind: the loss's slope along what lies behind the current splat, sum_c g_c S_c
  alignas(64) T transmittance[kPixels], behind[kPixels], g_image[D][kPixels];
  alignas(64) int32_t last[kPixels];
  std::memset(g_image, 0, sizeof g_image);
  for (int p = 0; p < kPixels; ++p) {
    transmittance[p] = T(1);
    behind[p] = T(0);
    last[p] = 0;
  }
  int32_t end = tile.begin;
  for (int row = 0; row < tile.rows; ++row) {
    const int64_t pixel = tile.pixel(args, row);
    for (int column = 0; column < tile.columns; ++column) {
      const int p = row * kSide + column;
      transmittance[p] = in<T>(args.transmittance)[pixel + column];
      last[p] = args.last[pixel + column];
      end = larger(end, last[p]);
      T slope = args.g_transmittance ? in<T>(args.g_transmittance)[pixel + column] : T(0);
      for (int d = 0; d < D; ++d) {
        const T g = in<T>(args.g_image)[(pixel + column) * D + d];
        g_image[d][p] = g;
        if (background) {
          slope += g * background[d];
          g_background[d] += g * transmittance[p];
        }
      }
      behind[p] = slope * transmittance[p];
    }
  }
  constexpr int kWidth = LUXEL_SPLAT + D;
  std::memset(rows + static_cast<int64_t>(kWidth) * end, 0, sizeof(T) * kWidth * (tile.end - end));
  for (int32_t i = end - 1; i >= tile.begin; --i) {
    const int64_t id = args.instances[i];
    const GaussianPolicy<T> g = GaussianPolicy<T>::load(splats + LUXEL_SPLAT * id);
    const T* value = values + D * id;
    alignas(64) T lanes[kWidth][kSide];
    std::memset(lanes, 0, sizeof lanes);
    int row, last_row;
    reachable_rows(splats + LUXEL_SPLAT * id, tile, row, last_row);
    for (; row <= last_row; ++row) {
      const T dy = T(tile.y0 + row) + T(0.5) - g.y, first_dx = T(tile.x0) + T(0.5) - g.x;
      const int base = row * kSide;
#pragma omp simd
      for (int column = 0; column < kSide; ++column) {
        const int p = base + column;
        const T dx = first_dx + T(column);
        const T power = g.power(dx, dy);
        const T falloff = exp_of(-power);
        const T raw = g.opacity * falloff;
        const T alpha = smaller(max_alpha, raw);
        const bool counts = (power >= T(0)) & (alpha >= T(kMinAlpha)) & (i < last[p]);
        const T mask = counts ? T(1) : T(0);
        const T inverse = T(1) / (T(1) - mask * alpha);
        const T before = transmittance[p] * inverse;
        const T weight = mask * alpha * before;
        T slope = T(0);  // of the loss along this splat's value
        for (int d = 0; d < D; ++d) {
          slope += g_image[d][p] * value[d];
          lanes[LUXEL_SPLAT + d][column] += weight * g_image[d][p];
        }
        const T g_alpha = mask * (raw <= max_alpha ? before * slope - behind[p] * inverse : T(0));
        behind[p] += weight * slope;
        transmittance[p] = before;
        const GaussianPolicy<T> grad = g.alpha_vjp(dx, dy, falloff, g_alpha);
        lanes[0][column] += grad.x;
        lanes[1][column] += grad.y;
        lanes[2][column] += grad.opacity;
        lanes[4][column] += grad.a;
        lanes[5][column] += grad.b;
        lanes[6][column] += grad.c;
        if (kAbsolute) {
          lanes[3][column] += grad.x < T(0) ? -grad.x : grad.x;
          lanes[7][column] += grad.y < T(0) ? -grad.y : grad.y;
        }
      }
    }
    T* target = rows + static_cast<int64_t>(kWidth) * i;
    for (int k = 0; k < kWidth; ++k) {
      T sum = T(0);
      for (int column = 0; column < kSide; ++column) sum += lanes[k][column];
      target[k] = sum;
    }
  }
}

template <typename T, int D> void forward(const luxel_blend_gaussians_args& args) {
#pragma omp parallel for schedule(dynamic, 4)
  for (int64_t tile = 0; tile < tile_count(args); ++tile)
    args.median_depth ? forward_tile<T, D, true>(args, tile) : forward_tile<T, D, false>(args, tile);
}

template <typename T, int D> void backward(const luxel_blend_gaussians_args& args) {
  constexpr int kWidth = LUXEL_SPLAT + D;
  const int64_t tiles = tile_count(args);
  T* rows = static_cast<T*>(args.workspace);
  T* g_backgrounds = rows + kWidth * args.capacity;
  std::memset(g_backgrounds, 0, sizeof(T) * D * tiles);
#pragma omp parallel for schedule(dynamic, 4)
  for (int64_t tile = 0; tile < tiles; ++tile)
    args.absolute ? backward_tile<T, D, true>(args, tile, rows, g_backgrounds + D * tile)
                  : backward_tile<T, D, false>(args, tile, rows, g_backgrounds + D * tile);
  int64_t instances = 0;
  for (int64_t tile = 0; tile < tiles; ++tile) instances = larger<int64_t>(instances, args.ranges[2 * tile + 1]);
  const int64_t splats = static_cast<int64_t>(args.count) * args.cameras;
#pragma omp parallel
  {
    const int parts = omp_get_num_threads(), part = omp_get_thread_num();
    const int64_t first = splats * part / parts, end = splats * (part + 1) / parts;
    for (int64_t i = 0; i < instances; ++i) {
      const int64_t id = args.instances[i];
      if (id < first || id >= end) continue;
      const T* row = rows + kWidth * i;
      T* g_splat = out<T>(args.g_splats) + LUXEL_SPLAT * id;
      T* g_value = out<T>(args.g_values) + D * id;
      for (int k = 0; k < LUXEL_SPLAT; ++k) g_splat[k] += row[k];
      for (int d = 0; d < D; ++d) g_value[d] += row[LUXEL_SPLAT + d];
    }
  }
  if (args.g_background)
    for (int64_t tile = 0; tile < tiles; ++tile)
      for (int d = 0; d < D; ++d)
        out<T>(args.g_background)[tile / (tiles / args.cameras) * D + d] += g_backgrounds[D * tile + d];
}

template <typename T> int run(const luxel_blend_gaussians_args& args, bool back) {
  switch (args.channels) {
#define LUXEL_CHANNELS(D) \
  case D: back ? backward<T, D>(args) : forward<T, D>(args); return 0;
    LUXEL_CHANNELS(3)
    LUXEL_CHANNELS(4)
    LUXEL_CHANNELS(6)
    LUXEL_CHANNELS(7)
    LUXEL_CHANNELS(8)
    LUXEL_CHANNELS(16)
#undef LUXEL_CHANNELS
  }
  return fail("%d channels are not one of 3, 4, 6, 7, 8, 16", args.channels);
}

}  // namespace
}  // namespace luxel

extern "C" {

int64_t luxel_blend_gaussians_workspace(const luxel_blend_gaussians_args* args) {
  const int64_t numbers = (LUXEL_SPLAT + args->channels) * args->capacity + args->channels * luxel::tile_count(*args);
  return numbers * (args->dtype ? sizeof(double) : sizeof(float)) + 256;
}

int luxel_blend_gaussians_fwd(const luxel_blend_gaussians_args* args) {
  return args->dtype ? luxel::run<double>(*args, false) : luxel::run<float>(*args, false);
}

int luxel_blend_gaussians_bwd(const luxel_blend_gaussians_args* args) {
  if (args->workspace_bytes < luxel_blend_gaussians_workspace(args)) return luxel::fail("workspace too small");
  return args->dtype ? luxel::run<double>(*args, true) : luxel::run<float>(*args, true);
}
}
