// bin_splats on the CPU: bin_splats.h for the policy of the arguments.
#include "kernels/raster/bin/bin_splats.h"
#include "kernels/raster/policy_stages.h"

extern "C" {

int64_t luxel_bin_splats_workspace(const luxel_bin_splats_args* args) { return luxel::bin_workspace(*args); }

int luxel_bin_splats(const luxel_bin_splats_args* args) {
  const luxel::PolicyStages* const stages = luxel::policy_stages(args->policy);
  return stages ? stages->bin(*args, nullptr) : -1;
}
}
