/* The C ABI of surfels: their projection. Binning, blending and labels are those of abi/raster.h. */
#ifndef LUXEL_ABI_SURFELS_H
#define LUXEL_ABI_SURFELS_H

#include "abi/raster.h"

#ifdef __cplusplus
extern "C" {
#endif

/* project_surfels: flat Gaussians to their images, per camera (Huang et al. 2024, "2D Gaussian Splatting").
 *
 * splats [C,N,12]: x, y (px, of the centre), opacity, depth z (of the centre), conic a, b, c, its inverse's determinant, g_x,
 * g_y (1/px), h_x, h_y (px). At d (px) from the centre, the ray meets the plane at depth z s with s = 1 / (1 + g d), where
 * u^2 + v^2 = s^2 (a d_x^2 + 2 b d_x d_y + c d_y^2). The determinant and h = (inverse conic) g are for the bounds and have no
 * gradient. See cuda/math/raster/surfel.h.
 * values [C,N,D]: rgb (3), then depth (1) if with_depth, its square (1) if with_depth and with_normals, and the world-space
 * normal (3), turned to the camera, if with_normals.
 * Rows of culled surfels are left unwritten; tile_counts is 0 for them. */
typedef struct luxel_project_surfels_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const void* means;          /* in  real [N,3] */
  const void* quats;          /* in  real [N,4] wxyz; the third rotated axis is the normal */
  const void* log_scales;     /* in  real [N,2] along the first two */
  const void* opacity_logits; /* in  real [N] */
  const void* sh_dc;          /* in  real [N,3] */
  const void* sh_rest;        /* in  real [N,sh_stride,3], null if sh_stride is 0 */
  const void* world_to_cam;   /* in  real [C,4,4] row major */
  const void* intrinsics;     /* in  real [C,4] fx fy cx cy (px) */
  int32_t count;              /* N */
  int32_t cameras;            /* C */
  int32_t sh_stride;          /* stored coefficients above degree 0: 0, 3, 8, 15 */
  int32_t sh_degree;          /* degree to evaluate, 0..3 */
  int32_t width;              /* px */
  int32_t height;             /* px */
  int32_t with_depth;
  int32_t with_normals;
  float near_plane;           /* depths of centres outside of (near_plane, far_plane) are culled */
  float far_plane;
  void* splats;               /* fwd out  real [C,N,12]; on the GPU 16-byte aligned, as g_splats and statistics */
  void* values;               /* fwd out  real [C,N,D] */
  int32_t* tile_counts;       /* fwd out, bwd in  [C,N] tiles touched, 0 when culled */
  int64_t* totals;            /* fwd out  [2] visible splats and tile instances of all cameras; zeroed by the caller */
  const void* g_splats;       /* bwd in   real [C,N,12]; elements 3, 7 as in project_gaussians */
  const void* g_values;       /* bwd in   real [C,N,D] */
  void* g_means;              /* bwd out  real [N,3], every row written, as in the next five */
  void* g_quats;              /* bwd out  real [N,4] */
  void* g_log_scales;         /* bwd out  real [N,2] */
  void* g_opacity_logits;     /* bwd out  real [N] */
  void* g_sh_dc;              /* bwd out  real [N,3] */
  void* g_sh_rest;            /* bwd out  real [N,sh_stride,3] */
  void* g_world_to_cam;       /* bwd out  real [C,4,4], optional; added to, zeroed by the caller */
  void* statistics;           /* bwd inout real [N,4] optional, this and all below: see project_gaussians */
  int32_t largest_of_views;   /* bwd */
  const int32_t* skip;        /* bwd in   [1] optional */
  float opacity_penalty;      /* bwd      weight of sigmoid(opacity_logit) */
  float scale_penalty;        /* bwd      weight of the sum of a row's exp(log_scales) */
  const void* penalty_factor; /* bwd in   real [1] optional */
  const void* adam_schedule;  /* bwd in   real [P+2] optional */
  const int64_t* adam_table;  /* bwd in   [P,3] in host memory */
  double adam_beta1;
  double adam_beta2;
  double adam_eps;
  int32_t adam_visible_only;
  int32_t adam_active_sh_only;
  int32_t adam_keep_sh_rest;
} luxel_project_surfels_args;
LUXEL_API int luxel_project_surfels_fwd(const luxel_project_surfels_args* args);
LUXEL_API int luxel_project_surfels_bwd(const luxel_project_surfels_args* args);

#ifdef __cplusplus
}
#endif
#endif /* LUXEL_ABI_SURFELS_H */
