// Deterministic sums over rows: each run of kRunOfRows rows is summed by one thread or block, then the sums of the runs are
// added in order.
#pragma once

#include <cstdint>

namespace luxel {

constexpr int kRunOfRows = 256;

inline int64_t runs_of_rows(int64_t rows) { return (rows + kRunOfRows - 1) / kRunOfRows; }

// S sums over `rows` rows with OpenMP: body(row, sums) adds the terms of a row. runs [runs_of_rows(rows), S]: workspace.
template <int S, typename Body> void sum_rows(int64_t rows, double* runs, double (&total)[S], Body body) {
  const int64_t count = runs_of_rows(rows);
#pragma omp parallel for schedule(static)
  for (int64_t run = 0; run < count; ++run) {
    double sums[S] = {};
    const int64_t first = run * kRunOfRows, last = first + kRunOfRows < rows ? first + kRunOfRows : rows;
    for (int64_t row = first; row < last; ++row) body(row, sums);
    for (int s = 0; s < S; ++s) runs[run * S + s] = sums[s];
  }
  for (int s = 0; s < S; ++s) total[s] = 0;
  for (int64_t run = 0; run < count; ++run)
    for (int s = 0; s < S; ++s) total[s] += runs[run * S + s];
}

}  // namespace luxel
