/* The C ABI of the tile rasterizer: projection of primitives to splats, lists of splats per tile, blending, and labels.
 *
 * Letters: N primitives of P parameter tensors, C cameras, H W image, T tiles of one image, K points of a convex, D channels,
 * L labels, R numbers of a splat (a primitive's row on the screen). */
#ifndef LUXEL_ABI_RASTER_H
#define LUXEL_ABI_RASTER_H

#include "abi/base.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { LUXEL_TILE = 16 }; /* px, side of a tile */
/* Of a convex, at most. */
enum { LUXEL_CORNERS = 8 };
/* Numbers of a lens: model (0: radial and tangential, 1: fisheye), k1, k2, k3, k4, p1, p2, limit. See cuda/math/camera/lens.h. */
enum { LUXEL_LENS = 8 };
/* Numbers of a rolling shutter, see cuda/math/camera/shutter.h. */
enum { LUXEL_SHUTTER = 8 };
/* Policies of the tile rasterizer: how a primitive is rendered, by its position in cuda/math/raster/policies.h. */
enum { LUXEL_MULTI_EDGE = 1, LUXEL_HAS_ABSOLUTE = 2, LUXEL_PIXEL_DEPTH = 4 };
/* The name of a policy, null if there is no such number; with R, the numbers of a splat, which starts with x, y (px), opacity, depth;
 * PIECE, the instances of a piece, into which the list of a tile is divided on the GPU; and flags: alpha is a loop over edges, slots
 * 3 and 7 of g_splats can be absolute gradients, the depth differs from pixel to pixel. */
LUXEL_API const char* luxel_policy(int32_t number, int32_t* row, int32_t* piece, int32_t* flags);
/* Adds the policy of a shared object, which must stay loaded. stages: a PolicyStages, of the given size, as
 * cuda/kernels/raster/policy_object.h makes it from the headers of this library. Returns the number of the policy, -1 if it was
 * compiled with other headers, if its name is in use, or if 32 have been added. */
LUXEL_API int32_t luxel_add_policy(const void* stages, int64_t bytes);

/* What all projections of primitives to splats have. R: numbers of a splat, D of the values. */
typedef struct luxel_projection {
  const void* world_to_cam;   /* in  real [C,4,4] row major */
  const void* intrinsics;     /* in  real [C,4] fx fy cx cy (px); with lens [C,4+LUXEL_LENS], each followed by its lens */
  int32_t count;              /* N */
  int32_t cameras;            /* C */
  int32_t sh_stride;          /* stored coefficients above degree 0: 0, 3, 8, 15 */
  int32_t sh_degree;          /* degree to evaluate, 0..3 */
  int32_t width;              /* px */
  int32_t height;             /* px */
  float near_plane;           /* depths (z) of centres outside of (near_plane, far_plane) are culled */
  float far_plane;
  int32_t with_depth;
  void* splats;               /* fwd out  real [C,N,R]; on the GPU 16-byte aligned, as g_splats and statistics */
  void* values;               /* fwd out  real [C,N,D] */
  int32_t* tile_counts;       /* fwd out, bwd in  [C,N] tiles touched, 0 when culled */
  int64_t* totals;            /* fwd out  [2] visible splats and tile instances of all cameras; zeroed by the caller */
  const void* g_splats;       /* bwd in   real [C,N,R] */
  const void* g_values;       /* bwd in   real [C,N,D] */
  void* g_world_to_cam;       /* bwd out  real [C,4,4], optional; added to, zeroed by the caller */
  void* statistics;           /* bwd inout real [N,4] optional: sum over views of the norm of the gradient by x, y (in half
                                 image sizes), the same of the absolute gradients, number of views that saw the
                                 primitive, largest radius / max(W,H) */
  int32_t largest_of_views;   /* bwd      1: adds the maximum over the C cameras of each statistic, 0: their sum */
  const int32_t* skip;        /* bwd in   [1] optional: not 0 leaves statistics unchanged, and with adam_schedule
                                 parameters and moments too */
  const void* adam_schedule;  /* bwd in   real [P+2] optional: learning rates of the P parameters in the order of the
                                 arguments, then 1 - beta1^t, 1 - beta2^t. With it the parameters are updated in place by
                                 Adam (abi/train.h); their gradients g_ are not written and may be null */
  const int64_t* adam_table;  /* bwd in   [P,3] in host memory; this and all below only with adam_schedule. Addresses, for
                                 each parameter, of its first moments, its second moments, and a tensor to add to its
                                 gradient (0: none) */
  double adam_beta1;
  double adam_beta2;
  double adam_eps;
  int32_t adam_visible_only;  /* 1: rows that no camera observed retain parameters and moments, whatever their gradient */
  int32_t adam_active_sh_only; /* 1: coefficients above sh_degree are skipped. Equivalent to a full update while their
                                 moments are 0, that is as long as sh_degree has never been higher */
  int32_t adam_keep_sh_rest;  /* 1: sh_rest and its moments stay unchanged */
} luxel_projection;

/* project_gaussians: 3D Gaussians to 2D splats, per camera (EWA splatting, Zwicker et al. 2002; Kerbl et al. 2023).
 *
 * splats [C,N,8]: x, y (px), opacity (after compensation), depth (camera z), conic a, b, c (inverse of the dilated 2D
 * covariance: exponent is -(a dx^2 + c dy^2)/2 - b dx dy), radius (px, larger half extent of the region where alpha is at
 * least 1/255; no gradient).
 * values [C,N,D]: rgb (3), then depth (1) if with_depth, then world-space normal (3) if with_normals.
 * Rows of culled Gaussians are left unwritten; tile_counts is 0 for them. Elements 3, 7 of g_splats hold sums over pixels of |g_x|,
 * |g_y|, or 0. */
typedef struct luxel_project_gaussians_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  luxel_projection projection;
  const void* means;          /* in  real [N,3] */
  const void* quats;          /* in  real [N,4] wxyz */
  const void* log_scales;     /* in  real [N,3] */
  const void* opacity_logits; /* in  real [N] */
  const void* sh_dc;          /* in  real [N,3] SH coefficients of degree 0, RGB */
  const void* sh_rest;        /* in  real [N,sh_stride,3], null if sh_stride is 0 */
  int32_t lens;               /* 1: cameras with a lens. Mean and covariance of a splat are those of images of sigma points,
                                 and the depth of a fisheye is the distance from the camera */
  const void* shutters;       /* in  real [C,LUXEL_SHUTTER] optional: rolling shutters, see cuda/math/camera/shutter.h */
  int32_t antialiased;        /* 1: opacity compensation (Yu et al. 2024, "Mip-Splatting") */
  int32_t with_normals;
  float dilation;             /* px^2 added to the diagonal of the 2D covariance */
  void* g_means;              /* bwd out  real [N,3], every row written, as in the next five */
  void* g_quats;              /* bwd out  real [N,4] */
  void* g_log_scales;         /* bwd out  real [N,3] */
  void* g_opacity_logits;     /* bwd out  real [N] */
  void* g_sh_dc;              /* bwd out  real [N,3] */
  void* g_sh_rest;            /* bwd out  real [N,sh_stride,3] */
  void* g_shutters;           /* bwd out  real [C,LUXEL_SHUTTER], optional; the velocities are added to, zeroed by the caller */
  float opacity_penalty;      /* bwd      weight of sigmoid(opacity_logit), which is added to the loss for every row, visible
                                 or not */
  float scale_penalty;        /* bwd      weight of the sum of a row's exp(log_scales), likewise */
  const void* penalty_factor; /* bwd in   real [1] optional: factor of both weights */
} luxel_project_gaussians_args;
LUXEL_API int luxel_project_gaussians_fwd(const luxel_project_gaussians_args* args);
LUXEL_API int luxel_project_gaussians_bwd(const luxel_project_gaussians_args* args);

/* project_gaussians4d: 4D Gaussians with rotors to 2D splats, per camera and its timestamp (Duan et al. 2024): each Gaussian is
 * sliced at the timestamp, that is conditioned on it, and projected as in project_gaussians.
 *
 * splats, values, tile_counts and totals are those of project_gaussians, with depth and colour at the sliced mean. A
 * Gaussian is culled if the exponent of its temporal falloff, (t - time)^2 / (2 variance), is 16 or more. Normals are the
 * shortest axes of the sliced covariances and have no gradient. The second of the statistics is the sum over views of |gradient by
 * times|. */
typedef struct luxel_project_gaussians4d_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  luxel_projection projection;
  const void* means;          /* in  real [N,3] */
  const void* times;          /* in  real [N] */
  const void* log_scales;     /* in  real [N,3] */
  const void* log_scale_t;    /* in  real [N] */
  const void* rotors;         /* in  real [N,8] scalar, bivectors xy xz yz xt yt zt, pseudoscalar; of any length */
  const void* opacity_logits; /* in  real [N] */
  const void* sh_dc;          /* in  real [N,3] */
  const void* sh_rest;        /* in  real [N,sh_stride,3], null if sh_stride is 0 */
  const void* timestamps;     /* in  real [C] time of each camera, in the unit of times */
  int32_t lens;               /* 1: cameras with a lens. Mean and covariance of a splat are those of images of sigma points,
                                 and the depth of a fisheye is the distance from the camera */
  const void* shutters;       /* in  real [C,LUXEL_SHUTTER] optional: rolling shutters, see cuda/math/camera/shutter.h */
  int32_t antialiased;        /* 1: Mip-Splatting's opacity compensation */
  int32_t with_normals;
  float dilation;             /* px^2 added to the diagonal of the 2D covariance */
  void* g_means;              /* bwd out  real [N,3], every row written, as in the next seven */
  void* g_times;              /* bwd out  real [N] */
  void* g_log_scales;         /* bwd out  real [N,3] */
  void* g_log_scale_t;        /* bwd out  real [N] */
  void* g_rotors;             /* bwd out  real [N,8] */
  void* g_opacity_logits;     /* bwd out  real [N] */
  void* g_sh_dc;              /* bwd out  real [N,3] */
  void* g_sh_rest;            /* bwd out  real [N,sh_stride,3] */
  void* g_timestamps;         /* bwd out  real [C], optional; added to, zeroed by the caller */
  void* g_shutters;           /* bwd out  real [C,LUXEL_SHUTTER], optional; the velocities are added to, zeroed by the caller */
} luxel_project_gaussians4d_args;
LUXEL_API int luxel_project_gaussians4d_fwd(const luxel_project_gaussians4d_args* args);
LUXEL_API int luxel_project_gaussians4d_bwd(const luxel_project_gaussians4d_args* args);

/* project_convexes: smooth 3D convexes to 2D convex polygons, per camera (Held et al. 2025, "3D Convex Splatting").
 *
 * splats [C,N,28]: x, y (px, of the centroid), opacity (after the mask), depth (z of the centroid), delta z, sigma z,
 * number of edges M, reach (alpha is below 1/255 wherever L_j is above it for some edge j), the box outside of which alpha is
 * below 1/255 (px: min x, min y, max x, max y), then x, y of the M corners relative to the centroid (px), clockwise
 * as visible in the image, and zeros. L_j(q) = (b_y - a_y) (q_x - a_x) - (b_x - a_x) (q_y - a_y) from corner a to the next, b.
 * values [C,N,D]: rgb (3), then depth (1) if with_depth.
 * Rows of culled convexes are left unwritten; tile_counts is 0 for them. Centroid depths outside of (max(near_plane, 0.2), far_plane)
 * are culled. Of g_splats only opacity, delta z, sigma z and corners are read. The statistics are: sum of the gradient by
 * exp(log_sigma), signed; unused; number of views that saw the convex; largest distance of a point from the centroid (px) /
 * max(W,H). */
typedef struct luxel_project_convexes_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  luxel_projection projection;
  const void* points;         /* in  real [N,K,3] */
  const void* log_delta;      /* in  real [N] smoothness */
  const void* log_sigma;      /* in  real [N] sharpness */
  const void* opacity_logits; /* in  real [N] */
  const void* sh_dc;          /* in  real [N,3] */
  const void* sh_rest;        /* in  real [N,sh_stride,3], null if sh_stride is 0 */
  const void* mask_logits;    /* in  real [N]; visible if sigmoid is above 0.01, with the sigmoid's gradient (straight-through) */
  int32_t points_each;        /* K, 3..LUXEL_CORNERS */
  void* g_points;             /* bwd out  real [N,K,3], every row written, as in the next six */
  void* g_log_delta;          /* bwd out  real [N] */
  void* g_log_sigma;          /* bwd out  real [N] */
  void* g_opacity_logits;     /* bwd out  real [N] */
  void* g_sh_dc;              /* bwd out  real [N,3] */
  void* g_sh_rest;            /* bwd out  real [N,sh_stride,3] */
  void* g_mask_logits;        /* bwd out  real [N] */
  int32_t raw_moments;        /* bwd      1: g_splats are raw moments, see blend; GPU only */
  float mask_penalty;         /* bwd      weight of sigmoid(mask_logit), which is added to the loss for every row with a finite
                                 opacity_logit */
  const void* penalty_factor; /* bwd in   real [1] optional: factor of that weight */
} luxel_project_convexes_args;
LUXEL_API int luxel_project_convexes_fwd(const luxel_project_convexes_args* args);
LUXEL_API int luxel_project_convexes_bwd(const luxel_project_convexes_args* args);

/* bin_splats: lists, per tile, the splats that touch it, nearest first. An instance is a pair of a splat and a tile.
 *
 * instances [capacity]: indices c*N+n. ranges [C*T,2]: first and one past the last instance of each tile.
 * If there are more instances than capacity, lists are truncated and overflow[0] is set to 1. PIECE: that of the policy. */
typedef struct luxel_bin_splats_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const void* splats;         /* in  real [C,N,R], R of the policy */
  const int32_t* tile_counts; /* in  [C,N] */
  const int64_t* totals;      /* in  [2] */
  int32_t count;              /* N */
  int32_t cameras;            /* C */
  int32_t policy;             /* number, see luxel_policy */
  int32_t width;              /* px */
  int32_t height;             /* px */
  int64_t visible_capacity;   /* most visible splats, at least totals[0] */
  int64_t capacity;           /* most instances, below 2^31 */
  int32_t* instances;         /* out [capacity] */
  int32_t* ranges;            /* out [C*T,2] */
  int32_t* overflow;          /* out [1] */
  int32_t* plan;              /* out [4*C*T + 2*(capacity/PIECE) + 1] optional, for blend on the GPU. [C*T] tiles
                                 ordered by length of list, longest first; [C*T] index of each tile's first row in `states`
                                 of blend; [C*T + capacity/PIECE,2] tile of each piece and index of the piece in the
                                 tile's list, -1 for unused rows; [1] number of tiles with long lists */
  void* workspace;            /* luxel_bin_splats_workspace() bytes, 256-byte aligned */
  int64_t workspace_bytes;
} luxel_bin_splats_args;
LUXEL_API int64_t luxel_bin_splats_workspace(const luxel_bin_splats_args* args); /* ignores pointers */
LUXEL_API int luxel_bin_splats(const luxel_bin_splats_args* args);

/* Splats and their lists per tile, from bin_splats. */
typedef struct luxel_binned_splats {
  const void* splats;         /* in  real [C,N,R], R of the policy; on the GPU 16-byte aligned */
  const int32_t* instances;   /* in  [capacity] */
  const int32_t* ranges;      /* in  [C*T,2] */
  int64_t capacity;
  const int32_t* plan;        /* in  GPU only */
  int32_t count;              /* N */
  int32_t cameras;            /* C */
  int32_t width;              /* px */
  int32_t height;             /* px */
  int32_t policy;             /* number, see luxel_policy */
  float max_alpha;            /* in (0,1) */
} luxel_binned_splats;

/* blend: front-to-back alpha blending of splats' values per pixel.
 *
 * image = sum_i T_i alpha_i value_i + T_end background with T_i = prod_{j<i} (1 - alpha_j). alpha_i is capped at max_alpha and
 * skipped below 1/255; a pixel ends before T would fall to 1e-4. PIECE as in bin_splats. */
typedef struct luxel_blend_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  luxel_binned_splats binned;
  const void* values;         /* in  real [C,N,D] */
  const void* background;     /* in  real [C,D] optional; absent: 0 */
  int32_t channels;           /* D: one of 3 4 6 7 8 16 */
  int32_t absolute;           /* bwd: 1 to sum each pixel's |g_x|, |g_y| into elements 3, 7 of g_splats; LUXEL_HAS_ABSOLUTE */
  int32_t depth_moments;      /* LUXEL_PIXEL_DEPTH: 1: value 3 is the centre's depth, blended as that of each pixel; 2: value 4, its square, too */
  int32_t deterministic;      /* 1 to sum in a fixed order on the GPU too, as the CPU always does */
  int32_t raw_moments;        /* bwd: 1 to leave raw moments in g_splats, which project_convexes_bwd turns into gradients as it
                                 reads them; LUXEL_MULTI_EDGE on the GPU only */
  void* image;                /* fwd out  real [C,H,W,D] */
  void* transmittance;        /* fwd out, bwd in  real [C,H,W]: T_end */
  int32_t* last;              /* fwd out, bwd in  [C,H,W] index into instances, one past the last that contributed, 0 if none
                                 did; fwd: optional */
  int32_t* contributors;      /* fwd out  [C,H,W] optional: number of splats that contributed */
  void* median_depth;         /* fwd out  real [C,H,W] optional: depth where T falls to 1/2, 0 if it does not */
  void* states;               /* fwd out, bwd in  real [capacity/PIECE,D+1,256] GPU only, fwd: optional: values and T that
                                 each pixel has accumulated after each piece but the last of a list. LUXEL_MULTI_EDGE: followed
                                 by uint32 [capacity/32+C*T+1,8], 16-byte aligned: a bit for each splat of a list, 32
                                 per word, set if it contributed to a pixel of that 8x4 block of the tile */
  const void* final_image;    /* bwd in   real [C,H,W,D] GPU only: image of the forward pass */
  const void* g_image;        /* bwd in   real [C,H,W,D] */
  const void* g_transmittance; /* bwd in  real [C,H,W] optional */
  void* g_splats;             /* bwd out  real [C,N,R]; added to, zeroed by the caller */
  void* g_values;             /* bwd out  real [C,N,D]; added to, zeroed by the caller */
  void* g_background;         /* bwd out  real [C,D] optional; added to, zeroed by the caller */
  void* workspace;            /* bwd  luxel_blend_workspace() bytes, 256-byte aligned */
  int64_t workspace_bytes;
} luxel_blend_args;
LUXEL_API int64_t luxel_blend_workspace(const luxel_blend_args* args); /* for bwd */
LUXEL_API int luxel_blend_fwd(const luxel_blend_args* args);
LUXEL_API int luxel_blend_bwd(const luxel_blend_args* args);

/* label_votes: how much of each label's pixels a primitive contributes to: sums of T alpha over the pixels of a label, T and
 * alpha as in blend; the argmax by label is the optimum of FlashSplat's programme (Shen et al. 2024).
 *
 * Sums are fixed point, so that they have the same bits in any order: an int64 in units of 2^-24; with fine two of them, in
 * units of 2^-20 and 2^-52. Sums of all calls are below 2^38 pixels.
 *
 * Dense table, keys is null: votes [N,L+1], the last column for pixels without a vote. Sparse table: votes [N,9]. Column k of
 * the first eight holds the label in byte k of keys, 255 if none. Further labels of a primitive are in its row of pool; if no row
 * is left, they are added to the last column, as are pixels without a vote. Which label has which slot varies from run to run
 * on the GPU, the sums of a label do not. */
enum { LUXEL_VOTE_SLOTS = 8, LUXEL_NO_LABEL = 255 };
typedef struct luxel_label_votes_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  luxel_binned_splats binned;
  const uint8_t* maps;        /* in  [C,H,W] labels; L and above: no vote */
  int32_t labels;             /* L, 1..255 */
  int32_t centre_rule;        /* 1: SAGOnline's rule (Sun et al. 2025) instead of T alpha: one vote of a pixel for each splat of its
                                 tile's list whose centre is within 2 px of it, while T is above 0.01 */
  int32_t fine;               /* 1: CPU only */
  int64_t* votes;             /* inout [N,L+1], [N,9] of a sparse table, or either with a last dimension of 2 if fine */
  int64_t* keys;              /* inout [N] optional: eight labels, a byte each */
  int32_t* rows;              /* inout [N] with keys: row in pool; -1 if none yet, -2 if none was left */
  int64_t* pool;              /* inout [pool_rows,255], or [pool_rows,255,2] if fine, with keys */
  int32_t pool_rows;
  int32_t* pool_used;         /* inout [1] with keys: rows requested so far, may exceed pool_rows */
} luxel_label_votes_args;
LUXEL_API int luxel_label_votes(const luxel_label_votes_args* args);

/* label_render: per pixel the label with the largest sum of T alpha over its splats; of equal ones the lowest. */
typedef struct luxel_label_render_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  luxel_binned_splats binned;
  const uint8_t* labels;      /* in  [N]; those of label_count and above contribute to no label */
  int32_t label_count;        /* L, 1..255 */
  uint8_t* image;             /* out [C,H,W], 255 where no labelled splat contributes */
  void* weight;               /* out real [C,H,W] the largest sum, or 0 */
  void* transmittance;        /* out real [C,H,W] T_end of all splats */
} luxel_label_render_args;
LUXEL_API int luxel_label_render(const luxel_label_render_args* args);

/* probe: alpha of M splats at one point of the image, before the cap; 0 where the policy gives none. */
typedef struct luxel_probe_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const void* splats;         /* in  real [M,R], R of the policy */
  int32_t count;              /* M */
  int32_t policy;             /* number, see luxel_policy */
  double x;                   /* px */
  double y;                   /* px */
  void* alpha;                /* out real [M] */
} luxel_probe_args;
LUXEL_API int luxel_probe(const luxel_probe_args* args);

#ifdef __cplusplus
}
#endif
#endif /* LUXEL_ABI_RASTER_H */
