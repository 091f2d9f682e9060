// trace_rays on the GPU: a thread per ray, each with its own walk through the tree; a warp traces a tile of 8 x 4 pixels.
#include "kernels/mesh/trace_rays.h"

#include "device/launch.cuh"

namespace luxel {
namespace {

constexpr int kThreads = 128, kTileColumns = 8, kTileRows = 4, kTile = kTileColumns * kTileRows;

__global__ void __launch_bounds__(kThreads) trace_rays_kernel(const luxel_trace_rays_args args) {
  int64_t n = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  Vec3<float> origin, direction;
  if (args.rays) {
    if (n >= args.count) return;
    const float* row = in<float>(args.rays) + 6 * n;
    origin = load3(row);
    direction = load3(row + 3);
  } else {
    const int64_t across = (args.width + kTileColumns - 1) / kTileColumns, tile = n / kTile, lane = n % kTile;
    const int64_t column = tile % across * kTileColumns + lane % kTileColumns;
    const int64_t row = tile / across * kTileRows + lane / kTileColumns;
    n = row * args.width + column;
    if (column >= args.width || n >= args.count) return;
    pixel_ray<float>(args, static_cast<float>(column), static_cast<float>(row), origin, direction);
  }
  const FirstHits<float> hit = trace<float>(args, origin, direction);
  store_hit<float>(args, n, hit.slot, hit.t, hit.b, hit.c, hit.turn);
}

}  // namespace
}  // namespace luxel

extern "C" int luxel_trace_rays(const luxel_trace_rays_args* args) {
  using namespace luxel;
  if (check(*args) < 0) return -1;
  if (args->dtype != 0) return fail("the GPU kernels take float32");
  if (reinterpret_cast<uintptr_t>(args->boxes) % 16 != 0) return fail("trace_rays: boxes must be 16-byte aligned");
  LUXEL_CUDA(cudaSetDevice(args->device));
  int64_t threads = args->count;
  if (!args->rays) {
    const int64_t columns = (args->width + kTileColumns - 1) / kTileColumns;
    threads = columns * ((args->count / args->width + kTileRows - 1) / kTileRows) * kTile;
  }
  return launch("trace_rays", trace_rays_kernel, blocks_for(threads, kThreads), kThreads, 0, args->stream, *args);
}
