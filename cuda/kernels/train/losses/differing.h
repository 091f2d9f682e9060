// Where two images differ, row by row, so that the CPU twin of photometric_loss skips what is equal.
#pragma once

#include "math/train/ssim.h"

#include <vector>

namespace luxel {

constexpr int kHalo = 3 * kSsimRadius;  // floats of interleaved RGB that a window reaches to each side

struct Span {
  int first, last;  // floats [first, last) of a row
};

// Where x and y differ, as a range of floats [first, last) of each row. Where they are equal in a full window, the SSIM is 1 and
// its gradients cancel: behind an object cut out of its images, that is most of the background.
class Differing {
 public:
  template <typename T> Differing(const T* x, const T* y, int64_t rows, int height, int floats) : height_(height), floats_(floats), ranges_(rows) {
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; ++r) ranges_[r] = range_of(x + r * floats, y + r * floats, floats);
  }

  // The floats of row r within `times` windows of a difference.
  Span within(int64_t r, int times) const {
    const int64_t first_row = r / height_ * height_;
    const int64_t from = larger(r - times * kSsimRadius, first_row), to = smaller(r + times * kSsimRadius, first_row + height_ - 1);
    Span span = {floats_, 0};
    for (int64_t i = from; i <= to; ++i) span = {smaller(span.first, ranges_[i].first), larger(span.last, ranges_[i].last)};
    if (span.first >= span.last) return {0, 0};
    return {larger(span.first - times * kHalo, 0), smaller(span.last + times * kHalo, floats_)};
  }

 private:
  // In full pixels.
  template <typename T> static Span range_of(const T* x, const T* y, int floats) {
    constexpr int kStep = 48;
    int first = 0, last = floats;
    while (first + kStep <= last && same<kStep>(x + first, y + first)) first += kStep;
    while (last - kStep >= first && same<kStep>(x + last - kStep, y + last - kStep)) last -= kStep;
    return {first, last};
  }
  // False for NaN.
  template <int N, typename T> static bool same(const T* x, const T* y) {
    int equal = 0;
#pragma omp simd reduction(+ : equal)
    for (int j = 0; j < N; ++j) equal += x[j] == y[j];
    return equal == N;
  }

  int height_, floats_;
  std::vector<Span> ranges_;
};

}  // namespace luxel
