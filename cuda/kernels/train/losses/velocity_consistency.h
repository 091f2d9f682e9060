// One Gaussian of the stage velocity_consistency; the loops around it are in the .cpp and .cu of the same name.
//
// The gradient of the sum of distances by a velocity is an integer divided by k: k times the signs of the row's own difference,
// minus the signs of the differences of all rows that have it as a neighbour. These integers ("pulls") are added atomically, three
// in a word of 64 bits; the sums are exact in any order while fewer than a million rows share a neighbour.
#pragma once

#include "abi/train.h"
#include "math/train/velocity4d.h"
#include "device/row_sums.h"
#include "kernels/arguments.h"
#include "kernels/workspace.h"

namespace luxel {

constexpr int kConsistencySums = 2;  // distances, and the number of visible rows
constexpr int kPullBits = 21;

struct Pull {
  int x, y, z;
};
LUXEL_HD int64_t pack(Pull p, int times) {
  return static_cast<int64_t>(times) * (p.x + p.y * (int64_t(1) << kPullBits) + p.z * (int64_t(1) << (2 * kPullBits)));
}
LUXEL_HD int lowest(int64_t word) {
  return static_cast<int>(static_cast<int64_t>(static_cast<uint64_t>(word) << (64 - kPullBits)) >> (64 - kPullBits));
}
LUXEL_HD Pull unpack(int64_t word) {
  Pull p;
  p.x = lowest(word);
  word = (word - p.x) >> kPullBits;
  p.y = lowest(word);
  p.z = static_cast<int>((word - p.y) >> kPullBits);
  return p;
}

template <typename T> LUXEL_HD bool velocity_of_row(const luxel_velocity_consistency_args& args, int64_t n, Velocity4d<T>& p) {
  return velocity4d(in<T>(args.rotors) + 8 * n, load3(in<T>(args.log_scales) + 3 * n), in<T>(args.log_scale_t)[n], p);
}

// Writes four numbers per row, the last one 0, and clears its pull.
template <typename T> LUXEL_HD void write_velocity(const luxel_velocity_consistency_args& args, int64_t n, T* velocities) {
  Velocity4d<T> p;
  const bool good = velocity_of_row(args, n, p);
  const T four[4] = {good ? p.velocity.x : T(0), good ? p.velocity.y : T(0), good ? p.velocity.z : T(0), T(0)};
  store4(velocities + 4 * n, four);
  args.pulls[n] = 0;
}

template <typename T> LUXEL_HD Vec3<T> read_velocity(const T* velocities, int64_t n) {
  T four[4];
  load4(velocities + 4 * n, four);
  return {four[0], four[1], four[2]};
}

// An index out of range stands for the row itself.
LUXEL_HD int64_t neighbour(const luxel_velocity_consistency_args& args, int64_t n, int j) {
  const int32_t m = args.neighbours[n * args.k + j];
  return m >= 0 && m < args.count ? m : n;
}

template <typename T> LUXEL_HD int sign_of(T x) { return static_cast<int>(x > T(0)) - static_cast<int>(x < T(0)); }

// Adds the distance of a row if it is visible; add(row, word) adds to a row's pull and must be safe to call from many threads.
template <typename T, typename X, typename Add>
LUXEL_HD void add_distance(const luxel_velocity_consistency_args& args, const T* velocities, int64_t n, X* sums, Add add) {
  if (!args.visible[n]) return;
  Vec3<T> around = {T(0), T(0), T(0)};
  for (int j = 0; j < args.k; ++j) around = around + read_velocity(velocities, neighbour(args, n, j));
  const Vec3<T> off = read_velocity(velocities, n) - (T(1) / T(args.k)) * around;
  const Pull sign = {sign_of(off.x), sign_of(off.y), sign_of(off.z)};
  sums[0] += sign.x * off.x + sign.y * off.y + sign.z * off.z;
  sums[1] += 1;
  add(n, pack(sign, args.k));
  for (int j = 0; j < args.k; ++j) add(neighbour(args, n, j), pack(sign, -1));
}

template <typename T> LUXEL_HD void finish_consistency(const luxel_velocity_consistency_args& args, const double* sums) {
  const double share = sums[1] > 0 ? 1 / sums[1] : 0;
  out<T>(args.loss)[0] = static_cast<T>(share * sums[0]);
  out<T>(args.share)[0] = static_cast<T>(share / args.k);
}

template <typename T> LUXEL_HD void consistency_gradient(const luxel_velocity_consistency_args& args, int64_t n) {
  T* const g_rotor = out<T>(args.g_rotors) + 8 * n;
  Quat<T> g_scales = {T(0), T(0), T(0), T(0)};
  Velocity4d<T> p;
  if (args.pulls[n] != 0 && velocity_of_row(args, n, p)) {
    const Pull pull = unpack(args.pulls[n]);
    const T each = in<T>(args.g_loss)[0] * in<T>(args.share)[0];
    T g[8];
    g_scales = velocity4d_vjp(p, each * Vec3<T>{T(pull.x), T(pull.y), T(pull.z)}, g);
    store4(g_rotor, g);
    store4(g_rotor + 4, g + 4);
  } else {
    const T zero[4] = {T(0), T(0), T(0), T(0)};
    store4(g_rotor, zero);
    store4(g_rotor + 4, zero);
  }
  out<T>(args.g_log_scale_t)[n] = g_scales.w;
  store3(out<T>(args.g_log_scales) + 3 * n, Vec3<T>{g_scales.x, g_scales.y, g_scales.z});
}

struct ConsistencyRoom {
  void* velocities;
  double* runs;
  int64_t bytes;

  explicit ConsistencyRoom(const luxel_velocity_consistency_args& args) {
    Layout layout;
    velocities = args.dtype ? static_cast<void*>(layout.take<double>(args.workspace, 4 * int64_t(args.count)))
                            : static_cast<void*>(layout.take<float>(args.workspace, 4 * int64_t(args.count)));
    runs = layout.take<double>(args.workspace, kConsistencySums * runs_of_rows(args.count));
    bytes = layout.used;
  }
};

}  // namespace luxel
