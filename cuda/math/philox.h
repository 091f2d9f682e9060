// Philox 4x32-10, a random function of a counter and a key (Salmon et al. 2011, "Parallel random numbers: as easy as
// 1, 2, 3"), and standard normals from it (Box and Muller 1958).
#pragma once

#include "math/hd.h"
#include "math/vec.h"

namespace luxel {

struct Random4 {
  uint32_t v[4];
};

LUXEL_HD Random4 philox(Random4 counter, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = 0xD2511F53ull * counter.v[0], b = 0xCD9E8D57ull * counter.v[2];
    const uint32_t a_high = static_cast<uint32_t>(a >> 32), b_high = static_cast<uint32_t>(b >> 32);
    counter = {{b_high ^ counter.v[1] ^ key0, static_cast<uint32_t>(b), a_high ^ counter.v[3] ^ key1, static_cast<uint32_t>(a)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

// In (0, 1): never 0, whose logarithm is not finite.
LUXEL_HD float unit_interval(uint32_t x) { return (static_cast<float>(x >> 8) + 0.5f) * (1.0f / 16777216.0f); }

LUXEL_HD Vec3<float> normal3(Random4 random) {
  const float turn = 6.283185307f;
  const float r0 = root(-2.0f * log_of(unit_interval(random.v[0])));
  const float r1 = root(-2.0f * log_of(unit_interval(random.v[2])));
  const float angle = turn * unit_interval(random.v[1]);
  return {r0 * cos_of(angle), r0 * sin_of(angle), r1 * cos_of(turn * unit_interval(random.v[3]))};
}

}  // namespace luxel
