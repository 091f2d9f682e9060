// CPU twin of adam: one pass over every parameter group.
#include "abi/train.h"
#include "math/train/adam.h"
#include "kernels/error.h"

namespace luxel {
namespace {

constexpr int64_t kChunk = 4096;  // elements that one thread takes at a time

template <typename T>
void update_range(const AdamConstants<T>& constants, T* param, const T* grad, T* exp_avg, T* exp_avg_sq, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) adam_update(constants, grad[i], param[i], exp_avg[i], exp_avg_sq[i]);
}

template <typename T>
void update_group(const AdamConstants<T>& constants, const int64_t* entry, const uint8_t* visible) {
  T* param = reinterpret_cast<T*>(entry[0]);
  const T* grad = reinterpret_cast<const T*>(entry[1]);
  T* exp_avg = reinterpret_cast<T*>(entry[2]);
  T* exp_avg_sq = reinterpret_cast<T*>(entry[3]);
  const int64_t numel = entry[4], stride = entry[5];
  if (visible) {
#pragma omp parallel for schedule(static)
    for (int64_t n = 0; n < numel / stride; ++n) {
      const int64_t at = n * stride;
      if (visible[n]) update_range(constants, param + at, grad + at, exp_avg + at, exp_avg_sq + at, stride);
    }
    return;
  }
#pragma omp parallel for schedule(static)
  for (int64_t at = 0; at < numel; at += kChunk) {
    const int64_t count = numel - at < kChunk ? numel - at : kChunk;
    update_range(constants, param + at, grad + at, exp_avg + at, exp_avg_sq + at, count);
  }
}

template <typename T> int update(const luxel_adam_args& args) {
  if (args.skip && *args.skip != 0) return 0;
  const T* schedule = static_cast<const T*>(args.schedule);
  for (int group = 0; group < args.groups; ++group) {
    const int64_t* entry = args.table + 7 * group;
    const AdamConstants<T> constants =
        schedule ? AdamConstants<T>::decays(args.beta1, args.beta2, args.eps)
                       .at(schedule[entry[6]], schedule[args.rates], schedule[args.rates + 1])
                 : AdamConstants<T>(args.lrs[group], args.beta1, args.beta2, args.eps, args.step);
    update_group<T>(constants, entry, args.visible);
  }
  return 0;
}

}  // namespace
}  // namespace luxel

extern "C" int luxel_adam(const luxel_adam_args* args) {
  if (!args->schedule && args->step < 1) return luxel::fail("adam: step %lld is below 1", static_cast<long long>(args->step));
  return args->dtype ? luxel::update<double>(*args) : luxel::update<float>(*args);
}
