// CPU twin of relocate.cu.
#include "kernels/train/relocate.h"

#include "kernels/error.h"

#include <algorithm>

namespace luxel {
namespace {

bool row_is_finite(const RelocatedRows& rows, int64_t n) {
  for (int t = 0; t < kTensors; ++t)
    for (int k = 0; k < rows.width[t]; ++k)
      if (!finite(rows.kinds[0][t][n * rows.width[t] + k])) return false;
  return true;
}

void clear_moments(const RelocatedRows& rows, int64_t n) {
  for (int kind = 1; kind < 3; ++kind)
    for (int t = 0; t < kTensors; ++t) std::fill_n(rows.kinds[kind][t] + n * rows.width[t], rows.width[t], 0.0f);
}

void relocate(const luxel_relocate_args& args) {
  const RelocatedRows rows(args);
  const int64_t count = args.count, all = count + args.added;
  int64_t* cumulated = static_cast<int64_t*>(args.workspace);
#pragma omp parallel for schedule(static)
  for (int64_t n = 0; n < count; ++n) {
    const bool dead = relocates(args) && !(opacity_of(args, n) > args.min_opacity && row_is_finite(rows, n));
    cumulated[n] = dead ? 0 : weight_of(args, n);
    args.source[n] = dead ? -1 : static_cast<int32_t>(n);
  }
  for (int64_t n = 1; n < count; ++n) cumulated[n] += cumulated[n - 1];
  const int64_t total = count > 0 ? cumulated[count - 1] : 0;
  for (int64_t n = 0; n < all; ++n) {
    if (n < count && args.source[n] >= 0) continue;
    if (total == 0) {  // no row can be drawn
      args.source[n] = static_cast<int32_t>(n);
      continue;
    }
    args.source[n] = row_at(cumulated, count, drawn(args, n, total));
    ++args.copies[args.source[n]];
    ++args.moved[0];
  }
#pragma omp parallel for schedule(static)
  for (int64_t n = 0; n < count; ++n) {
    if (args.copies[n] == 0) continue;
    share_row(args, n, args.copies[n]);
    clear_moments(rows, n);
  }
#pragma omp parallel for schedule(static)
  for (int64_t n = 0; n < all; ++n) {
    const int64_t from = args.source[n];
    if (from == n) continue;
    for (int t = 0; t < kTensors; ++t)
      std::copy_n(rows.kinds[0][t] + from * rows.width[t], rows.width[t], rows.kinds[0][t] + n * rows.width[t]);
    clear_moments(rows, n);
  }
}

}  // namespace
}  // namespace luxel

extern "C" {

int64_t luxel_relocate_workspace(const luxel_relocate_args* args) {
  return static_cast<int64_t>(sizeof(int64_t)) * args->count;
}

int luxel_relocate(const luxel_relocate_args* args) {
  if (args->workspace_bytes < luxel_relocate_workspace(args)) return luxel::fail("relocate: workspace too small");
  luxel::relocate(*args);
  return 0;
}
}
