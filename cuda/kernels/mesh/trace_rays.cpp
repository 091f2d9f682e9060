// CPU twin of trace_rays: vectors of rays walk through the tree together, those of a camera as small tiles of pixels.
#include "kernels/mesh/trace_rays.h"

namespace luxel {
namespace {

// Rays number first.. in a row of the list, or a tile of pixels; lanes beyond the end repeat the last ray.
template <typename T> struct Packet {
  static constexpr int kTileRows = kLanes<T> >= 4 ? 2 : 1, kTileColumns = kLanes<T> / kTileRows;
  int64_t numbers[kLanes<T>];
  bool used[kLanes<T>];
};

template <typename T>
void trace_packet(const luxel_trace_rays_args& args, const Packet<T>& packet, Vec3<Vector<T>> origin,
                  Vec3<Vector<T>> direction) {
  const FirstHits<Vector<T>> hits = trace<T>(args, origin, direction);
  for (int i = 0; i < kLanes<T>; ++i) {
    if (packet.used[i]) store_hit<T>(args, packet.numbers[i], hits.slot[i], hits.t[i], hits.b[i], hits.c[i], hits.turn[i]);
  }
}

template <typename T> void trace_listed(const luxel_trace_rays_args& args, int64_t first) {
  Packet<T> packet;
  Vec3<Vector<T>> origin, direction;
  for (int i = 0; i < kLanes<T>; ++i) {
    packet.used[i] = first + i < args.count;
    packet.numbers[i] = smaller(first + i, args.count - 1);
    const T* row = in<T>(args.rays) + 6 * packet.numbers[i];
    origin.x[i] = row[0], origin.y[i] = row[1], origin.z[i] = row[2];
    direction.x[i] = row[3], direction.y[i] = row[4], direction.z[i] = row[5];
  }
  trace_packet(args, packet, origin, direction);
}

template <typename T> void trace_tile(const luxel_trace_rays_args& args, int first_column, int first_row) {
  Packet<T> packet;
  const int height = static_cast<int>(args.count / args.width);
  Vector<T> column, row;
  for (int i = 0; i < kLanes<T>; ++i) {
    const int x = first_column + i % Packet<T>::kTileColumns, y = first_row + i / Packet<T>::kTileColumns;
    packet.used[i] = x < args.width && y < height;
    packet.numbers[i] = static_cast<int64_t>(y) * args.width + x;
    column[i] = static_cast<T>(smaller(x, args.width - 1));
    row[i] = static_cast<T>(smaller(y, height - 1));
  }
  Vec3<Vector<T>> origin, direction;
  pixel_ray<T>(args, column, row, origin, direction);
  trace_packet(args, packet, origin, direction);
}

template <typename T> int run(const luxel_trace_rays_args& args) {
  if (args.rays) {
#pragma omp parallel for schedule(dynamic, 64)
    for (int64_t n = 0; n < args.count; n += kLanes<T>) trace_listed<T>(args, n);
    return 0;
  }
  const int height = static_cast<int>(args.count / args.width);
#pragma omp parallel for schedule(dynamic, 1)
  for (int y = 0; y < height; y += Packet<T>::kTileRows) {
    for (int x = 0; x < args.width; x += Packet<T>::kTileColumns) trace_tile<T>(args, x, y);
  }
  return 0;
}

}  // namespace
}  // namespace luxel

extern "C" int luxel_trace_rays(const luxel_trace_rays_args* args) {
  if (luxel::check(*args) < 0) return -1;
  return args->dtype ? luxel::run<double>(*args) : luxel::run<float>(*args);
}
