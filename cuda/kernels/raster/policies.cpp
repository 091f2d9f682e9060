// The table of policies, and the functions of the C ABI that only look it up. In both libraries.
#include "kernels/error.h"
#include "kernels/raster/policy_stages.h"

#include <atomic>
#include <cstring>
#include <mutex>

namespace luxel {
namespace {

#define LUXEL_ADDRESS(name, type, header) &policy_##name,
const PolicyStages* const kPolicies[] = {LUXEL_POLICIES(LUXEL_ADDRESS)};
#undef LUXEL_ADDRESS
constexpr int32_t kBuiltIn = sizeof kPolicies / sizeof kPolicies[0], kMaxAdded = 32;

// Those of shared objects. An entry is written before `added` counts it, and never changes.
const PolicyStages* added_policies[kMaxAdded];
std::atomic<int32_t> added{0};
std::mutex adding;

}  // namespace

const PolicyStages* policy_stages(int32_t number) {
  const int32_t count = kBuiltIn + added.load(std::memory_order_acquire);
  if (number >= 0 && number < count) return number < kBuiltIn ? kPolicies[number] : added_policies[number - kBuiltIn];
  fail("there is no policy %d, only 0 to %d", number, count - 1);
  return nullptr;
}

int add_policy(const PolicyStages* stages, int64_t bytes) {
  if (bytes != sizeof(PolicyStages) || std::strcmp(stages->abi, LUXEL_ABI_SHA256) != 0)
    return fail("the policy was compiled with the headers of another version");
  const std::lock_guard<std::mutex> lock(adding);
  const int32_t place = added.load(std::memory_order_relaxed);
  for (int32_t number = 0; number < kBuiltIn + place; ++number)
    if (std::strcmp(policy_stages(number)->name, stages->name) == 0)
      return fail("there is a policy of the name %s already", stages->name);
  if (place == kMaxAdded) return fail("%d policies have been added, which is the largest number", kMaxAdded);
  added_policies[place] = stages;
  added.store(place + 1, std::memory_order_release);
  return kBuiltIn + place;
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

int32_t luxel_add_policy(const void* stages, int64_t bytes) {
  return luxel::add_policy(static_cast<const luxel::PolicyStages*>(stages), bytes);
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
