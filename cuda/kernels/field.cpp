// CPU twin of field: its two stages, one after the other.
#include "field.h"

namespace luxel {
namespace {

// The parts of a workspace, in bytes: what mlp asks for, features that nobody keeps, hidden layers and results, gradient by the features.
struct Parts {
  int64_t network = 0, encoded = 0, hidden = 0, out = 0, g_encoded = 0;
  int64_t bytes() const { return network + encoded + hidden + out + g_encoded; }

  Parts(const luxel_field_args& args, bool backward) {
    const luxel_mlp_args sizes = network_of(args);
    const int64_t row = (args.dtype ? sizeof(double) : sizeof(float)) * args.count;
    network = luxel_mlp_fwd_workspace(&sizes);
    if (backward) {
      network = larger(network, luxel_mlp_bwd_workspace(&sizes));
      hidden = aligned_size(row * args.hidden_layers * args.width);
      out = aligned_size(row * sizes.outputs);
      g_encoded = aligned_size(row * sizes.inputs);
    } else {
      encoded = aligned_size(row * sizes.inputs);
    }
    network = aligned_size(network);
  }
};

}  // namespace
}  // namespace luxel

extern "C" {

int64_t luxel_field_fwd_workspace(const luxel_field_args* args) { return luxel::Parts(*args, false).bytes(); }
int64_t luxel_field_bwd_workspace(const luxel_field_args* args) { return luxel::Parts(*args, true).bytes(); }

int luxel_field_fwd(const luxel_field_args* args) {
  using namespace luxel;
  const Parts parts(*args, false);
  if (args->workspace_bytes < parts.bytes()) return fail("field: workspace too small");
  char* const workspace = static_cast<char*>(args->workspace);
  luxel_encode_grid_args grid = grid_of(*args);
  luxel_mlp_args network = network_of(*args);
  grid.out = args->encoded ? args->encoded : workspace + parts.network;
  if (luxel_encode_grid_fwd(&grid) < 0) return -1;
  network.x = grid.out;
  network.workspace = workspace;
  network.workspace_bytes = parts.network;
  return luxel_mlp_fwd(&network);
}

int luxel_field_bwd(const luxel_field_args* args) {
  using namespace luxel;
  const Parts parts(*args, true);
  if (args->workspace_bytes < parts.bytes()) return fail("field: workspace too small");
  char* const workspace = static_cast<char*>(args->workspace);
  luxel_mlp_args network = network_of(*args);
  network.x = args->encoded;
  network.hidden = workspace + parts.network;
  network.out = workspace + parts.network + parts.hidden;
  network.workspace = workspace;
  network.workspace_bytes = parts.network;
  if (luxel_mlp_fwd(&network) < 0) return -1;  // the same numbers once more
  if (args->g_table) network.g_x = workspace + parts.network + parts.hidden + parts.out;
  if (luxel_mlp_bwd(&network) < 0) return -1;
  if (!args->g_table) return 0;
  luxel_encode_grid_args grid = grid_of(*args);
  grid.g_out = network.g_x;
  return luxel_encode_grid_bwd(&grid);
}
}
