// One row of the stage draw_pixels; the loops around it are in the .cpp and .cu of the same name.
#pragma once

#include "abi/rays.h"
#include "math/philox.h"

namespace luxel {

LUXEL_HD void draw_pixel(const luxel_draw_pixels_args& args, int64_t r) {
  Vec3<float> target = {0.0f, 0.0f, 0.0f}, behind = target;
  int64_t pixel = -1;
  if (!args.live || r < args.live[0]) {
    const uint64_t number = static_cast<uint64_t>(args.numbers[r]);
    pixel = static_cast<int64_t>(number % static_cast<uint64_t>(args.pool));
    if (args.candidates) pixel = args.candidates[pixel];
    if (args.background) {
      behind = load3(args.background);
    } else {
      const Random4 random = philox({{static_cast<uint32_t>(r), 0u, 2u, 0u}}, static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32));
      behind = {unit_interval(random.v[0]), unit_interval(random.v[1]), unit_interval(random.v[2])};
    }
    const uint8_t* const rgba = args.images + pixel * args.channels;
    target = (1.0f / 255.0f) * Vec3<float>{static_cast<float>(rgba[0]), static_cast<float>(rgba[1]), static_cast<float>(rgba[2])};
    if (args.channels == 4) {
      const float cover = static_cast<float>(rgba[3]) * (1.0f / 255.0f);
      target = cover * target + (1.0f - cover) * behind;
    }
  }
  args.pixels[r] = pixel;
  store3(args.targets + 3 * r, target);
  store3(args.backgrounds + 3 * r, behind);
}

}  // namespace luxel
