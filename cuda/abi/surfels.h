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
 * Rows of culled surfels are left unwritten; tile_counts is 0 for them. Elements 3, 7 of g_splats are as in project_gaussians. */
typedef struct luxel_project_surfels_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  luxel_projection projection;
  const void* means;          /* in  real [N,3] */
  const void* quats;          /* in  real [N,4] wxyz; the third rotated axis is the normal */
  const void* log_scales;     /* in  real [N,2] along the first two */
  const void* opacity_logits; /* in  real [N] */
  const void* sh_dc;          /* in  real [N,3] */
  const void* sh_rest;        /* in  real [N,sh_stride,3], null if sh_stride is 0 */
  int32_t with_normals;
  void* g_means;              /* bwd out  real [N,3], every row written, as in the next five */
  void* g_quats;              /* bwd out  real [N,4] */
  void* g_log_scales;         /* bwd out  real [N,2] */
  void* g_opacity_logits;     /* bwd out  real [N] */
  void* g_sh_dc;              /* bwd out  real [N,3] */
  void* g_sh_rest;            /* bwd out  real [N,sh_stride,3] */
  float opacity_penalty;      /* bwd      weight of sigmoid(opacity_logit) */
  float scale_penalty;        /* bwd      weight of the sum of a row's exp(log_scales) */
  const void* penalty_factor; /* bwd in   real [1] optional */
} luxel_project_surfels_args;
LUXEL_API int luxel_project_surfels_fwd(const luxel_project_surfels_args* args);
LUXEL_API int luxel_project_surfels_bwd(const luxel_project_surfels_args* args);

#ifdef __cplusplus
}
#endif
#endif /* LUXEL_ABI_SURFELS_H */
