// CPU twin of field: its two stages, one after the other.
#include "kernels/field/grid_mlp/field.h"

#include <algorithm>

namespace luxel {
namespace {

int64_t real_size(const luxel_field_args& args) { return args.dtype ? sizeof(double) : sizeof(float); }
int64_t features_size(const luxel_field_args& args) { return real_size(args) * args.count * args.levels * args.features; }

int64_t outputs_size(const luxel_field_args& args) { return args.order ? real_size(args) * args.count * args.outputs : 0; }

// Calls move(offset of a row in the order of x, offset of its row of out, length), in bytes.
template <typename Move> void each_row(const luxel_field_args& args, const Move& move) {
  const int64_t bytes = real_size(args) * args.outputs;
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < args.count; ++i) move(i * bytes, args.order[i] * bytes, bytes);
}

// The workspace: that of mlp, then rows of out in the order of x (backward: and of g_out), then features if not stored, or their
// gradient.
int64_t network_size(const luxel_field_args& args, bool backward) {
  const luxel_mlp_args network = network_of(args);
  return aligned_size(backward ? luxel_mlp_bwd_workspace(&network) : luxel_mlp_fwd_workspace(&network));
}

}  // namespace
}  // namespace luxel

extern "C" {

int64_t luxel_field_fwd_workspace(const luxel_field_args* args) {
  using namespace luxel;
  return network_size(*args, false) + outputs_size(*args) + (args->kept ? 0 : features_size(*args));
}

int64_t luxel_field_bwd_workspace(const luxel_field_args* args) {
  using namespace luxel;
  return network_size(*args, true) + 2 * outputs_size(*args) + features_size(*args);
}

int luxel_field_fwd(const luxel_field_args* args) {
  using namespace luxel;
  if (args->live && (args->order || args->kept)) return fail("field: live rows go with neither order nor kept features");
  if (args->workspace_bytes < luxel_field_fwd_workspace(args)) return fail("field: workspace too small");
  luxel_encode_grid_args grid = grid_of(*args);
  grid.count = live_rows(*args);
  luxel_mlp_args network = network_of(*args);
  network.workspace = args->workspace;
  network.workspace_bytes = network_size(*args, false);
  char* const rows = static_cast<char*>(args->workspace) + network.workspace_bytes;
  grid.out = args->kept ? args->kept : rows + outputs_size(*args);
  if (args->order) network.out = rows;
  if (luxel_encode_grid_fwd(&grid) < 0) return -1;
  network.x = grid.out;
  network.hidden = args->kept ? static_cast<char*>(args->kept) + features_size(*args) : nullptr;
  if (luxel_mlp_fwd(&network) < 0) return -1;
  if (args->order)
    each_row(*args, [&](int64_t i, int64_t place, int64_t bytes) {
      std::copy_n(rows + i, bytes, static_cast<char*>(args->out) + place);
    });
  return 0;
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
  char* const rows = static_cast<char*>(args->workspace) + network.workspace_bytes;
  char* const g_rows = rows + outputs_size(*args);
  network.g_x = args->g_table ? g_rows + outputs_size(*args) : nullptr;
  if (args->order) {
    each_row(*args, [&](int64_t i, int64_t place, int64_t bytes) {
      std::copy_n(static_cast<const char*>(args->out) + place, bytes, rows + i);
      std::copy_n(static_cast<const char*>(args->g_out) + place, bytes, g_rows + i);
    });
    network.out = rows;
    network.g_out = g_rows;
  }
  if (luxel_mlp_bwd(&network) < 0) return -1;
  if (!args->g_table) return 0;
  grid.g_out = network.g_x;
  return luxel_encode_grid_bwd(&grid);
}
}
