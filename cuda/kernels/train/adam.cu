// adam on the GPU: one launch for all parameter groups, four numbers a thread.
#include "abi/train.h"
#include "math/train/adam.h"
#include "device/launch.cuh"

namespace luxel {
namespace {

constexpr int kThreads = 256;
constexpr int kWide = 4;        // numbers per thread
constexpr int kMaxGroups = 16; // of one launch; the table travels as a kernel argument

struct Group {
  float *param, *exp_avg, *exp_avg_sq;
  const float* grad;
  int64_t numel;
  int64_t last_block;  // one past the group's last block
  uint32_t stride;
  int32_t rate;        // its index in the schedule
  bool aligned;        // all four addresses to 16 bytes
  AdamConstants<float> constants;
};

struct Groups {
  Group group[kMaxGroups];
  const uint8_t* visible;
  const float* schedule;
  const int32_t* skip;
  int32_t rates;
};

__global__ void __launch_bounds__(kThreads) adam_kernel(const __grid_constant__ Groups groups) {
  if (groups.skip != nullptr && *groups.skip != 0) return;
  int g = 0;
  while (blockIdx.x >= groups.group[g].last_block) ++g;
  const Group& group = groups.group[g];
  const int64_t first_block = g > 0 ? groups.group[g - 1].last_block : 0;
  const int64_t start = ((blockIdx.x - first_block) * kThreads + threadIdx.x) * kWide;
  if (start >= group.numel) return;
  const int count = group.numel - start < kWide ? static_cast<int>(group.numel - start) : kWide;

  bool moves[kWide] = {true, true, true, true};
  if (groups.visible) {
    bool any = false;
#pragma unroll
    for (int i = 0; i < kWide; ++i) {
      moves[i] = i < count && groups.visible[(start + i) / group.stride] != 0;
      any |= moves[i];
    }
    if (!any) return;
  }

  const float* schedule = groups.schedule;
  const AdamConstants<float> constants =
      schedule ? group.constants.at(schedule[group.rate], schedule[groups.rates], schedule[groups.rates + 1]) : group.constants;
  float* param = group.param + start;
  float* exp_avg = group.exp_avg + start;
  float* exp_avg_sq = group.exp_avg_sq + start;
  if (group.aligned && count == kWide) {
    const float4 grad4 = *reinterpret_cast<const float4*>(group.grad + start);
    float4 p = *reinterpret_cast<float4*>(param), m = *reinterpret_cast<float4*>(exp_avg);
    float4 s = *reinterpret_cast<float4*>(exp_avg_sq);
    if (moves[0]) adam_update(constants, grad4.x, p.x, m.x, s.x);
    if (moves[1]) adam_update(constants, grad4.y, p.y, m.y, s.y);
    if (moves[2]) adam_update(constants, grad4.z, p.z, m.z, s.z);
    if (moves[3]) adam_update(constants, grad4.w, p.w, m.w, s.w);
    *reinterpret_cast<float4*>(param) = p;
    *reinterpret_cast<float4*>(exp_avg) = m;
    *reinterpret_cast<float4*>(exp_avg_sq) = s;
    return;
  }
#pragma unroll
  for (int i = 0; i < kWide; ++i)
    if (i < count && moves[i]) adam_update(constants, group.grad[start + i], param[i], exp_avg[i], exp_avg_sq[i]);
}

int run(const luxel_adam_args& args, int first, int count) {
  Groups groups = {};
  groups.visible = args.visible;
  groups.schedule = static_cast<const float*>(args.schedule);
  groups.skip = args.skip;
  groups.rates = args.rates;
  int64_t blocks = 0;
  for (int g = 0; g < count; ++g) {
    const int64_t* entry = args.table + 7 * (first + g);
    Group& group = groups.group[g];
    group.param = reinterpret_cast<float*>(entry[0]);
    group.grad = reinterpret_cast<const float*>(entry[1]);
    group.exp_avg = reinterpret_cast<float*>(entry[2]);
    group.exp_avg_sq = reinterpret_cast<float*>(entry[3]);
    group.numel = entry[4];
    group.stride = static_cast<uint32_t>(entry[5]);
    group.aligned = ((entry[0] | entry[1] | entry[2] | entry[3]) & 15) == 0;
    group.rate = static_cast<int32_t>(entry[6]);
    group.constants = args.schedule ? AdamConstants<float>::decays(args.beta1, args.beta2, args.eps)
                                    : AdamConstants<float>(args.lrs[first + g], args.beta1, args.beta2, args.eps, args.step);
    blocks += (group.numel + kThreads * kWide - 1) / (kThreads * kWide);
    group.last_block = blocks;
  }
  if (blocks == 0) return 0;
  if (blocks > 0x7fffffff) return fail("adam: too many parameters for one launch");
  return launch("adam", adam_kernel, static_cast<unsigned>(blocks), kThreads, 0, args.stream, groups);
}

}  // namespace
}  // namespace luxel

extern "C" int luxel_adam(const luxel_adam_args* args) {
  using namespace luxel;
  if (args->dtype) return fail("adam: the GPU has float32 only");
  if (!args->schedule && args->step < 1) return fail("adam: step %lld is below 1", static_cast<long long>(args->step));
  LUXEL_CUDA(cudaSetDevice(args->device));
  for (int first = 0; first < args->groups; first += kMaxGroups) {
    const int left = args->groups - first;
    if (run(*args, first, left < kMaxGroups ? left : kMaxGroups)) return -1;
  }
  return 0;
}
