// CPU twin of field: its two stages, one after the other.
#include "field.h"

namespace luxel {
namespace {

int64_t real_size(const luxel_field_args& args) { return args.dtype ? sizeof(double) : sizeof(float); }
int64_t features_size(const luxel_field_args& args) { return real_size(args) * args.count * args.levels * args.features; }

// A workspace: what mlp asks for, then features that nobody keeps, or their gradient.
int64_t network_size(const luxel_field_args& args, bool backward) {
  const luxel_mlp_args network = network_of(args);
  return aligned_size(backward ? luxel_mlp_bwd_workspace(&network) : luxel_mlp_fwd_workspace(&network));
}

}  // namespace
}  // namespace luxel

extern "C" {

int64_t luxel_field_fwd_workspace(const luxel_field_args* args) {
  using namespace luxel;
  return network_size(*args, false) + (args->kept ? 0 : features_size(*args));
}

int64_t luxel_field_bwd_workspace(const luxel_field_args* args) {
  using namespace luxel;
  return network_size(*args, true) + features_size(*args);
}

int luxel_field_fwd(const luxel_field_args* args) {
  using namespace luxel;
  if (args->workspace_bytes < luxel_field_fwd_workspace(args)) return fail("field: workspace too small");
  luxel_encode_grid_args grid = grid_of(*args);
  luxel_mlp_args network = network_of(*args);
  network.workspace = args->workspace;
  network.workspace_bytes = network_size(*args, false);
  char* const rest = static_cast<char*>(args->workspace) + network.workspace_bytes;
  grid.out = args->kept ? args->kept : rest;
  if (luxel_encode_grid_fwd(&grid) < 0) return -1;
  network.x = grid.out;
  network.hidden = args->kept ? static_cast<char*>(args->kept) + features_size(*args) : nullptr;
  return luxel_mlp_fwd(&network);
}

int luxel_field_bwd(const luxel_field_args* args) {
  using namespace luxel;
  if (args->workspace_bytes < luxel_field_bwd_workspace(args)) return fail("field: workspace too small");
  luxel_encode_grid_args grid = grid_of(*args);
  luxel_mlp_args network = network_of(*args);
  network.workspace = args->workspace;
  network.workspace_bytes = network_size(*args, true);
  network.x = args->kept;
  network.hidden = static_cast<char*>(args->kept) + features_size(*args);
  network.g_x = args->g_table ? static_cast<char*>(args->workspace) + network.workspace_bytes : nullptr;
  if (luxel_mlp_bwd(&network) < 0) return -1;
  if (!args->g_table) return 0;
  grid.g_out = network.g_x;
  return luxel_encode_grid_bwd(&grid);
}
}
