// The table of policies, and the functions of the C ABI that only look it up. In both libraries.
#include "kernels/error.h"
#include "kernels/raster/policy_stages.h"

namespace luxel {
namespace {

#define LUXEL_ADDRESS(name, type, header) &policy_##name,
const PolicyStages* const kPolicies[] = {LUXEL_POLICIES(LUXEL_ADDRESS)};
#undef LUXEL_ADDRESS
constexpr int32_t kCount = sizeof kPolicies / sizeof kPolicies[0];

}  // namespace

const PolicyStages* policy_stages(int32_t number) {
  if (number >= 0 && number < kCount) return kPolicies[number];
  fail("there is no policy %d, only 0 to %d", number, kCount - 1);
  return nullptr;
}

}  // namespace luxel

extern "C" {

const char* luxel_policy(int32_t number, int32_t* row, int32_t* piece, int32_t* flags) {
  const luxel::PolicyStages* const stages = luxel::policy_stages(number);
  if (stages == nullptr) return nullptr;
  *row = stages->row;
  *piece = stages->piece;
  *flags = stages->flags;
  return stages->name;
}

int64_t luxel_blend_workspace(const luxel_blend_args* args) {
  const luxel::PolicyStages* const stages = luxel::policy_stages(args->binned.policy);
  return stages ? stages->blend_workspace(*args) : -1;
}

int luxel_blend_fwd(const luxel_blend_args* args) {
  const luxel::PolicyStages* const stages = luxel::policy_stages(args->binned.policy);
  return stages ? stages->blend(*args, false) : -1;
}

int luxel_blend_bwd(const luxel_blend_args* args) {
  const luxel::PolicyStages* const stages = luxel::policy_stages(args->binned.policy);
  return stages ? stages->blend(*args, true) : -1;
}

int luxel_label_votes(const luxel_label_votes_args* args) {
  const luxel::PolicyStages* const stages = luxel::policy_stages(args->binned.policy);
  return stages ? stages->votes(*args) : -1;
}

int luxel_label_render(const luxel_label_render_args* args) {
  const luxel::PolicyStages* const stages = luxel::policy_stages(args->binned.policy);
  return stages ? stages->labels(*args) : -1;
}

int luxel_probe(const luxel_probe_args* args) {
  const luxel::PolicyStages* const stages = luxel::policy_stages(args->policy);
  return stages ? stages->probe(*args) : -1;
}
}
