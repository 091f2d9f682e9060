/* The C ABI of the tile rasterizer: primitives to rows on the screen, lists of them per tile, and their blending.
 *
 * Letters: N primitives of P parameters, C cameras, H W image, T tiles of one image, K points of a convex, D channels, R
 * numbers of a row on the screen. */
#ifndef LUXEL_ABI_RASTER_H
#define LUXEL_ABI_RASTER_H

#include "abi/base.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { LUXEL_TILE = 16 }; /* pixels along a tile's side */
/* Policies of the tile rasterizer (cuda/math/policy.h), by number. */
enum { LUXEL_GAUSSIANS = 0, LUXEL_CONVEXES = 1 };
/* R of each: numbers of a primitive's row on the screen. Every row starts with x, y (px), opacity, depth. A convex has at most
 * LUXEL_CORNERS corners. */
enum { LUXEL_GAUSSIAN_ROW = 8, LUXEL_CONVEX_ROW = 28, LUXEL_CORNERS = 8 };
/* Instances of a piece of a tile's list (GPU). */
enum { LUXEL_GAUSSIAN_PIECE = 256, LUXEL_CONVEX_PIECE = 128 };

/* project_gaussians: world Gaussians to screen splats, per camera (EWA splatting, Zwicker et al. 2002).
 *
 * splats [C,N,8]: x, y (px), opacity (after compensation), depth (z), conic a, b, c (inverse of the dilated 2D
 * covariance: exponent is -(a dx^2 + c dy^2)/2 - b dx dy), radius (px, larger half extent; no gradient).
 * values [C,N,D]: rgb (3), then depth (1) if with_depth, then world-space normal (3) if with_normals.
 * Rows of culled Gaussians are left unwritten; tile_counts is 0 for them. */
typedef struct luxel_project_gaussians_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const void* means;          /* in  real [N,3] */
  const void* quats;          /* in  real [N,4] wxyz */
  const void* log_scales;     /* in  real [N,3] */
  const void* opacity_logits; /* in  real [N] */
  const void* sh_dc;          /* in  real [N,3] */
  const void* sh_rest;        /* in  real [N,sh_stride,3], null where sh_stride is 0 */
  const void* world_to_cam;   /* in  real [C,4,4] row major */
  const void* intrinsics;     /* in  real [C,4] fx fy cx cy */
  int32_t count;              /* N */
  int32_t cameras;            /* C */
  int32_t sh_stride;          /* stored coefficients above degree 0: 0, 3, 8, 15 */
  int32_t sh_degree;          /* degree to evaluate, 0..3 */
  int32_t width;
  int32_t height;
  int32_t antialiased;        /* 1: Mip-Splatting's opacity compensation */
  int32_t with_depth;
  int32_t with_normals;
  float near_plane;
  float far_plane;
  float dilation;             /* px^2 added to the diagonal of the 2D covariance */
  void* splats;               /* fwd out  real [C,N,8]; on the GPU 16-byte aligned, as g_splats and statistics */
  void* values;               /* fwd out  real [C,N,D] */
  int32_t* tile_counts;       /* fwd out, bwd in  [C,N] tiles touched, 0 when culled */
  int64_t* totals;            /* fwd out  [2] visible splats, tile instances; zeroed by the caller */
  const void* g_splats;       /* bwd in   real [C,N,8]; slots 3, 7 hold sums over pixels of |d x|, |d y|, or 0 */
  const void* g_values;       /* bwd in   real [C,N,D] */
  void* g_means;              /* bwd out  real [N,3], every row written, as the next five */
  void* g_quats;              /* bwd out  real [N,4] */
  void* g_log_scales;         /* bwd out  real [N,3] */
  void* g_opacity_logits;     /* bwd out  real [N] */
  void* g_sh_dc;              /* bwd out  real [N,3] */
  void* g_sh_rest;            /* bwd out  real [N,sh_stride,3] */
  void* g_world_to_cam;       /* bwd out  real [C,4,4], optional; added to, zeroed by the caller */
  void* statistics;           /* bwd inout real [N,4] optional: sum of mean2d gradient norms, of absolute ones,
                                 times seen, largest radius / max(W,H) */
  int32_t largest_of_views;   /* bwd      1: of each statistic the largest over the cameras is added, not all of them */
  const int32_t* skip;        /* bwd in   [1] optional: where it is not 0 statistics stay as they are; with
                                 adam_schedule everything does */
  float opacity_penalty;      /* bwd      times sigmoid(opacity_logit), added to the loss for every row, seen or not */
  float scale_penalty;        /* bwd      times the sum of a row's exp(log_scales), likewise */
  const void* penalty_factor; /* bwd in   real [1] optional: times both */
  const void* adam_schedule;  /* bwd in   real [P+2] optional: learning rates of the P parameters in their order, then
                                 1 - beta1^t, 1 - beta2^t. With it the parameters above are moved by Adam as `adam` below
                                 does, in place; their gradients g_ are not written and may be null */
  const int64_t* adam_table;  /* bwd in   HOST [P,3], with adam_schedule only, as all below: addresses of the first
                                 moments of a parameter, of the second ones, and of what is added to its gradient, or 0 */
  double adam_beta1;
  double adam_beta2;
  double adam_eps;
  int32_t adam_visible_only;  /* 1: rows that no camera saw keep parameters and moments, whatever their gradient */
  int32_t adam_active_sh_only; /* 1: coefficients above sh_degree keep values and moments: right while their moments are
                                 0, that is as long as sh_degree has never been higher */
  int32_t adam_keep_sh_rest;  /* 1: sh_rest and its moments stay as they are */
} luxel_project_gaussians_args;
LUXEL_API int luxel_project_gaussians_fwd(const luxel_project_gaussians_args* args);
LUXEL_API int luxel_project_gaussians_bwd(const luxel_project_gaussians_args* args);

/* project_gaussians4d: 4D Gaussians with rotors to screen splats, per camera and its time (Duan et al. 2024): the
 * conditional of each Gaussian given the time is projected as project_gaussians does.
 *
 * splats, values, tile_counts and totals are those of project_gaussians, depths and colours being of the sliced mean.
 * Left out is what lies farther from its time than an exponent of 16. Normals, the shortest axis of the sliced
 * covariance, have no gradient. */
typedef struct luxel_project_gaussians4d_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const void* means;          /* in  real [N,3] */
  const void* times;          /* in  real [N] */
  const void* log_scales;     /* in  real [N,3] */
  const void* log_scale_t;    /* in  real [N] */
  const void* rotors;         /* in  real [N,8] scalar, bivectors xy xz yz xt yt zt, pseudoscalar; of any length */
  const void* opacity_logits; /* in  real [N] */
  const void* sh_dc;          /* in  real [N,3] */
  const void* sh_rest;        /* in  real [N,sh_stride,3], null where sh_stride is 0 */
  const void* world_to_cam;   /* in  real [C,4,4] row major */
  const void* intrinsics;     /* in  real [C,4] fx fy cx cy */
  const void* timestamps;       /* in  real [C] the time of each camera */
  int32_t count;              /* N */
  int32_t cameras;            /* C */
  int32_t sh_stride;          /* stored coefficients above degree 0: 0, 3, 8, 15 */
  int32_t sh_degree;          /* degree to evaluate, 0..3 */
  int32_t width;
  int32_t height;
  int32_t antialiased;        /* 1: Mip-Splatting's opacity compensation */
  int32_t with_depth;
  int32_t with_normals;
  float near_plane;
  float far_plane;
  float dilation;             /* px^2 added to the diagonal of the 2D covariance */
  void* splats;               /* fwd out  real [C,N,8]; on the GPU 16-byte aligned, as g_splats and statistics */
  void* values;               /* fwd out  real [C,N,D] */
  int32_t* tile_counts;       /* fwd out, bwd in  [C,N] tiles touched, 0 when culled */
  int64_t* totals;            /* fwd out  [2] visible splats, tile instances; zeroed by the caller */
  const void* g_splats;       /* bwd in   real [C,N,8] */
  const void* g_values;       /* bwd in   real [C,N,D] */
  void* g_means;              /* bwd out  real [N,3], every row written, as the next seven */
  void* g_times;              /* bwd out  real [N] */
  void* g_log_scales;         /* bwd out  real [N,3] */
  void* g_log_scale_t;        /* bwd out  real [N] */
  void* g_rotors;             /* bwd out  real [N,8] */
  void* g_opacity_logits;     /* bwd out  real [N] */
  void* g_sh_dc;              /* bwd out  real [N,3] */
  void* g_sh_rest;            /* bwd out  real [N,sh_stride,3] */
  void* g_world_to_cam;       /* bwd out  real [C,4,4], optional; added to, zeroed by the caller */
  void* g_timestamps;            /* bwd out  real [C], optional; added to, zeroed by the caller */
  void* statistics;           /* bwd inout real [N,4] optional: sums over views of mean2d gradient norms and of
                                 |d loss of the view / d times|, times seen, largest radius / max(W,H) */
  int32_t largest_of_views;   /* bwd      see project_gaussians */
  const int32_t* skip;        /* bwd in   [1] optional: where it is not 0 statistics stay as they are; with
                                 adam_schedule everything does */
  const void* adam_schedule;  /* bwd in   real [P+2] optional, see project_gaussians, as all below */
  const int64_t* adam_table;  /* bwd in   HOST [P,3] */
  double adam_beta1;
  double adam_beta2;
  double adam_eps;
  int32_t adam_visible_only;
  int32_t adam_active_sh_only;
  int32_t adam_keep_sh_rest;
} luxel_project_gaussians4d_args;
LUXEL_API int luxel_project_gaussians4d_fwd(const luxel_project_gaussians4d_args* args);
LUXEL_API int luxel_project_gaussians4d_bwd(const luxel_project_gaussians4d_args* args);

/* project_convexes: world convexes to convex polygons on the screen, per camera (Held et al. 2025, "3D Convex Splatting").
 *
 * splats [C,N,28]: x, y (px, of the centroid), opacity (after the mask), depth (z of the centroid), delta z, sigma z,
 * edges M, reach (alpha is below 1/255 wherever L_j is above it for some edge j), the box outside of which alpha is below
 * 1/255 (px: least x, least y, greatest x, greatest y), then x, y of the M corners relative to the centroid, clockwise
 * to the eye, and zeros. L_j(q) = (b_y - a_y) (q_x - a_x) - (b_x - a_x) (q_y - a_y) from corner a to the next, b.
 * values [C,N,D]: rgb (3), then depth (1) if with_depth.
 * Rows of culled convexes are left unwritten; tile_counts is 0 for them. */
typedef struct luxel_project_convexes_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const void* points;         /* in  real [N,K,3] */
  const void* log_delta;      /* in  real [N] smoothness */
  const void* log_sigma;      /* in  real [N] sharpness */
  const void* opacity_logits; /* in  real [N] */
  const void* sh_dc;          /* in  real [N,3] */
  const void* sh_rest;        /* in  real [N,sh_stride,3], null where sh_stride is 0 */
  const void* mask_logits;    /* in  real [N]; drawn where the sigmoid is above 0.01, with the sigmoid's gradient */
  const void* world_to_cam;   /* in  real [C,4,4] row major */
  const void* intrinsics;     /* in  real [C,4] fx fy cx cy */
  int32_t count;              /* N */
  int32_t cameras;            /* C */
  int32_t points_each;        /* K, 3..LUXEL_CORNERS */
  int32_t sh_stride;          /* stored coefficients above degree 0: 0, 3, 8, 15 */
  int32_t sh_degree;          /* degree to evaluate, 0..3 */
  int32_t width;
  int32_t height;
  int32_t with_depth;
  float near_plane;
  float far_plane;
  void* splats;               /* fwd out  real [C,N,28]; on the GPU 16-byte aligned, as g_splats and statistics */
  void* values;               /* fwd out  real [C,N,D] */
  int32_t* tile_counts;       /* fwd out, bwd in  [C,N] tiles touched, 0 when culled */
  int64_t* totals;            /* fwd out  [2] visible splats, tile instances; zeroed by the caller */
  const void* g_splats;       /* bwd in   real [C,N,28]; opacity, delta z, sigma z and corners are read */
  const void* g_values;       /* bwd in   real [C,N,D] */
  void* g_points;             /* bwd out  real [N,K,3], every row written, as the next six */
  void* g_log_delta;          /* bwd out  real [N] */
  void* g_log_sigma;          /* bwd out  real [N] */
  void* g_opacity_logits;     /* bwd out  real [N] */
  void* g_sh_dc;              /* bwd out  real [N,3] */
  void* g_sh_rest;            /* bwd out  real [N,sh_stride,3] */
  void* g_mask_logits;        /* bwd out  real [N] */
  void* g_world_to_cam;       /* bwd out  real [C,4,4], optional; added to, zeroed by the caller */
  void* statistics;           /* bwd inout real [N,4] optional: sum of the gradient by the activated sigma, with its sign;
                                 nothing; times seen; largest distance of a point from the centroid (px) / max(W,H) */
  int32_t largest_of_views;   /* bwd      see project_gaussians */
  const int32_t* skip;        /* bwd in   [1] optional: where it is not 0 statistics stay as they are; with
                                 adam_schedule everything does */
  int32_t raw_moments;         /* bwd      1 where g_splats are raw moments, see blend; GPU only */
  float mask_penalty;         /* bwd      times sigmoid(mask_logit), added to the loss for every row of finite opacity_logit */
  const void* penalty_factor; /* bwd in   real [1] optional: times that */
  const void* adam_schedule;  /* bwd in   real [P+2] optional, see project_gaussians, as all below */
  const int64_t* adam_table;  /* bwd in   HOST [P,3] */
  double adam_beta1;
  double adam_beta2;
  double adam_eps;
  int32_t adam_visible_only;
  int32_t adam_active_sh_only;
  int32_t adam_keep_sh_rest;
} luxel_project_convexes_args;
LUXEL_API int luxel_project_convexes_fwd(const luxel_project_convexes_args* args);
LUXEL_API int luxel_project_convexes_bwd(const luxel_project_convexes_args* args);

/* bin_splats: lists, per tile, the splats that touch it, nearest first.
 *
 * instances [capacity]: indices c*N+n. ranges [C*T,2]: first and one past the last instance of each tile.
 * Where the lists need more room than capacity they are cut short and overflow[0] is set to 1. */
typedef struct luxel_bin_splats_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const void* splats;         /* in  real [C,N,R], R by the primitive */
  const int32_t* tile_counts; /* in  [C,N] */
  const int64_t* totals;      /* in  [2] */
  int32_t count;              /* N */
  int32_t cameras;            /* C */
  int32_t primitive;          /* LUXEL_GAUSSIANS or LUXEL_CONVEXES */
  int32_t width;
  int32_t height;
  int64_t visible_capacity;   /* room for splats that are seen, at least totals[0] */
  int64_t capacity;           /* room for instances */
  int32_t* instances;         /* out [capacity] */
  int32_t* ranges;            /* out [C*T,2] */
  int32_t* overflow;          /* out [1] */
  int32_t* plan;              /* out [4*C*T + 2*(capacity/P) + 1] optional, for blend_<primitive> on the GPU: tiles by
                                 length of list, longest first [C*T]; ends of pieces before each tile, not counting
                                 the last of a list [C*T]; of each piece its tile and its number within the tile's
                                 list, -1 where there are no more [rest,2]; how many of the first tiles have long lists [1] */
  void* workspace;            /* luxel_bin_splats_workspace() bytes, 256-byte aligned */
  int64_t workspace_bytes;
} luxel_bin_splats_args;
LUXEL_API int64_t luxel_bin_splats_workspace(const luxel_bin_splats_args* args); /* ignores pointers */
LUXEL_API int luxel_bin_splats(const luxel_bin_splats_args* args);

/* blend_<primitive>: front-to-back alpha blending of primitives' values per pixel; one struct for all primitives,
 * which differ in what a row of splats holds.
 *
 * image = sum_i T_i alpha_i value_i + T_end background; alpha_i is capped at max_alpha, skipped under 1/255,
 * and a pixel ends before T would fall to 1e-4. */
typedef struct luxel_blend_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const void* splats;         /* in  real [C,N,R], R by the primitive; on the GPU 16-byte aligned */
  const void* values;         /* in  real [C,N,D] */
  const int32_t* instances;   /* in  [capacity] */
  const int32_t* ranges;      /* in  [C*T,2] */
  int64_t capacity;
  const int32_t* plan;        /* in  from bin_splats, GPU only */
  const void* background;     /* in  real [C,D], optional */
  int32_t count;              /* N */
  int32_t cameras;            /* C */
  int32_t width;
  int32_t height;
  int32_t channels;           /* D: one of 3 4 6 7 8 16 */
  int32_t absolute;           /* bwd: 1 to add |d x|, |d y| of each pixel into slots 3, 7 of g_splats; for Gaussians only */
  int32_t deterministic;      /* bwd: 1 to sum gradients in a fixed order on the GPU too, as the CPU always does */
  int32_t raw_moments;         /* bwd: 1 to leave in g_splats the sums that project_convexes_bwd turns into the gradient
                                 as it reads them; for convexes on the GPU only */
  float max_alpha;
  void* image;                /* fwd out  real [C,H,W,D] */
  void* transmittance;        /* fwd out, bwd in  real [C,H,W]: T_end */
  int32_t* last;              /* fwd out, bwd in  [C,H,W] one past the last instance that contributed; fwd: optional */
  int32_t* contributors;      /* fwd out  [C,H,W] splats that contributed; optional */
  void* median_depth;         /* fwd out  real [C,H,W] depth where T falls to 1/2, 0 where never; optional */
  void* states;               /* fwd out, bwd in  real [capacity/P,D+1,256] GPU only, optional for fwd: what
                                 each pixel had gathered, and T, after each piece but the last of a list; of
                                 convexes then uint32 [capacity/32+C*T+1,8], 16-byte aligned: which splats of a
                                 list counted for a pixel of each 8x4 block of its tile, 32 in a word */
  const void* final_image;    /* bwd in   real [C,H,W,D] GPU only: image of the forward pass */
  const void* g_image;        /* bwd in   real [C,H,W,D] */
  const void* g_transmittance; /* bwd in  real [C,H,W] optional */
  void* g_splats;             /* bwd out  real [C,N,R]; added to, zeroed by the caller */
  void* g_values;             /* bwd out  real [C,N,D]; added to, zeroed by the caller */
  void* g_background;         /* bwd out  real [C,D] optional; added to, zeroed by the caller */
  void* workspace;            /* bwd  luxel_blend_<primitive>_workspace() bytes, 256-byte aligned */
  int64_t workspace_bytes;
} luxel_blend_args;
LUXEL_API int64_t luxel_blend_gaussians_workspace(const luxel_blend_args* args); /* for bwd */
LUXEL_API int luxel_blend_gaussians_fwd(const luxel_blend_args* args);
LUXEL_API int luxel_blend_gaussians_bwd(const luxel_blend_args* args);
LUXEL_API int64_t luxel_blend_convexes_workspace(const luxel_blend_args* args);
LUXEL_API int luxel_blend_convexes_fwd(const luxel_blend_args* args);
LUXEL_API int luxel_blend_convexes_bwd(const luxel_blend_args* args);

#define LUXEL_RASTER_STRUCTS(X) \
  X(luxel_project_gaussians_args) \
  X(luxel_project_gaussians4d_args) \
  X(luxel_project_convexes_args) \
  X(luxel_bin_splats_args) \
  X(luxel_blend_args)

#ifdef __cplusplus
}
#endif
#endif /* LUXEL_ABI_RASTER_H */
