/* The whole C ABI of luxel's native libraries.
 *
 * libluxel_cpu and libluxel_cuda export the same functions. Each stage takes one zero-initialised argument
 * struct; a null pointer means "not wanted" where the field says optional. Nothing is allocated: outputs,
 * workspaces and temporary storage belong to the caller. Functions return 0, or a negative number after which
 * luxel_last_error() says what failed. The Python side parses this very file for its struct layouts and refuses
 * a library that was compiled from another one.
 *
 * Every struct starts with: dtype (0 float32, 1 float64; the GPU has float32 only), device (CUDA ordinal),
 * stream (cudaStream_t). `real` below is float or double by dtype. Fields are one per line: the parser needs it.
 * Letters: N primitives of P parameters, C cameras, H W image, T tiles of one image, K points of a convex, D channels, R
 * numbers of a splat. In encode_grid: N positions of D coordinates, E entries of F features, L levels.
 */
#ifndef LUXEL_ABI_H
#define LUXEL_ABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LUXEL_API __attribute__((visibility("default")))

enum { LUXEL_TILE = 16 }; /* pixels along a tile's side */
/* Primitives of the tile rasterizer, and R, how many numbers a splat of theirs has: the screen splat of a Gaussian, and
 * of a convex of at most LUXEL_CORNERS corners. Every splat starts with x, y (px), opacity, depth. */
enum { LUXEL_GAUSSIANS = 0, LUXEL_CONVEXES = 1 };
enum { LUXEL_SPLAT = 8, LUXEL_CONVEX = 28, LUXEL_CORNERS = 8 };
/* P: instances of a piece of a tile's list (GPU). */
enum { LUXEL_PIECE = 256, LUXEL_CONVEX_PIECE = 128 };

LUXEL_API const char* luxel_last_error(void);
LUXEL_API const char* luxel_abi_sha256(void);         /* of the header that the library was compiled from */
LUXEL_API int64_t luxel_abi_sizeof(const char* name); /* of an argument struct; -1 for an unknown name */
LUXEL_API int32_t luxel_cpu_level(void);              /* 3 where the CPU runs x86-64-v3 code, else 1 (CPU library) */

/* project_gaussians: world Gaussians to screen splats, per camera (EWA splatting, Zwicker et al. 2002).
 *
 * splats [C,N,8]: x, y (px), opacity (after compensation), depth (z), conic a, b, c (inverse of the dilated 2D
 * covariance: exponent is -(a dx^2 + c dy^2)/2 - b dx dy), radius (px, larger half extent; no gradient).
 * values [C,N,D]: rgb (3), then depth (1) if with_depth, then world-space normal (3) if with_normals.
 * Rows of culled Gaussians are left unwritten; tile_counts says 0 for them. */
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
                                 does, in place; their gradients g_ are not looked at and may be null */
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
  const void* moments;        /* in  real [C] the time of each camera */
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
  void* g_moments;            /* bwd out  real [C], optional; added to, zeroed by the caller */
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
 * Rows of culled convexes are left unwritten; tile_counts says 0 for them. */
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
  const void* g_splats;       /* bwd in   real [C,N,28]; opacity, delta z, sigma z and corners are looked at */
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
  int32_t unfinished;         /* bwd      1 where g_splats are unfinished, see blend; GPU only */
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
LUXEL_API int64_t luxel_bin_splats_workspace(const luxel_bin_splats_args* args); /* pointers are not looked at */
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
  int32_t unfinished;         /* bwd: 1 to leave in g_splats the sums that project_convexes_bwd turns into the gradient
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

/* photometric_loss: (1 - ssim_weight) L1 + ssim_weight (1 - SSIM) (Wang et al. 2004; 11 taps, sigma 1.5).
 *
 * Both are means over pixels and channels; with a weight, weighted means. Outside the image both pictures are
 * 0. valid = 1 leaves out the SSIM of pixels whose window leaves the image (5 at each border; L1 keeps them).
 * Where the weight is not above 0 the rendered pixel counts as equal to the target, in its neighbours' windows
 * too, and its gradient is 0. Sums are taken in a fixed order: the same input gives the same bits. */
typedef struct luxel_photometric_loss_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const void* rgb;            /* in  real [C,H,W,3] rendered */
  const void* target;         /* in  real [C,H,W,3] */
  const void* weight;         /* in  real [C,H,W] optional, >= 0 */
  int32_t cameras;            /* C */
  int32_t width;
  int32_t height;
  int32_t valid;
  double ssim_weight;
  void* loss;                 /* fwd out  real [1]; 0 where no pixel counts */
  void* partials;             /* fwd out, bwd in  real [3,C,H,W,3]: weighted d SSIM by E[x], E[x^2], E[xy]; fwd: optional */
  void* scales;               /* fwd out, bwd in  real [2]: d loss by the sum of |x - y|, by the sum of SSIM */
  const void* g_loss;         /* bwd in   real [1] */
  void* g_rgb;                /* bwd out  real [C,H,W,3], every element written */
  void* workspace;            /* fwd  luxel_photometric_loss_workspace() bytes, 256-byte aligned */
  int64_t workspace_bytes;
} luxel_photometric_loss_args;
LUXEL_API int64_t luxel_photometric_loss_workspace(const luxel_photometric_loss_args* args); /* pointers: only whether null */
LUXEL_API int luxel_photometric_loss_fwd(const luxel_photometric_loss_args* args);
LUXEL_API int luxel_photometric_loss_bwd(const luxel_photometric_loss_args* args);

/* adam: one step of Adam (Kingma & Ba 2015, algorithm 1) on all parameter groups, in place.
 *
 * With a visible mask, primitives whose byte is 0 are left as they are, moments included. With a schedule the learning
 * rates and the number of the step come from the device, so that a captured call can be replayed. */
typedef struct luxel_adam_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const int64_t* table;       /* in  HOST [groups,7]: addresses of param, grad, exp_avg, exp_avg_sq (real [numel]),
                                 then numel, then elements per primitive, then the place of its rate in the schedule */
  const double* lrs;          /* in  HOST [groups] learning rates; not read with a schedule */
  const uint8_t* visible;     /* in  [N] optional, N = numel / elements per primitive, the same in all groups */
  const void* schedule;       /* in  real [rates+2] optional: learning rates, then 1 - beta1^step and 1 - beta2^step */
  const int32_t* skip;        /* in  [1] optional: nothing is moved where it is not 0 */
  int32_t rates;              /* of the schedule */
  int64_t step;               /* 1 at the first call; not read with a schedule */
  int32_t groups;
  double beta1;
  double beta2;
  double eps;
} luxel_adam_args;
LUXEL_API int luxel_adam(const luxel_adam_args* args);

/* gather_view: what the B views of the present training step need, by a cursor that lives where the kernels run, so that
 * a captured step can be replayed for one view after another.
 *
 * table [1+table_rows,24] of 32-bit numbers: row 0 holds the cursor (int32) first; row 1 + cursor, held to the table,
 * is that of the first view, and those after it of the others: photograph (int32), view (int32), ten floats that the
 * optimiser reads, the background (3 floats), the number of the step (int32), the time of the view (float), seven more.
 * rgb = background + alpha (photograph - background), bytes divided by 255. */
typedef struct luxel_gather_view_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const uint8_t* photos;      /* in  [P,H,W,3] straight colours */
  const uint8_t* alphas;      /* in  [P,H,W] optional */
  const uint8_t* weights;     /* in  [P,H,W] optional */
  const float* poses;         /* in  [V,4,4] world_to_cam */
  const float* intrinsics;    /* in  [V,4] fx fy cx cy */
  const int32_t* table;       /* in  [1+table_rows,24] */
  int32_t table_rows;
  int32_t views;              /* B */
  int32_t width;
  int32_t height;
  float* rgb;                 /* out [B,H,W,3] */
  float* alpha;               /* out [B,H,W], with alphas */
  float* weight;              /* out [B,H,W], with weights */
  float* world_to_cam;        /* out [B,4,4] */
  float* camera;              /* out [B,4] */
  int32_t* row;               /* out [B,24] */
} luxel_gather_view_args;
LUXEL_API int luxel_gather_view(const luxel_gather_view_args* args);

/* alpha_slope: the gradient of weight * mean |alpha - target| by the transmittance 1 - alpha.
 *
 * g = weight sign(T - (1 - target)) w / (H W), with w the weight of the pixel where there is one. */
typedef struct luxel_alpha_slope_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const float* transmittance; /* in  [P] */
  const float* target;        /* in  [P] alpha */
  const float* weight;        /* in  [P] optional */
  int64_t pixels;             /* P */
  float scale;                /* weight / P */
  float* g_transmittance;     /* out [P] */
} luxel_alpha_slope_args;
LUXEL_API int luxel_alpha_slope(const luxel_alpha_slope_args* args);

/* langevin_noise: moves nearly transparent Gaussians at random (Kheradmand et al. 2024, 3DGS-MCMC, eq. 8).
 *
 * mean += strength rate gate Sigma n, with n standard normal, Sigma = R diag(s^2) R^T and
 * gate = sigmoid(-100 (opacity - 0.005)). n is a function of seed, step and row: Philox 4x32-10 (Salmon et al. 2011). */
typedef struct luxel_langevin_noise_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  float* means;               /* inout [N,3] */
  const float* quats;         /* in    [N,4] wxyz */
  const float* log_scales;    /* in    [N,3] */
  const float* opacity_logits; /* in   [N] */
  const float* rate;          /* in    [1] learning rate of the means */
  const int32_t* step;        /* in    [1] */
  const int32_t* skip;        /* in    [1] optional: nothing is moved where it is not 0 */
  int64_t seed;
  int32_t count;              /* N */
  float strength;
} luxel_langevin_noise_args;
LUXEL_API int luxel_langevin_noise(const luxel_langevin_noise_args* args);

/* relocate: rows become copies of rows that are drawn, and all copies together look as their source did (Kheradmand et
 * al. 2024, 3DGS-MCMC, eq. 9).
 *
 * With added = 0 the rows of opacity at most min_opacity, or that hold what is not finite, move; else the rows
 * [N,N+added) do, which are new. Sources are drawn among the other rows of [0,N), in proportion to their opacity, by
 * Philox 4x32-10 of seed, step and the row that moves. Sources get the shared opacity and scale; the moments of sources
 * and copies become 0. Where no source has a weight nothing moves. */
typedef struct luxel_relocate_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  float* means;               /* inout [N+added,3], at least, as all below */
  float* quats;               /* inout [N+added,4] */
  float* log_scales;          /* inout [N+added,3] */
  float* opacity_logits;      /* inout [N+added] */
  float* sh_dc;               /* inout [N+added,3] */
  float* sh_rest;             /* inout [N+added,sh_stride,3] */
  float* m_means;             /* inout first moments of Adam, likewise */
  float* m_quats;             /* inout */
  float* m_log_scales;        /* inout */
  float* m_opacity_logits;    /* inout */
  float* m_sh_dc;             /* inout */
  float* m_sh_rest;           /* inout */
  float* v_means;             /* inout second moments */
  float* v_quats;             /* inout */
  float* v_log_scales;        /* inout */
  float* v_opacity_logits;    /* inout */
  float* v_sh_dc;             /* inout */
  float* v_sh_rest;           /* inout */
  const float* weights;       /* in    [N] optional, instead of the opacities; 1 on average, or less */
  int32_t* source;            /* out   [N+added] the row that each is a copy of, or itself */
  int32_t* copies;            /* out   [N] how many rows are copies of each; zeroed by the caller */
  int32_t* moved;             /* out   [1] how many rows are copies; zeroed by the caller */
  int32_t count;              /* N */
  int32_t added;
  int32_t sh_stride;
  int32_t step;
  int64_t seed;
  float min_opacity;
  void* workspace;            /* luxel_relocate_workspace() bytes, 256-byte aligned */
  int64_t workspace_bytes;
} luxel_relocate_args;
LUXEL_API int64_t luxel_relocate_workspace(const luxel_relocate_args* args); /* pointers are not looked at */
LUXEL_API int luxel_relocate(const luxel_relocate_args* args);

/* count_step: after the lists of a step are made, says whether the step counts.
 *
 * Where they overflowed, status[1] is set and stays set until the caller clears it: this step and all that follow
 * change nothing. Else status[0] goes up by one. The cursor of the table moves on by the views in either case. */
typedef struct luxel_count_step_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const int32_t* overflow;    /* in    [1] from bin_splats */
  const int64_t* totals;      /* in    [2] from project_<primitive>, of all views together */
  int32_t views;              /* B */
  int32_t* table;             /* inout the cursor first */
  int32_t* status;            /* inout [4] steps that count, stalled, most tile instances asked for by a view (on average
                                 over those of a step), not used */
} luxel_count_step_args;
LUXEL_API int luxel_count_step(const luxel_count_step_args* args);

/* neighbours: the k nearest others of each point, nearest first; of equally near ones the lower index comes first.
 *
 * Points that do not count (mask 0, or not finite) are nobody's neighbours and get their own index k times; so are rows
 * filled up that have fewer than k others. */
typedef struct luxel_neighbours_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const void* points;         /* in  real [N,dimensions] */
  const uint8_t* mask;        /* in  [N] optional: 1 for points that count */
  int32_t count;              /* N */
  int32_t dimensions;         /* 3 or 4 */
  int32_t k;                  /* 1..16 */
  int32_t* neighbours;        /* out [N,k] */
  void* workspace;            /* luxel_neighbours_workspace() bytes, 256-byte aligned */
  int64_t workspace_bytes;
} luxel_neighbours_args;
LUXEL_API int64_t luxel_neighbours_workspace(const luxel_neighbours_args* args); /* pointers are not looked at */
LUXEL_API int luxel_neighbours(const luxel_neighbours_args* args);

/* opacity_entropy: the mean of -o ln o over the rows that are seen, and of_others times that over the other ones (Duan et
 * al. 2024, entropy loss).
 *
 * o = sigmoid(opacity_logit) held to [1e-3, 1 - 1e-3], beyond which there is no gradient. Rows whose logit is not finite,
 * spare ones say, have no part in it. Where there is nothing to take a mean of it is 0. */
typedef struct luxel_opacity_entropy_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const void* opacity_logits; /* in  real [N] */
  const uint8_t* visible;     /* in  [N] 1 for rows that are seen */
  int32_t count;              /* N */
  double of_others;
  void* loss;                 /* fwd out  real [1] */
  void* shares;               /* fwd out, bwd in  real [2] weight of a row that is seen, and of another: 1 / their number */
  const void* g_loss;         /* bwd in   real [1] */
  void* g_opacity_logits;     /* bwd out  real [N] */
  void* workspace;            /* fwd      luxel_opacity_entropy_workspace() bytes, 8-byte aligned */
  int64_t workspace_bytes;
} luxel_opacity_entropy_args;
LUXEL_API int64_t luxel_opacity_entropy_workspace(const luxel_opacity_entropy_args* args); /* pointers are not looked at */
LUXEL_API int luxel_opacity_entropy_fwd(const luxel_opacity_entropy_args* args);
LUXEL_API int luxel_opacity_entropy_bwd(const luxel_opacity_entropy_args* args);

/* velocity_consistency: how much 4D Gaussians move unlike their neighbours (Duan et al. 2024, 4D consistency loss).
 *
 * The mean over rows that are seen of |v - mean of v over the row's neighbours|_1, with the velocity v = b / c of the
 * covariance [[A, b], [b^T, c]] of (x, y, z, t). Neighbours need not be seen, and have their gradient too; one that is out
 * of range stands for the row itself. A velocity that is not finite counts as 0 and has no gradient. The gradient does not
 * depend on the order in which threads come. */
typedef struct luxel_velocity_consistency_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const void* rotors;         /* in  real [N,8], see project_gaussians4d; on the GPU g_rotors and workspace are 16-byte aligned */
  const void* log_scales;     /* in  real [N,3] */
  const void* log_scale_t;    /* in  real [N] */
  const int32_t* neighbours;  /* in  [N,k] */
  const uint8_t* visible;     /* in  [N] 1 for rows that are seen */
  int32_t count;              /* N */
  int32_t k;                  /* 1..16 */
  void* loss;                 /* fwd out  real [1] */
  void* share;                /* fwd out, bwd in  real [1] 1 / (k times the rows that are seen) */
  int64_t* pulls;             /* fwd out, bwd in  [N] what pulls at each velocity, for the backward */
  const void* g_loss;         /* bwd in   real [1] */
  void* g_rotors;             /* bwd out  real [N,8], every row written, as the next two */
  void* g_log_scales;         /* bwd out  real [N,3] */
  void* g_log_scale_t;        /* bwd out  real [N] */
  void* workspace;            /* fwd      luxel_velocity_consistency_workspace() bytes, 256-byte aligned */
  int64_t workspace_bytes;
} luxel_velocity_consistency_args;
LUXEL_API int64_t luxel_velocity_consistency_workspace(const luxel_velocity_consistency_args* args); /* likewise */
LUXEL_API int luxel_velocity_consistency_fwd(const luxel_velocity_consistency_args* args);
LUXEL_API int luxel_velocity_consistency_bwd(const luxel_velocity_consistency_args* args);

/* encode_grid: features of positions by interpolation in grids of several resolutions (Mueller et al. 2022).
 *
 * Level l has ceil(scales[l]) + 1 points along each axis. Positions are held to [0,1] (beyond it they have no gradient), times
 * the scale, plus 0.5; the features at the 2^D points around are weighted D-linearly. Where all points of a level fit into
 * its entries [offsets[l], offsets[l+1]) they are in order, the first axis fastest; otherwise the number of entries is a
 * power of two and points are hashed, or wrap around. With blocks of 8 neighbouring points (8, 4 x 2, 2 x 2 x 2, 2 x 2 x 2 x 1)
 * these are in order or hashed in the place of points; in order with one point more along each axis, up to whole blocks. A
 * position of which a coordinate is NaN has features 0 and no gradient.
 *
 * bwd_bwd is the vjp of the part of bwd that gives g_x. On the GPU g_table is added up in any order. */
enum { LUXEL_GRID_LEVELS = 32 }; /* the most of them */
typedef struct luxel_encode_grid_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const void* x;              /* in  real [N,D] */
  const void* table;          /* in  real [E,F]; on the GPU 16-byte aligned, as half_table and g_table */
  const void* half_table;     /* in  float16 [E,F] optional: read in place of table, GPU only */
  const int64_t* offsets;     /* in  [L+1] in host memory: first entry of each level, and E */
  const double* scales;       /* in  [L] in host memory, above 0 and exact in float32 */
  int64_t count;              /* N */
  int32_t dimensions;         /* D, 1..4 */
  int32_t levels;             /* L, 1..LUXEL_GRID_LEVELS */
  int32_t features;           /* F: 1, 2, 4, 8 */
  int32_t hashed;             /* levels that do not fit wrap around (0), or are hashed by points (1) or by blocks (2) */
  void* out;                  /* fwd out  real [N,L*F] */
  const void* g_out;          /* bwd, bwd_bwd in   real [N,L*F] */
  void* g_x;                  /* bwd, bwd_bwd out  real [N,D] optional */
  void* g_table;              /* bwd, bwd_bwd inout real [E,F] optional; added to, zeroed by the caller */
  const void* gg_x;           /* bwd_bwd in   real [N,D] gradient by the g_x of bwd */
  void* gg_out;               /* bwd_bwd out  real [N,L*F] optional: gradient by g_out */
} luxel_encode_grid_args;
LUXEL_API int luxel_encode_grid_fwd(const luxel_encode_grid_args* args);
LUXEL_API int luxel_encode_grid_bwd(const luxel_encode_grid_args* args);
LUXEL_API int luxel_encode_grid_bwd_bwd(const luxel_encode_grid_args* args);

/* mlp: a multilayer perceptron without biases as one stage (Mueller 2021, "Tiny CUDA neural networks").
 *
 * h_0 = x, h_{l+1} = activation(W_l h_l) for l < H, out = output_activation(W_H h_H). weights [P] holds W_0 .. W_H one
 * after another, each row major [its outputs, its inputs] and unpadded: inputs I for l = 0, else W; outputs O for l = H,
 * else W. `kept` below is `real`, but half on the GPU unless precise. There a pass in half keeps sums in float; gradients
 * pass through half on their way, so that a caller whose g_out is small multiplies it beforehand (loss scaling) and
 * divides g_x and g_weights. Sums over rows do not depend on the order in which threads come. */
enum { LUXEL_LINEAR = 0, LUXEL_RELU = 1, LUXEL_SOFTPLUS = 2, LUXEL_SIGMOID = 3 }; /* activations */
enum { LUXEL_MLP_WIDEST = 128, LUXEL_MLP_DEEPEST = 8 };                          /* of I, W, O; of H */
typedef struct luxel_mlp_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const void* x;              /* in  real [N,I] */
  const void* weights;        /* in  real [P] */
  int64_t count;              /* N */
  int32_t inputs;             /* I, 1..128 */
  int32_t width;              /* W, 16, 32, 64 or 128 */
  int32_t hidden_layers;      /* H, 0..8 */
  int32_t outputs;            /* O, 1..128 */
  int32_t activation;         /* of hidden layers */
  int32_t output_activation;
  int32_t precise;            /* GPU: 1 for float throughout, 0 for half on tensor cores */
  void* out;                  /* fwd out, bwd in  real [N,O] */
  void* hidden;               /* fwd out optional, bwd in  kept [H,N,W] h_1 .. h_H; not looked at on the GPU where it is not
                                 precise, I <= 32, W <= 64, H 1 or 2, O <= 16: bwd computes it anew */
  const void* g_out;          /* bwd in   real [N,O] */
  void* g_x;                  /* bwd out  real [N,I] optional */
  void* g_weights;            /* bwd out  real [P] optional */
  void* workspace;            /* luxel_mlp_fwd_workspace() or _bwd_workspace() bytes, 256-byte aligned */
  int64_t workspace_bytes;
  const int32_t* live;        /* fwd in [1] optional: rows from live[0] on are not wanted, and out may be left there */
  const void* directions;     /* fwd in  real [N,3] optional: x is [N,I-16], and what follows in a row are the harmonics of its
                                 direction, as colour_inputs has them. I even; on the GPU of sizes that bwd computes anew */
  void* first;                /* fwd out real [N] with directions: the first column of x */
} luxel_mlp_args;
LUXEL_API int64_t luxel_mlp_fwd_workspace(const luxel_mlp_args* args); /* pointers are not looked at */
LUXEL_API int64_t luxel_mlp_bwd_workspace(const luxel_mlp_args* args); /* likewise */
LUXEL_API int luxel_mlp_fwd(const luxel_mlp_args* args);
LUXEL_API int luxel_mlp_bwd(const luxel_mlp_args* args);

/* order_positions: positions along a Hilbert curve of 2^20 cells through the unit box, so that neighbours in the list are
 * neighbours in space. Positions are held to [0, 1]; those with a NaN have the last cell. Of one cell they keep their order. */
typedef struct luxel_order_positions_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const void* x;              /* in  real [N,D] */
  int64_t count;              /* N, below 2^30 */
  int32_t dimensions;         /* D, 2 or 3 */
  int32_t* order;             /* out [N] */
  void* sorted;               /* out real [N,D]: x[order] */
  void* workspace;            /* luxel_order_positions_workspace() bytes, 256-byte aligned */
  int64_t workspace_bytes;
} luxel_order_positions_args;
LUXEL_API int64_t luxel_order_positions_workspace(const luxel_order_positions_args* args); /* pointers are not looked at */
LUXEL_API int luxel_order_positions(const luxel_order_positions_args* args);

/* field: encode_grid, then mlp on its features, as one stage: what fields ask for at every step. Half on the GPU.
 *
 * The GPU has D of 2 and 3, F of 2, 4 and 8, L F up to 32, W up to 64, H of 1 and 2, O up to 16. The hidden layers are
 * computed anew by bwd there: `kept` has the features in pairs, half [L F / 2,N,2]. On the CPU it has features and hidden layers,
 * real [N,L F] and [H,N,W]. Sums over rows for g_weights are the same from run to run on one device; g_table is added up in any
 * order on the GPU: with `order`, whose neighbours are taken for neighbours in space, first over many rows in fixed point, of 22
 * bits below the greatest gradient of those rows. */
typedef struct luxel_field_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const void* x;              /* in  real [N,D] */
  const void* table;          /* in  real [E,F]; on the GPU 16-byte aligned, as half_table and g_table */
  const void* half_table;     /* in  float16 [E,F] optional: read in place of table, GPU only */
  const int64_t* offsets;     /* in  [L+1] in host memory, as of encode_grid */
  const double* scales;       /* in  [L] in host memory, likewise */
  const void* weights;        /* in  real [P], as of mlp with L F inputs */
  int64_t count;              /* N */
  int32_t dimensions;         /* D */
  int32_t levels;             /* L */
  int32_t features;           /* F */
  int32_t hashed;             /* levels that do not fit wrap around (0), or are hashed by points (1) or by blocks (2) */
  int32_t width;              /* W */
  int32_t hidden_layers;      /* H */
  int32_t outputs;            /* O */
  int32_t activation;         /* of hidden layers */
  int32_t output_activation;
  const int32_t* order;       /* in  [N] optional: row i of x and of kept is row order[i] of out and g_out */
  void* out;                  /* fwd out, bwd in  real [N,O] */
  void* kept;                 /* fwd out optional, bwd in  half or real, see above */
  const void* g_out;          /* bwd in   real [N,O] */
  void* g_table;              /* bwd inout real [E,F] optional; added to, zeroed by the caller */
  void* g_weights;            /* bwd out  real [P] optional */
  void* workspace;            /* luxel_field_fwd_workspace() or _bwd_workspace() bytes, 256-byte aligned */
  int64_t workspace_bytes;
  const int32_t* live;        /* fwd in [1] optional, without order and kept: rows from live[0] on are not wanted, and out may be
                                 left there */
} luxel_field_args;
LUXEL_API int64_t luxel_field_fwd_workspace(const luxel_field_args* args); /* looks at which pointers are null */
LUXEL_API int64_t luxel_field_bwd_workspace(const luxel_field_args* args); /* looks at offsets */
LUXEL_API int luxel_field_fwd(const luxel_field_args* args);
LUXEL_API int luxel_field_bwd(const luxel_field_args* args);

/* draw_pixels: the pixels that a step of a radiance field looks at, and the colours that they should have.
 *
 * Row r < live is pixel number numbers[r] mod M (of the candidates, where there are some), the others are none: pixel -1,
 * colours 0. A pixel of four channels is composited onto its background, which is a colour or, where there is none, random
 * per row: Philox 4x32-10 of numbers[r]. */
typedef struct luxel_draw_pixels_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const int64_t* numbers;     /* in  [R] random, from 0 on */
  const int64_t* candidates;  /* in  [M] optional: pixels to draw from */
  const uint8_t* photos;      /* in  [pixels,channels] straight RGB or RGBA, of all photographs one after another */
  const float* background;    /* in  [3] optional */
  const int32_t* live;        /* in  [1] optional: how many rows count */
  int64_t pool;               /* M: candidates, or else pixels */
  int32_t count;              /* R */
  int32_t channels;           /* 3 or 4 */
  int64_t* pixels;            /* out [R] */
  float* targets;             /* out [R,3] in [0,1] */
  float* backgrounds;         /* out [R,3] */
} luxel_draw_pixels_args;
LUXEL_API int luxel_draw_pixels(const luxel_draw_pixels_args* args);

/* march_rays: samples along rays through the occupied cells of a box.
 *
 * A ray is given by origin and unit direction, or is that of a pixel (column + 0.5, row + 0.5) of a view. It is cut to the
 * box and to [near,far], and sampled at t_k = begin + (k + jitter) step while t_k < end, k < LUXEL_MARCH_MOST, wherever the
 * cell is occupied. Jitter is 0.5 without a seed, else in (0,1): Philox 4x32-10 of seed and row. Samples of a ray stand
 * together, rays in any order on the GPU; the rows beyond the last sample are 0. A ray for which there is no room has none. */
enum { LUXEL_MARCH_MOST = 16384 }; /* places along a ray */
typedef struct luxel_march_rays_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const void* origins;        /* in  real [R,3], or null: */
  const void* directions;     /* in  real [R,3] unit */
  const int64_t* pixels;      /* in  [R] numbers of pixels over all views; negative: no ray */
  const int64_t* views;       /* in  [V,2] number of the first pixel, width */
  const void* world_to_cam;   /* in  real [V,4,4] row major */
  const void* intrinsics;     /* in  real [V,4] fx fy cx cy */
  const uint64_t* occupancy;  /* in  [(G/4)^3] a word for each block of 4^3 cells, and in it a bit for each cell, in both x
                                 fastest, then y; null: all are occupied */
  const int64_t* seed;        /* in  [1] optional */
  int32_t* live;              /* inout [1] optional: how many rays count; see target */
  int32_t count;              /* R */
  int32_t view_count;         /* V */
  int32_t resolution;         /* G, a multiple of 4, up to 1024 */
  int32_t capacity;           /* S */
  int32_t target;             /* above 0: live becomes how many rays would have had so many samples; moved by no more
                                 than a factor of 2, and held to [1,R] */
  double low_x;               /* the box */
  double low_y;
  double low_z;
  double high_x;
  double high_y;
  double high_z;
  double step;
  double near_t;              /* along the ray */
  double far_t;
  void* positions;            /* out real [S,3] in the box, which is [0,1]^3 */
  void* sample_directions;    /* out real [S,3] optional: of the sample's ray */
  void* t;                    /* out real [S] along the ray */
  void* dt;                   /* out real [S] the step */
  int32_t* ranges;            /* out [R,2] first sample and number of them, of each ray */
  int64_t* counters;          /* out [5] samples, samples asked for, rays that count, rays without room, room that was left */
} luxel_march_rays_args;
LUXEL_API int luxel_march_rays(const luxel_march_rays_args* args);

/* visible_samples: of the samples that march_rays gave, those that can be seen, side by side.
 *
 * With optical depths tau and transmittances T as in composite: of every ray the samples before the first whose T is below
 * min_transmittance, and of them, where least_alpha is above 0, those whose 1 - exp(-tau) is at least that. They take their
 * room as in march_rays. Counters are as there, of visible samples; rays without room are those of either stage. */
typedef struct luxel_visible_samples_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const void* density;        /* in  real [M] before the activation, each density_stride numbers from the one before */
  const void* raw_positions;  /* in  real [M,3] as march_rays gives them, as all raw ones */
  const void* raw_directions; /* in  real [M,3] */
  const void* raw_t;          /* in  real [M] */
  const void* raw_dt;         /* in  real [M] */
  const int32_t* raw_ranges;  /* in  [R,2] */
  const int64_t* raw_counters; /* in [5] */
  int64_t density_stride;
  int32_t* live;              /* inout [1] optional: how many rays count in the next step; see target and raw_target */
  int32_t count;              /* R */
  int32_t capacity;           /* S */
  int32_t target;             /* above 0: live becomes how many rays would have had so many visible samples; moved by no
                                 more than a factor of 2, and held to [1,R] */
  int32_t raw_target;         /* above 0, with target: nor more than would have had so many raw samples */
  double scale;               /* see composite */
  double min_transmittance;
  double least_alpha;
  uint8_t* kept;              /* workspace [M], with least_alpha above 0 */
  void* positions;            /* out real [S,3] */
  void* sample_directions;    /* out real [S,3] */
  void* t;                    /* out real [S] */
  void* dt;                   /* out real [S] */
  int32_t* ranges;            /* out [R,2] first sample and number of them, of each ray */
  int64_t* counters;          /* out [5] */
} luxel_visible_samples_args;
LUXEL_API int luxel_visible_samples(const luxel_visible_samples_args* args);

/* colour_inputs: what the colour network of a radiance field takes, the features of a sample and the 16 spherical harmonics
 * of its direction; the first feature is the sample's density, before its activation. */
typedef struct luxel_colour_inputs_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const void* features;       /* fwd in   real [S,F]; on the GPU 16-byte aligned, as inputs and their gradients */
  const void* directions;     /* fwd in   real [S,3] unit */
  int64_t count;              /* S */
  int32_t width;              /* F, a multiple of 4 */
  void* inputs;               /* fwd out  real [S,F+16] */
  void* density;              /* fwd out  real [S] */
  const void* g_inputs;       /* bwd in   real [S,F+16] */
  const void* g_density;      /* bwd in   real [S] optional */
  void* g_features;           /* bwd out  real [S,F] */
  const int32_t* live;        /* fwd in [1] optional: samples from live[0] on are not wanted, and left as they are */
} luxel_colour_inputs_args;
LUXEL_API int luxel_colour_inputs_fwd(const luxel_colour_inputs_args* args);
LUXEL_API int luxel_colour_inputs_bwd(const luxel_colour_inputs_args* args);

/* composite: colours of rays from their samples (Max 1995; Mildenhall et al. 2020, "NeRF", equation 3).
 *
 * With optical depth tau_i = scale exp(density_i) dt_i, density held to [-15,15], and transmittance T_i = exp(-sum of tau_j
 * over j < i): weight w_i = T_i (1 - exp(-tau_i)); samples whose T_i is below min_transmittance have none. rgb = sum of w_i
 * sigmoid(colour_i) + T background, depth = sum of w_i t_i, T that behind the last sample with a weight. */
typedef struct luxel_composite_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const void* density;        /* in  real [S] before the activation */
  const void* colour;         /* in  real [S,3] likewise */
  const void* dt;             /* in  real [S] */
  const void* t;              /* in  real [S] */
  const int32_t* ranges;      /* in  [R,2] see march_rays */
  const void* background;     /* in  real [R,3] */
  int32_t count;              /* R */
  int32_t samples;            /* S */
  double scale;
  double min_transmittance;
  void* rgb;                  /* fwd out, bwd in  real [R,3] */
  void* transmittance;        /* fwd out, bwd in  real [R] */
  void* depth;                /* fwd out, bwd in  real [R] */
  const int64_t* counters;    /* bwd in   see march_rays; samples beyond counters[0] are of no ray */
  const void* g_rgb;          /* bwd in   real [R,3] */
  const void* g_transmittance; /* bwd in  real [R] optional */
  const void* g_depth;        /* bwd in   real [R] optional */
  void* g_density;            /* bwd out  real [S], every row written, as the next */
  void* g_colour;             /* bwd out  real [S,3] */
} luxel_composite_args;
LUXEL_API int luxel_composite_fwd(const luxel_composite_args* args);
LUXEL_API int luxel_composite_bwd(const luxel_composite_args* args);

/* render_wave: a picture in waves. begin_waves takes N pixels of a camera, row by row from first_pixel on: rays that meet no
 * occupied cell are background at once, the others are listed. Then, again and again, march_wave gives every listed ray up
 * to min(most, capacity / listed) samples (as march_rays does, without jitter), a field is evaluated at them, and
 * composite_wave adds them to their rays (as composite does); it finishes rays whose transmittance is below
 * min_transmittance, or that have no sample left, and lists the rest. Counts stay on the device.
 *
 * With `part` the pixels are those of whole rows of the picture, as many as part says, and rays have their numbers along tiles
 * of 8 x 8 of them (less at the right and the lower edge), so that neighbours in the list are neighbours in space; rgb,
 * transmittance and depth are in the order of the pixels all the same. */
enum { LUXEL_WAVE_STATE = 8 }; /* numbers of a ray between waves */
typedef struct luxel_render_wave_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const void* world_to_cam;   /* in  real [4,4], not for composite_wave, as the next two */
  const void* intrinsics;     /* in  real [4] */
  const uint64_t* occupancy;  /* in  as in march_rays */
  int32_t width;              /* of the picture */
  int32_t first_pixel;
  int32_t count;              /* N; of march_wave and composite_wave as many as may be listed, at least */
  int32_t resolution;
  int32_t capacity;           /* S */
  int32_t most;               /* samples of a ray in a wave */
  int32_t per_ray;            /* above 0: a wave has max(fewest, per_ray listed) samples at most, and S; march_wave, as the next */
  int32_t fewest;
  const int32_t* part;        /* in  [3] optional: width, first_pixel, and the number of pixels, up to N, in their place */
  double low_x;               /* the box */
  double low_y;
  double low_z;
  double high_x;
  double high_y;
  double high_z;
  double step;
  double near_t;
  double far_t;
  double scale;               /* see composite */
  double min_transmittance;
  const void* background;     /* in    real [3] */
  const int32_t* listed;      /* in    [1] rays of the list; not for begin_waves, as the next */
  const int32_t* list;        /* in    [listed] rays that go on */
  int32_t* next_listed;       /* inout [1] rays of the next list, zeroed by the caller; begin_waves, composite_wave */
  int32_t* next_list;         /* out   [N] */
  void* state;                /* inout real [N,8] rgb, optical depth, depth, next place (-1: none), two not used */
  int32_t* samples;           /* inout [1] samples asked for, zeroed by the caller; march_wave */
  void* positions;            /* out   real [S,3] by march_wave */
  void* sample_directions;    /* out   real [S,3] optional */
  void* t;                    /* out   real [S], in of composite_wave */
  int32_t* ranges;            /* out   [listed,2] of each place in the list, in of composite_wave */
  const void* density;        /* in    real [S], composite_wave, as all below */
  const void* colour;         /* in    real [S,3] */
  const void* values;         /* in    real [S,4] in their place where given, to 16 bytes: density and colour without
                                       activations, held to at least 0 and to [0, 1] */
  void* rgb;                  /* out   real [N,3], by begin_waves too, as the next two */
  void* transmittance;        /* out   real [N] */
  void* depth;                /* out   real [N] */
} luxel_render_wave_args;
LUXEL_API int luxel_begin_waves(const luxel_render_wave_args* args);
LUXEL_API int luxel_march_wave(const luxel_render_wave_args* args);
LUXEL_API int luxel_composite_wave(const luxel_render_wave_args* args);
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

/* sphere_trace: rays to where a distance in the unit box becomes 0, a wave of evaluations at a time (Hart 1996).
 *
 * begin starts every ray at the box and lets it go as far as a coarse grid of distances allows; rays that come near the
 * surface are alive: each has a place x to be evaluated. step takes the distances there: a ray that is near enough has hit,
 * the others go on, and those still in the box are alive again. Lists are in any order. Rays are given, or those of a
 * camera's pixels, row by row. */
typedef struct luxel_sphere_trace_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const void* rays;           /* in  real [M,6] optional: origins, and directions of length 1 */
  const void* cam_to_unit;    /* in  real [3,4] without rays: camera to unit box, a scaled rotation and a translation */
  const void* intrinsics;     /* in  real [4] without rays: fx, fy, cx, cy */
  int32_t width;              /* of the image, without rays */
  int64_t count;              /* M */
  const void* grid;           /* in  real [R,R,R] least distance at the centre of the cell x, y, z */
  int32_t resolution;         /* R */
  double tolerance;           /* a distance below this, plus `widening` times the way gone, is a hit */
  double widening;
  const int32_t* size;        /* in  [2] optional, of a camera: width and the number of rays, up to M, in their place */
  const void* pixel;          /* in  real [1] optional: `widening` is times this */
  void* way;                  /* begin out, step inout  real [M] length gone */
  const int32_t* alive;       /* step in   [limit] rays that were evaluated */
  const int32_t* alive_count; /* step in   [1] how many of them */
  const void* distance;       /* step in   real [limit] */
  int64_t limit;              /* step      rows of the lists that are looked at */
  int32_t* next;              /* out       [M] rays that are alive */
  int32_t* next_count;        /* inout     [1] how many, zeroed by the caller */
  void* x;                    /* out       real [M,3] their places */
  int32_t* hits;              /* step out  [M] rays that have hit */
  int32_t* hit_count;         /* step inout [1] how many, from earlier steps */
  void* hit_x;                /* step out  real [M,3] their places */
} luxel_sphere_trace_args;
LUXEL_API int luxel_sphere_trace_begin(const luxel_sphere_trace_args* args);
LUXEL_API int luxel_sphere_trace_step(const luxel_sphere_trace_args* args);

#define LUXEL_ABI_STRUCTS(X)       \
  X(luxel_project_gaussians_args)  \
  X(luxel_project_gaussians4d_args) \
  X(luxel_project_convexes_args)   \
  X(luxel_bin_splats_args)         \
  X(luxel_blend_args)              \
  X(luxel_photometric_loss_args)   \
  X(luxel_adam_args)               \
  X(luxel_gather_view_args)        \
  X(luxel_count_step_args)         \
  X(luxel_alpha_slope_args)        \
  X(luxel_langevin_noise_args)     \
  X(luxel_relocate_args)           \
  X(luxel_neighbours_args)         \
  X(luxel_opacity_entropy_args)    \
  X(luxel_velocity_consistency_args) \
  X(luxel_encode_grid_args) \
  X(luxel_mlp_args) \
  X(luxel_order_positions_args) \
  X(luxel_field_args) \
  X(luxel_draw_pixels_args) \
  X(luxel_march_rays_args) \
  X(luxel_visible_samples_args) \
  X(luxel_colour_inputs_args) \
  X(luxel_composite_args) \
  X(luxel_render_wave_args) \
  X(luxel_mesh_distance_args) \
  X(luxel_sphere_trace_args)

#ifdef __cplusplus
}
#endif
#endif /* LUXEL_ABI_H */
