// label_votes and label_render on the GPU.
#include "abi/raster.h"
#include "kernels/error.h"

extern "C" int luxel_label_votes(const luxel_label_votes_args*) { return luxel::fail("label_votes runs on the CPU only"); }
extern "C" int luxel_label_render(const luxel_label_render_args*) { return luxel::fail("label_render runs on the CPU only"); }
