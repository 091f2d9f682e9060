/* The C ABI of triangle meshes. */
#ifndef LUXEL_ABI_MESH_H
#define LUXEL_ABI_MESH_H

#include "abi/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* mesh_distance: the exact distance of points to a triangle mesh, negative inside.
 *
 * The tree of boxes over the triangles is complete and binary: node n has the children 2n + 1 and 2n + 2, and each of the
 * 2^depth leaves holds `leaf` contiguous rows of `triangles`, NaN where a row is unused. The sign comes from pseudonormals
 * (Baerentzen and Aanaes 2005), for closed meshes, or from the majority of five rays' crossing parities. For a point that is
 * not finite, distance and nearest point are NaN. */
enum { LUXEL_UNSIGNED = 0, LUXEL_PSEUDONORMAL = 1, LUXEL_PARITY = 2 };
typedef struct luxel_mesh_distance_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const void* points;         /* in  real [N,3] */
  int64_t count;              /* N */
  const void* boxes;          /* in  real [2^depth - 1,2,6] boxes of both children: min xyz, max xyz; on the GPU 16-byte aligned */
  const void* triangles;      /* in  real [2^depth * leaf,3,3] corners a, b, c */
  const void* pseudonormals;  /* in  real [2^depth * leaf,7,3] of the face, edges ab bc ca, corners a b c; for LUXEL_PSEUDONORMAL */
  int32_t depth;              /* 1..27 */
  int32_t leaf;               /* triangles per leaf */
  int32_t sign;               /* one of the three above */
  void* distance;             /* out  real [N] */
  void* nearest;              /* out  real [N,3] optional: nearest point of the mesh */
} luxel_mesh_distance_args;
LUXEL_API int luxel_mesh_distance(const luxel_mesh_distance_args* args);

#define LUXEL_MESH_STRUCTS(X) \
  X(luxel_mesh_distance_args)

#ifdef __cplusplus
}
#endif
#endif /* LUXEL_ABI_MESH_H */
