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
  luxel_projection projection;
  const void* means;          /* in  real [N,3] */
  const void* log_radii;      /* in  real [N] */
  const void* opacity_logits; /* in  real [N] */
  const void* sh_dc;          /* in  real [N,3] */
  const void* sh_rest;        /* in  real [N,sh_stride,3], null if sh_stride is 0 */
  void* g_means;              /* bwd out  real [N,3], every row written, as in the next four */
  void* g_log_radii;          /* bwd out  real [N] */
  void* g_opacity_logits;     /* bwd out  real [N] */
  void* g_sh_dc;              /* bwd out  real [N,3] */
  void* g_sh_rest;            /* bwd out  real [N,sh_stride,3] */
  const void* penalty_factor; /* bwd in   real [1] optional */
} luxel_project_discs_args;
LUXEL_API int luxel_project_discs_fwd(const luxel_project_discs_args* args);
LUXEL_API int luxel_project_discs_bwd(const luxel_project_discs_args* args);

#ifdef __cplusplus
}
#endif
#endif /* LUXEL_ABI_DISCS_H */
