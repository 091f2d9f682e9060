/* The C ABI of discs: their projection. Binning, blending and labels are those of abi/raster.h. */
#ifndef LUXEL_ABI_DISCS_H
#define LUXEL_ABI_DISCS_H

#include "abi/raster.h"

#ifdef __cplusplus
extern "C" {
#endif

/* project_discs: balls to discs on the screen, per camera.
 *
 * splats [C,N,8]: x, y (px), opacity, depth z, radius (px), and zeros. values [C,N,D]: rgb (3), then depth (1) if with_depth.
 * Rows of culled discs are left unwritten; tile_counts is 0 for them. */
typedef struct luxel_project_discs_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const void* means;          /* in  real [N,3] */
  const void* log_radii;      /* in  real [N] */
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
  float near_plane;           /* depths outside of (near_plane, far_plane) are culled */
  float far_plane;
  void* splats;               /* fwd out  real [C,N,8] */
  void* values;               /* fwd out  real [C,N,D] */
  int32_t* tile_counts;       /* fwd out, bwd in  [C,N] tiles touched, 0 when culled */
  int64_t* totals;            /* fwd out  [2] visible splats and tile instances of all cameras; zeroed by the caller */
  const void* g_splats;       /* bwd in   real [C,N,8] */
  const void* g_values;       /* bwd in   real [C,N,D] */
  void* g_means;              /* bwd out  real [N,3], every row written, as in the next four */
  void* g_log_radii;          /* bwd out  real [N] */
  void* g_opacity_logits;     /* bwd out  real [N] */
  void* g_sh_dc;              /* bwd out  real [N,3] */
  void* g_sh_rest;            /* bwd out  real [N,sh_stride,3] */
  void* g_world_to_cam;       /* bwd out  real [C,4,4], optional; added to, zeroed by the caller */
  void* statistics;           /* bwd      real [N,4] optional; unchanged */
  int32_t largest_of_views;   /* bwd */
  const int32_t* skip;        /* bwd in   [1] optional, this and all below: see project_gaussians */
  const void* penalty_factor; /* bwd in   real [1] optional */
  const void* adam_schedule;  /* bwd in   real [P+2] optional */
  const int64_t* adam_table;  /* bwd in   [P,3] in host memory */
  double adam_beta1;
  double adam_beta2;
  double adam_eps;
  int32_t adam_visible_only;
  int32_t adam_active_sh_only;
  int32_t adam_keep_sh_rest;
} luxel_project_discs_args;
LUXEL_API int luxel_project_discs_fwd(const luxel_project_discs_args* args);
LUXEL_API int luxel_project_discs_bwd(const luxel_project_discs_args* args);

#ifdef __cplusplus
}
#endif
#endif /* LUXEL_ABI_DISCS_H */
