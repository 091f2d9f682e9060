// The policies of the tile rasterizer (math/raster/policy.h): name, class, header. A policy's number in the C ABI is its index here.
// CMakeLists.txt reads the lines that begin with X too, and compiles kernels/raster/policy.{cpp,cu}.in for each.
#pragma once

#define LUXEL_POLICIES(X) \
  X(gaussians, GaussianPolicy, "math/raster/gaussian_policy.h") \
  X(convexes, ConvexPolicy, "math/raster/convex_policy.h") \
  X(surfels, SurfelPolicy, "math/raster/surfel_policy.h") \
  /* end */
