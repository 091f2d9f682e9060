/* The C ABI of training primitives from images: losses, optimiser, the views of a step, densification.
 *
 * Letters: N primitives, C cameras, V training views, B views of a step, P parameters of a view, H W image. */
#ifndef LUXEL_ABI_TRAIN_H
#define LUXEL_ABI_TRAIN_H

#include "abi/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* photometric_loss: (1 - ssim_weight) L1 + ssim_weight (1 - SSIM) (Wang et al. 2004; 11 taps, sigma 1.5).
 *
 * Both are means over pixels and channels; with a weight, weighted means. Both images are padded with 0.
 * valid = 1 leaves out the SSIM of pixels whose window leaves the image (5 at each border; L1 includes them).
 * Where the weight is not above 0 the rendered pixel is treated as equal to the target, in its neighbours' windows
 * too, and its gradient is 0. Sums have a fixed order: the same input gives the same bits. */
typedef struct luxel_photometric_loss_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const void* rgb;            /* in  real [C,H,W,3] rendered, in [0,1] */
  const void* target;         /* in  real [C,H,W,3] in [0,1] */
  const void* weight;         /* in  real [C,H,W] optional, >= 0 */
  int32_t cameras;            /* C */
  int32_t width;
  int32_t height;
  int32_t valid;              /* 0 or 1, see above */
  double ssim_weight;         /* in [0,1] */
  void* loss;                 /* fwd out  real [1]; 0 where all weights are 0 */
  void* partials;             /* fwd out, bwd in  real [3,C,H,W,3]: weighted gradients of SSIM by the windowed means E[x], E[x^2],
                                 E[xy] of rendered x and target y; fwd: optional */
  void* scales;               /* fwd out, bwd in  real [2]: gradients of loss by the sum of |x - y| and by the sum of SSIM */
  const void* g_loss;         /* bwd in   real [1] */
  void* g_rgb;                /* bwd out  real [C,H,W,3], every element written */
  void* workspace;            /* fwd  luxel_photometric_loss_workspace() bytes, 256-byte aligned */
  int64_t workspace_bytes;
} luxel_photometric_loss_args;
LUXEL_API int64_t luxel_photometric_loss_workspace(const luxel_photometric_loss_args* args); /* only tests pointers for null */
LUXEL_API int luxel_photometric_loss_fwd(const luxel_photometric_loss_args* args);
LUXEL_API int luxel_photometric_loss_bwd(const luxel_photometric_loss_args* args);

/* adam: one step of Adam (Kingma & Ba 2015, algorithm 1) on all parameter groups, in place.
 *
 * With a visible mask, primitives whose byte is 0 are left unchanged, moments included. With a schedule the learning rates
 * and bias corrections are read on the device, so that a call captured in a CUDA graph can be replayed. */
typedef struct luxel_adam_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const int64_t* table;       /* in  [groups,7] in host memory: addresses of param, grad, exp_avg, exp_avg_sq (real [numel]),
                                 then numel, elements per primitive, index of the learning rate in the schedule */
  const double* lrs;          /* in  [groups] in host memory: learning rates; not read with a schedule */
  const uint8_t* visible;     /* in  [N] optional, 1: update the primitive; N = numel / elements per primitive in all groups */
  const void* schedule;       /* in  real [rates+2] optional: learning rates, then 1 - beta1^step and 1 - beta2^step */
  const int32_t* skip;        /* in  [1] optional: not 0 leaves everything unchanged */
  int32_t rates;              /* number of learning rates in the schedule */
  int64_t step;               /* 1 at the first call; not read with a schedule */
  int32_t groups;
  double beta1;
  double beta2;
  double eps;
} luxel_adam_args;
LUXEL_API int luxel_adam(const luxel_adam_args* args);

/* gather_view: copies images and cameras of the B views of the present training step, by a cursor in device memory, so that a
 * step captured in a CUDA graph can be replayed for one view after another.
 *
 * table [1+table_rows,28] of 32-bit numbers: row 0 starts with the cursor (int32). The row of view b is 1 + cursor + b, clamped
 * to the table: image index (int32), camera index (int32), ten floats of the optimiser's schedule, the background (3 floats),
 * the number of the step (int32), the timestamp of the view (float), eleven more of the schedule. Bytes are divided by 255;
 * rgb = background + alpha (image - background) with alphas, else the image. P: number of images, V: of cameras. */
typedef struct luxel_gather_view_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const uint8_t* images;      /* in  [P,H,W,3] straight colours */
  const uint8_t* alphas;      /* in  [P,H,W] optional; absent: opaque */
  const uint8_t* weights;     /* in  [P,H,W] optional: weights of the loss */
  const float* poses;         /* in  [V,4,4] world_to_cam */
  const float* intrinsics;    /* in  [V,4+lens] fx fy cx cy (px), then the lens (abi/raster.h) */
  int32_t lens;               /* numbers of a lens: 0 or LUXEL_LENS */
  const int32_t* table;       /* in  [1+table_rows,28] */
  int32_t table_rows;
  int32_t views;              /* B */
  int32_t width;
  int32_t height;
  float* rgb;                 /* out [B,H,W,3] in [0,1] */
  float* alpha;               /* out [B,H,W] in [0,1], with alphas only */
  float* weight;              /* out [B,H,W] in [0,1], with weights only */
  float* world_to_cam;        /* out [B,4,4] */
  float* camera;              /* out [B,4+lens] intrinsics */
  int32_t* row;               /* out [B,28] rows of the table */
} luxel_gather_view_args;
LUXEL_API int luxel_gather_view(const luxel_gather_view_args* args);

/* count_step: runs after the tile lists of a step are made, and counts the step unless they overflowed.
 *
 * On overflow status[1] is set and stays set until the caller clears it; while it is set, steps change nothing. Otherwise
 * status[0] is incremented. The cursor of the table advances by B in either case. */
typedef struct luxel_count_step_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const int32_t* overflow;    /* in    [1] from bin_splats */
  const int64_t* totals;      /* in    [2] from project_<primitive>, of all views together */
  int32_t views;              /* B */
  int32_t* table;             /* inout [1+table_rows,28] of gather_view; only the cursor is changed */
  int32_t* status;            /* inout [4] completed steps; 1 after an overflow, else 0; largest number of tile instances per
                                 view (mean over the views of a step) so far; unused */
} luxel_count_step_args;
LUXEL_API int luxel_count_step(const luxel_count_step_args* args);

/* alpha_slope: the gradient of weight * mean |alpha - target| by the transmittance 1 - alpha.
 *
 * g = scale sign(T - (1 - target)) w, with w the weight of the pixel, 1 if absent. P: pixels of all views of a step. */
typedef struct luxel_alpha_slope_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const float* transmittance; /* in  [P] */
  const float* target;        /* in  [P] alpha in [0,1] */
  const float* weight;        /* in  [P] optional */
  int64_t pixels;             /* P */
  float scale;                /* weight of the loss / P */
  float* g_transmittance;     /* out [P] */
} luxel_alpha_slope_args;
LUXEL_API int luxel_alpha_slope(const luxel_alpha_slope_args* args);

/* depth_loss: strength times the mean over the B views of the mean over pixels of known depth of
 * weight cover |d - k| / max(d, k), with cover = 1 - transmittance, d = accumulated / cover, and k the known depth.
 *
 * With fits, known depths are of unknown scale and shift of their inverse in each view, and the loss of a view is 1 less the
 * correlation of 1 / d and 1 / k, with weights weight cover^2, constants for the gradients. The mean over the pixels of a view is
 * their weighted sum divided by the sum of weights, but at least by a hundredth of all pixels, so that a few points do not outweigh
 * the image; a correlation is multiplied likewise. Pixels of cover 1e-3 and less have no part. Sums have a fixed order. */
typedef struct luxel_depth_loss_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const void* accumulated;    /* in  real [B,H,W]: sum of T alpha z */
  int64_t accumulated_stride; /* numbers from one pixel of it to the next, >= 1 */
  const void* transmittance;  /* in  real [B,H,W] */
  const void* known;          /* in  real [B,H,W] depth along z, capture units; not above 0: not known */
  const void* weight;         /* in  real [B,H,W] optional, >= 0 */
  const void* strength;       /* in  real [1] */
  int64_t pixels;             /* H W */
  int32_t views;              /* B */
  int32_t parts;              /* Q, >= 1 */
  int32_t fits;               /* 1: see above */
  double* sums;               /* out [B,Q,7] workspace */
  double* losses;             /* out [B,Q]: parts of the loss, their sum is it */
  void* fit;                  /* out real [B,2]: with scale / k + shift nearest to 1 / d (least squares); 1 and 0
                                 without fits; 0 and 0 where a view has no part */
  void* g_accumulated;        /* out real [B,H,W] gradients of the loss, every element written, as in the next */
  void* g_transmittance;      /* out real [B,H,W] */
} luxel_depth_loss_args;
LUXEL_API int luxel_depth_loss(const luxel_depth_loss_args* args);

/* langevin_noise: moves nearly transparent Gaussians at random (Kheradmand et al. 2024, 3DGS-MCMC, eq. 8).
 *
 * mean += strength * rate * gate * Sigma n, with n standard normal, Sigma = R diag(s^2) R^T and
 * gate = sigmoid(-100 (opacity - 0.005)). n is a function of seed, step and row: Philox 4x32-10 (Salmon et al. 2011). */
typedef struct luxel_langevin_noise_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  float* means;               /* inout [N,3] */
  const float* quats;         /* in    [N,4] wxyz */
  const float* log_scales;    /* in    [N,3], or [N,2] if flat */
  const float* opacity_logits; /* in   [N] */
  const float* rate;          /* in    [1] learning rate of the means */
  const int32_t* step;        /* in    [1] number of the step, for the random numbers */
  const int32_t* skip;        /* in    [1] optional: not 0 leaves everything unchanged */
  int64_t seed;
  int32_t count;              /* N */
  int32_t flat;               /* 1: surfels, which have no extent along their third axis */
  float strength;
} luxel_langevin_noise_args;
LUXEL_API int luxel_langevin_noise(const luxel_langevin_noise_args* args);

/* relocate: replaces dead Gaussians by copies of randomly drawn ones, or appends such copies; a source and its copies together
 * look as the source did (Kheradmand et al. 2024, 3DGS-MCMC, eq. 9).
 *
 * With added = 0 the rows to overwrite are those with opacity at most min_opacity or with a value that is not finite; otherwise
 * they are the new rows [N,N+added). Sources are drawn among the other rows of [0,N), with probability proportional to
 * opacity, by Philox 4x32-10 of seed, step and the overwritten row. A source and its copies get the opacity (at least
 * min_opacity) and the scales of eq. 9, and their moments become 0. If all sources have weight 0 nothing changes. */
typedef struct luxel_relocate_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  float* means;               /* inout [N+added,3]; this and the tensors below may have more rows */
  float* quats;               /* inout [N+added,4] */
  float* log_scales;          /* inout [N+added,3], or [N+added,2] if flat */
  float* opacity_logits;      /* inout [N+added] */
  float* sh_dc;               /* inout [N+added,3] */
  float* sh_rest;             /* inout [N+added,sh_stride,3] */
  float* m_means;             /* inout first moments of Adam, shapes as above */
  float* m_quats;             /* inout */
  float* m_log_scales;        /* inout */
  float* m_opacity_logits;    /* inout */
  float* m_sh_dc;             /* inout */
  float* m_sh_rest;           /* inout */
  float* v_means;             /* inout second moments of Adam, shapes as above */
  float* v_quats;             /* inout */
  float* v_log_scales;        /* inout */
  float* v_opacity_logits;    /* inout */
  float* v_sh_dc;             /* inout */
  float* v_sh_rest;           /* inout */
  int32_t* source;            /* out   [N+added] source of each row; its own index if it is no copy */
  int32_t* copies;            /* out   [N] number of copies made of each row; zeroed by the caller */
  int32_t* moved;             /* out   [1] number of copies in all; zeroed by the caller */
  int32_t count;              /* N */
  int32_t added;              /* new rows; 0 to relocate */
  int32_t sh_stride;          /* stored coefficients above degree 0 */
  int32_t flat;               /* 1: surfels, which have two scales */
  int32_t step;               /* for the random numbers, as seed */
  int64_t seed;
  float min_opacity;          /* in (0,1) */
  void* workspace;            /* luxel_relocate_workspace() bytes, 256-byte aligned */
  int64_t workspace_bytes;
} luxel_relocate_args;
LUXEL_API int64_t luxel_relocate_workspace(const luxel_relocate_args* args); /* ignores pointers */
LUXEL_API int luxel_relocate(const luxel_relocate_args* args);

/* neighbours: the k nearest other points of each point (Euclidean), nearest first, ties by the lower index.
 *
 * Excluded points (mask 0, or not finite) are nobody's neighbours and get their own index k times; rows with fewer than k
 * neighbours are filled up with the point's own index. */
typedef struct luxel_neighbours_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const void* points;         /* in  real [N,dimensions] */
  const uint8_t* mask;        /* in  [N] optional: 0 excludes a point */
  int32_t count;              /* N */
  int32_t dimensions;         /* 3 or 4 */
  int32_t k;                  /* 1..16 */
  int32_t* neighbours;        /* out [N,k] indices */
  void* workspace;            /* luxel_neighbours_workspace() bytes, 256-byte aligned */
  int64_t workspace_bytes;
} luxel_neighbours_args;
LUXEL_API int64_t luxel_neighbours_workspace(const luxel_neighbours_args* args); /* ignores pointers */
LUXEL_API int luxel_neighbours(const luxel_neighbours_args* args);

/* opacity_entropy: the mean of -o ln o over the visible rows, plus of_others times the mean over the other rows (Duan et al.
 * 2024, entropy loss).
 *
 * o = sigmoid(opacity_logit) clamped to [1e-3, 1 - 1e-3], with zero gradient where it is clamped. Rows whose logit is not
 * finite, such as spare rows, are left out. The mean of no rows is 0. */
typedef struct luxel_opacity_entropy_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const void* opacity_logits; /* in  real [N] */
  const uint8_t* visible;     /* in  [N] 1 for visible rows */
  int32_t count;              /* N */
  double of_others;           /* weight of the rows that are not visible */
  void* loss;                 /* fwd out  real [1] */
  void* shares;               /* fwd out, bwd in  real [2] weight of a visible row, 1 / their number, and of another row,
                                 of_others / their number */
  const void* g_loss;         /* bwd in   real [1] */
  void* g_opacity_logits;     /* bwd out  real [N] */
  void* workspace;            /* fwd      luxel_opacity_entropy_workspace() bytes, 8-byte aligned */
  int64_t workspace_bytes;
} luxel_opacity_entropy_args;
LUXEL_API int64_t luxel_opacity_entropy_workspace(const luxel_opacity_entropy_args* args); /* ignores pointers */
LUXEL_API int luxel_opacity_entropy_fwd(const luxel_opacity_entropy_args* args);
LUXEL_API int luxel_opacity_entropy_bwd(const luxel_opacity_entropy_args* args);

/* velocity_consistency: difference of the velocities of 4D Gaussians from those of their neighbours (Duan et al. 2024, 4D
 * consistency loss).
 *
 * The mean over visible rows of |v - mean of v over the row's neighbours|_1, with the velocity v = b / c of the covariance
 * [[A, b], [b^T, c]] of (x, y, z, t). Neighbours need not be visible, and receive a gradient too; an index out of range stands
 * for the row itself. A velocity that is not finite is taken as 0, without gradient. Sums of the gradient are exact, so that it
 * does not depend on the order of threads. */
typedef struct luxel_velocity_consistency_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const void* rotors;         /* in  real [N,8], see project_gaussians4d; on the GPU g_rotors and workspace are 16-byte aligned */
  const void* log_scales;     /* in  real [N,3] */
  const void* log_scale_t;    /* in  real [N] */
  const int32_t* neighbours;  /* in  [N,k] indices of rows */
  const uint8_t* visible;     /* in  [N] 1 for visible rows */
  int32_t count;              /* N */
  int32_t k;                  /* 1..16 */
  void* loss;                 /* fwd out  real [1] */
  void* share;                /* fwd out, bwd in  real [1] 1 / (k times the number of visible rows) */
  int64_t* pulls;             /* fwd out, bwd in  [N] gradient of the sum of distances by each velocity, times k: three integers
                                 of 21 bits in a word */
  const void* g_loss;         /* bwd in   real [1] */
  void* g_rotors;             /* bwd out  real [N,8], every row written, as in the next two */
  void* g_log_scales;         /* bwd out  real [N,3] */
  void* g_log_scale_t;        /* bwd out  real [N] */
  void* workspace;            /* fwd      luxel_velocity_consistency_workspace() bytes, 256-byte aligned */
  int64_t workspace_bytes;
} luxel_velocity_consistency_args;
LUXEL_API int64_t luxel_velocity_consistency_workspace(const luxel_velocity_consistency_args* args); /* ignores pointers */
LUXEL_API int luxel_velocity_consistency_fwd(const luxel_velocity_consistency_args* args);
LUXEL_API int luxel_velocity_consistency_bwd(const luxel_velocity_consistency_args* args);

/* view_exposure: renders as images of another exposure and white balance would show them.
 *
 * With x = image - transmittance background, y = diag(exp(parameters)) x (P = 3), or y = x + A x + (1 - transmittance) b
 * with A the first nine parameters, row by row, and b the others (P = 12), or y = cover f(x / cover) with cover = 1 -
 * transmittance and f the camera of math/camera/camera_response.h (P = 9: exposure, red - green, blue - green, three of vignetting,
 * three of the response); shown = y + transmittance background. Without transmittance it counts as 0. */
typedef struct luxel_view_exposure_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const void* image;          /* in      real [B,H,W,3] */
  const void* parameters;     /* in      real [B,P] */
  const void* transmittance;  /* in      real [B,H,W] optional */
  const void* background;     /* in      real [B,3], with transmittance */
  int32_t views;              /* B */
  int32_t width;
  int32_t height;
  int32_t width_of_view;      /* P: 3, 9 or 12 */
  int32_t parts;              /* Q, >= 1 */
  void* shown;                /* fwd out real [B,H,W,3] */
  const void* g_shown;        /* bwd in  real [B,H,W,3] */
  void* g_image;              /* bwd out real [B,H,W,3] */
  void* g_transmittance;      /* bwd out real [B,H,W] optional */
  void* g_parts;              /* bwd out real [B,Q,P]: shares of the gradient by the parameters; their sum over Q is it */
} luxel_view_exposure_args;
LUXEL_API int luxel_view_exposure_fwd(const luxel_view_exposure_args* args);
LUXEL_API int luxel_view_exposure_bwd(const luxel_view_exposure_args* args);

/* view_pose: cameras turned about their own centres by a rotation vector and moved, along the axes of the world. */
typedef struct luxel_view_pose_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const void* world_to_cam;   /* in      real [B,4,4] */
  const void* parameters;     /* in      real [B,6]: rotation vector (radians), translation / extent */
  double extent;
  int32_t views;              /* B */
  void* moved;                /* fwd out real [B,4,4] */
  const void* g_moved;        /* bwd in  real [B,4,4] */
  void* g_parameters;         /* bwd out real [B,6] */
} luxel_view_pose_args;
LUXEL_API int luxel_view_pose_fwd(const luxel_view_pose_args* args);
LUXEL_API int luxel_view_pose_bwd(const luxel_view_pose_args* args);

/* view_adam: Adam on the rows of the views of a step, then what all views share is taken out of the full table. */
typedef struct luxel_view_adam_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  float* values;              /* inout [V,P] */
  float* first;               /* inout [V,P] moments */
  float* second;              /* inout [V,P] */
  const float* common;        /* in    [V P,G] orthonormal directions optional; without: the mean over the views of each parameter */
  const float* centre;        /* in    [V,P]   optional; where the penalty is 0; without: 0 */
  const int64_t* of_step;     /* in    [B] numbers of views; the gradients of one that is there twice are added */
  const float* gradients;     /* in    [B,P] */
  const float* schedule;      /* in    [2] step size, divisor of the second moment */
  const int32_t* skip;        /* in    [1] not 0 leaves everything unchanged */
  int32_t views;              /* V */
  int32_t width;              /* P */
  int32_t directions;         /* G, at most 8 */
  int32_t views_of_step;      /* B */
  float beta1;
  float beta2;
  float eps;
  float penalty;              /* added to the gradient, times the distance of the values from the centre */
} luxel_view_adam_args;
LUXEL_API int luxel_view_adam(const luxel_view_adam_args* args);

#ifdef __cplusplus
}
#endif
#endif /* LUXEL_ABI_TRAIN_H */
