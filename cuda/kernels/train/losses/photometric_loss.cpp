// CPU twin of photometric_loss: L1 + SSIM and the gradient by the rendered image.
#include "abi/train.h"
#include "math/train/ssim.h"
#include "kernels/error.h"
#include "kernels/train/losses/differing.h"

#include <cstring>

namespace luxel {
namespace {

constexpr int kBlock = 480;             // floats of a row handled at once: the buffers stay in the L1 cache
constexpr int kSums = 4;                // per row: w |x - y|, v SSIM, w, v; v is w less what `valid` leaves out

template <typename T> struct Rows {  // the rows under one window, with their taps; those outside have tap 0
  const T* row[kSsimTaps];
  T tap[kSsimTaps];
  Rows(const T* image, int row_index, int height, int64_t stride) {
    for (int k = 0; k < kSsimTaps; ++k) {
      const int r = row_index + k - kSsimRadius;
      const bool inside = r >= 0 && r < height;
      row[k] = image + (inside ? r : row_index) * stride;
      tap[k] = inside ? T(ssim_tap(k)) : T(0);
    }
  }
};

// Horizontal window over a buffer that starts kHalo floats left of j = 0.
template <typename T> LUXEL_HD T window(const T* buffer, int j) {
  T sum = T(ssim_tap(kSsimRadius)) * buffer[j + kHalo];
#pragma GCC unroll 5
  for (int k = 0; k < kSsimRadius; ++k) sum += T(ssim_tap(k)) * (buffer[j + 3 * k] + buffer[j + 2 * kHalo - 3 * k]);
  return sum;
}

// What of a row of `floats` a buffer for floats [begin, begin + count) and its halos can be filled from.
inline Span reached(int begin, int count, int floats) { return {larger(begin - kHalo, 0), smaller(begin + count + kHalo, floats)}; }

template <typename T> void blank_outside(T* buffer, int begin, const Span& span) {
  for (int j = 0; j < span.first - begin + kHalo; ++j) buffer[j] = T(0);
  for (int j = span.last - begin + kHalo; j < kBlock + 2 * kHalo; ++j) buffer[j] = T(0);
}

template <typename T> struct Forward {
  const T *x, *y, *weight;  // x with the ignored pixels replaced by y's; weight may be null
  const Differing& differing;
  T* partials;              // may be null
  int64_t plane;            // floats of one of its three maps
  int width, height;
  bool valid;

  void row(int64_t r, double* sums) const {
    const int floats = 3 * width, i = static_cast<int>(r % height);
    const int64_t image = (r - i) * floats, start = r * floats;
    const bool outside = valid && (i < kSsimRadius || i >= height - kSsimRadius);
    const Rows<T> xs(x + image, i, height, floats), ys(y + image, i, height, floats);
    for (int s = 0; s < kSums; ++s) sums[s] = 0;
    const Span span = differing.within(r, 1);
    equal(r, 0, span.first, outside, sums);
    equal(r, span.last, floats, outside, sums);
    for (int begin = span.first; begin < span.last; begin += kBlock) {
      const int count = smaller(span.last - begin, kBlock);
      T w[kBlock], v[kBlock];
      for (int j = 0; j < count; ++j) {
        const int column = (begin + j) / 3;
        w[j] = weight_of(r, column);
        v[j] = outside || left_out(column) ? T(0) : w[j];
      }
      alignas(64) T moments[4][kBlock + 2 * kHalo];
      vertical(xs, ys, begin, count, floats, moments);
      horizontal(moments, w, v, start + begin, count, sums);
    }
  }

  T weight_of(int64_t r, int column) const {
    return !weight ? T(1) : (weight[r * width + column] > 0 ? weight[r * width + column] : T(0));
  }
  bool left_out(int column) const { return valid && (column < kSsimRadius || column >= width - kSsimRadius); }

  // Floats [from, to), full pixels, in whose windows x equals y.
  void equal(int64_t r, int from, int to, bool outside, double* sums) const {
    T w = 0, v = 0;
    for (int column = from / 3; column < to / 3; ++column) {
      const T one = weight_of(r, column);
      w += one;
      v += outside || left_out(column) ? T(0) : one;
    }
    sums[1] += 3 * v;
    sums[2] += 3 * w;
    sums[3] += 3 * v;
    if (!partials || from == to) return;
    const int64_t row = r * 3 * width + from;
    for (int map = 0; map < 3; ++map) std::memset(partials + map * plane + row, 0, sizeof(T) * (to - from));
  }

  static void vertical(const Rows<T>& xs, const Rows<T>& ys, int begin, int count, int floats,
                       T (&moments)[4][kBlock + 2 * kHalo]) {
    const Span span = reached(begin, count, floats);
    for (auto& buffer : moments) blank_outside(buffer, begin, span);
    const int shift = kHalo - begin;
#pragma omp simd
    for (int j = span.first; j < span.last; ++j) {
      T mean_x = 0, mean_y = 0, square = 0, product = 0;
#pragma GCC unroll 11
      for (int k = 0; k < kSsimTaps; ++k) {
        const T a = xs.row[k][j], b = ys.row[k][j], ta = xs.tap[k] * a, tb = ys.tap[k] * b;
        mean_x += ta;
        mean_y += tb;
        square += ta * a + tb * b;
        product += ta * b;
      }
      moments[0][j + shift] = mean_x;
      moments[1][j + shift] = mean_y;
      moments[2][j + shift] = square;
      moments[3][j + shift] = product;
    }
  }

  void horizontal(const T (&moments)[4][kBlock + 2 * kHalo], const T* w, const T* v, int64_t at, int count,
                  double* sums) const {
    T l1 = 0, similarity = 0, sum_w = 0, sum_v = 0;
    const T *px = x + at, *py = y + at;
    T discarded[3][kBlock];
    T* g_x = partials ? partials + at : discarded[0];
    T* g_square = partials ? partials + plane + at : discarded[1];
    T* g_product = partials ? partials + 2 * plane + at : discarded[2];
#pragma omp simd reduction(+ : l1, similarity, sum_w, sum_v)
    for (int j = 0; j < count; ++j) {
      const SsimMoments<T> m = {window(moments[0], j), window(moments[1], j), window(moments[2], j),
                                window(moments[3], j)};
      T by_x, by_square, by_product;
      similarity += v[j] * ssim_vjp(m, T(1), by_x, by_square, by_product);
      g_x[j] = v[j] * by_x;
      g_square[j] = v[j] * by_square;
      g_product[j] = v[j] * by_product;
      l1 += w[j] * std::fabs(px[j] - py[j]);
      sum_w += w[j];
      sum_v += v[j];
    }
    sums[0] += l1;
    sums[1] += similarity;
    sums[2] += sum_w;
    sums[3] += sum_v;
  }
};

template <typename T> void replace_ignored(const T* x, const T* y, const T* weight, int64_t pixels, T* out) {
#pragma omp parallel for schedule(static)
  for (int64_t p = 0; p < pixels; ++p)
    for (int64_t j = 3 * p; j < 3 * p + 3; ++j) out[j] = weight[p] > 0 ? x[j] : y[j];
}

template <typename T> int forward(const luxel_photometric_loss_args& args) {
  const int64_t rows = static_cast<int64_t>(args.cameras) * args.height, pixels = rows * args.width;
  auto* sums = static_cast<double*>(args.workspace);
  const T* x = static_cast<const T*>(args.rgb);
  const T* y = static_cast<const T*>(args.target);
  const T* weight = static_cast<const T*>(args.weight);
  if (weight) {
    T* replaced = reinterpret_cast<T*>(sums + rows * kSums);
    replace_ignored(x, y, weight, pixels, replaced);
    x = replaced;
  }
  const Differing differing(x, y, rows, args.height, 3 * args.width);
  const Forward<T> job = {x, y, weight, differing, static_cast<T*>(args.partials), 3 * pixels, args.width, args.height, args.valid != 0};
#pragma omp parallel for schedule(dynamic, 4)
  for (int64_t r = 0; r < rows; ++r) job.row(r, sums + r * kSums);
  double total[kSums] = {};
  for (int64_t r = 0; r < rows; ++r)
    for (int s = 0; s < kSums; ++s) total[s] += sums[r * kSums + s];
  const double by_l1 = total[2] > 0 ? (1 - args.ssim_weight) / total[2] : 0;
  const double by_ssim = total[3] > 0 ? -args.ssim_weight / total[3] : 0;
  static_cast<T*>(args.scales)[0] = T(by_l1);
  static_cast<T*>(args.scales)[1] = T(by_ssim);
  static_cast<T*>(args.loss)[0] = T(by_l1 * total[0] + (total[3] > 0 ? args.ssim_weight : 0) + by_ssim * total[1]);
  return 0;
}

template <typename T> struct Backward {
  const T *x, *y, *weight, *partials;
  const Differing& differing;
  T *g_rgb, by_l1, by_ssim;
  int64_t plane;
  int width, height;

  void row(int64_t r) const {
    const int floats = 3 * width, i = static_cast<int>(r % height);
    const int64_t image = (r - i) * floats, start = r * floats;
    const Span span = differing.within(r, 2);  // every partial that is not 0 lies within one window of a difference
    std::memset(g_rgb + start, 0, sizeof(T) * span.first);
    std::memset(g_rgb + start + span.last, 0, sizeof(T) * (floats - span.last));
    for (int begin = span.first; begin < span.last; begin += kBlock) {
      const int count = smaller(span.last - begin, kBlock);
      alignas(64) T sums[3][kBlock + 2 * kHalo];
      for (int map = 0; map < 3; ++map)
        vertical(Rows<T>(partials + map * plane + image, i, height, floats), begin, count, floats, sums[map]);
      T w[kBlock];
      for (int j = 0; j < count; ++j) w[j] = !weight ? T(1) : weight[r * width + (begin + j) / 3];
      const T *px = x + start + begin, *py = y + start + begin;
      T* out = g_rgb + start + begin;
#pragma omp simd
      for (int j = 0; j < count; ++j) {
        const T sign = T(px[j] > py[j]) - T(px[j] < py[j]);
        const T by_window = ssim_pixel_vjp(px[j], py[j], window(sums[0], j), window(sums[1], j), window(sums[2], j));
        const T g = by_l1 * w[j] * sign + by_ssim * by_window;
        out[j] = w[j] > 0 ? g : T(0);
      }
    }
  }

  static void vertical(const Rows<T>& maps, int begin, int count, int floats, T* buffer) {
    const Span span = reached(begin, count, floats);
    blank_outside(buffer, begin, span);
    const int shift = kHalo - begin;
#pragma omp simd
    for (int j = span.first; j < span.last; ++j) {
      T sum = 0;
#pragma GCC unroll 11
      for (int k = 0; k < kSsimTaps; ++k) sum += maps.tap[k] * maps.row[k][j];
      buffer[j + shift] = sum;
    }
  }
};

template <typename T> int backward(const luxel_photometric_loss_args& args) {
  const int64_t rows = static_cast<int64_t>(args.cameras) * args.height;
  const T g = static_cast<const T*>(args.g_loss)[0];
  const T* scales = static_cast<const T*>(args.scales);
  const T* x = static_cast<const T*>(args.rgb);
  const T* y = static_cast<const T*>(args.target);
  const Differing differing(x, y, rows, args.height, 3 * args.width);
  const Backward<T> job = {x, y, static_cast<const T*>(args.weight), static_cast<const T*>(args.partials), differing,
                           static_cast<T*>(args.g_rgb), g * scales[0], g * scales[1], 3 * rows * args.width,
                           args.width, args.height};
#pragma omp parallel for schedule(dynamic, 4)
  for (int64_t r = 0; r < rows; ++r) job.row(r);
  return 0;
}

}  // namespace
}  // namespace luxel

extern "C" {

int64_t luxel_photometric_loss_workspace(const luxel_photometric_loss_args* args) {
  const int64_t rows = static_cast<int64_t>(args->cameras) * args->height;
  const int64_t replaced = args->weight ? 3 * rows * args->width * (args->dtype ? 8 : 4) : 0;
  return rows * luxel::kSums * 8 + replaced;
}

int luxel_photometric_loss_fwd(const luxel_photometric_loss_args* args) {
  const int64_t needed = luxel_photometric_loss_workspace(args);
  if (args->workspace_bytes < needed)
    return luxel::fail("photometric_loss_fwd needs a workspace of %lld bytes", static_cast<long long>(needed));
  return args->dtype ? luxel::forward<double>(*args) : luxel::forward<float>(*args);
}

int luxel_photometric_loss_bwd(const luxel_photometric_loss_args* args) {
  return args->dtype ? luxel::backward<double>(*args) : luxel::backward<float>(*args);
}
}
