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

/* trace_rays: the first triangle that each ray meets.
 *
 * Rays are given, or pass through the pixel centres of a pinhole camera, row by row; their directions are then (x, y, 1) in the
 * camera's axes, so that the distance is that along the optical axis. Both sides of triangles are met. Neighbouring triangles
 * leave no gap at their common edges and corners (Woop, Benthin and Wald 2013, "Watertight Ray/Triangle Intersection"). */
typedef struct luxel_trace_rays_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const void* rays;           /* in  real [N,6] optional: origin, direction of any length above 0; absent: rays of a camera */
  const void* cam_to_world;   /* in  real [3,4] without rays */
  const void* intrinsics;     /* in  real [4] without rays: fx fy cx cy (px) */
  int32_t width;              /* px, of the image, without rays; divides N */
  int64_t count;              /* N */
  const void* boxes;          /* in  as in mesh_distance, as the next */
  const void* triangles;
  const int32_t* numbers;     /* in  [2^depth * leaf] number of the triangle in each row */
  int32_t depth;              /* 1..27 */
  int32_t leaf;               /* triangles per leaf */
  double near_t;              /* first and last distance, in lengths of the direction; at least 0 */
  double far_t;
  int32_t* face;              /* out [N] number of the triangle; -1: none */
  void* weights;              /* out real [N,2] barycentric coordinates of corners b and c; 0 without a triangle, as the next */
  void* t;                    /* out real [N] distance, in lengths of the direction */
  uint8_t* front;             /* out [N] 1: the corners run anticlockwise viewed from the origin */
} luxel_trace_rays_args;
LUXEL_API int luxel_trace_rays(const luxel_trace_rays_args* args);

#ifdef __cplusplus
}
#endif
#endif /* LUXEL_ABI_MESH_H */
