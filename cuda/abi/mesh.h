/* The C ABI of triangle meshes. */
#ifndef LUXEL_ABI_MESH_H
#define LUXEL_ABI_MESH_H

#include "abi/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* mesh_distance: the exact distance of points to a triangle mesh, negative inside.
 *
 * The tree over the triangles is complete and binary: node n has the children 2n + 1 and 2n + 2, of 2^depth leaves each
 * holds `leaf` triangles, side by side in `triangles`; NaN where there is none. The sign is by pseudonormals (Baerentzen and
 * Aanaes 2005), for meshes that are closed, or by the majority of the parities of five rays. A point that is not finite has
 * distance and nearest point NaN. */
enum { LUXEL_UNSIGNED = 0, LUXEL_PSEUDONORMAL = 1, LUXEL_PARITY = 2 };
typedef struct luxel_mesh_distance_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const void* points;         /* in  real [N,3] */
  int64_t count;              /* N */
  const void* boxes;          /* in  real [2^depth - 1,2,6] of both children: low x y z, high x y z; on the GPU 16-byte aligned */
  const void* triangles;      /* in  real [2^depth * leaf,3,3] */
  const void* pseudonormals;  /* in  real [2^depth * leaf,7,3] of the face, edges ab bc ca, corners a b c; for that sign */
  int32_t depth;              /* 1..27 */
  int32_t leaf;               /* triangles of a leaf */
  int32_t sign;               /* one of the three above */
  void* distance;             /* out  real [N] */
  void* nearest;              /* out  real [N,3] optional: points of the mesh */
} luxel_mesh_distance_args;
LUXEL_API int luxel_mesh_distance(const luxel_mesh_distance_args* args);

#define LUXEL_MESH_STRUCTS(X) \
  X(luxel_mesh_distance_args)

#ifdef __cplusplus
}
#endif
#endif /* LUXEL_ABI_MESH_H */
