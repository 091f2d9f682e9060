/* The C ABI of training primitives from photographs: losses, optimizer, views of a step, densification.
 *
 * Letters: N primitives, C cameras, B views of a step, H W image. */
#ifndef LUXEL_ABI_TRAIN_H
#define LUXEL_ABI_TRAIN_H

#include "abi/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* photometric_loss: (1 - ssim_weight) L1 + ssim_weight (1 - SSIM) (Wang et al. 2004; 11 taps, sigma 1.5).
 *
 * Both are means over pixels and channels; with a weight, weighted means. Outside the image both images are
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
 * is that of the first view, and those after it of the others: image (int32), view (int32), ten floats that the
 * optimiser reads, the background (3 floats), the number of the step (int32), the time of the view (float), seven more.
 * rgb = background + alpha (image - background), bytes divided by 255. */
typedef struct luxel_gather_view_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const uint8_t* images;      /* in  [P,H,W,3] straight colours */
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

/* count_step: after the lists of a step are made, decides whether the step counts.
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
  int32_t* status;            /* inout [4] steps that count, stalled, most tile instances of a view (on average
                                 over those of a step), not used */
} luxel_count_step_args;
LUXEL_API int luxel_count_step(const luxel_count_step_args* args);

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
LUXEL_API int64_t luxel_relocate_workspace(const luxel_relocate_args* args); /* ignores pointers */
LUXEL_API int luxel_relocate(const luxel_relocate_args* args);

/* neighbours: the k nearest others of each point, nearest first; of equally near ones the lower index comes first.
 *
 * Points that do not count (mask 0, or not finite) are no neighbours and get their own index k times; rows with fewer
 * than k others are filled up with it. */
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
LUXEL_API int64_t luxel_neighbours_workspace(const luxel_neighbours_args* args); /* ignores pointers */
LUXEL_API int luxel_neighbours(const luxel_neighbours_args* args);

/* opacity_entropy: the mean of -o ln o over the rows that are seen, and of_others times that over the other ones (Duan et
 * al. 2024, entropy loss).
 *
 * o = sigmoid(opacity_logit) held to [1e-3, 1 - 1e-3], beyond which there is no gradient. Rows whose logit is not finite,
 * such as spare ones, are left out. Where there is nothing to take a mean of it is 0. */
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
LUXEL_API int64_t luxel_opacity_entropy_workspace(const luxel_opacity_entropy_args* args); /* ignores pointers */
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

#define LUXEL_TRAIN_STRUCTS(X) \
  X(luxel_photometric_loss_args) \
  X(luxel_adam_args) \
  X(luxel_gather_view_args) \
  X(luxel_count_step_args) \
  X(luxel_alpha_slope_args) \
  X(luxel_langevin_noise_args) \
  X(luxel_relocate_args) \
  X(luxel_neighbours_args) \
  X(luxel_opacity_entropy_args) \
  X(luxel_velocity_consistency_args)

#ifdef __cplusplus
}
#endif
#endif /* LUXEL_ABI_TRAIN_H */
