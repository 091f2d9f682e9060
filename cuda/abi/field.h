/* The C ABI of neural fields: encodings and networks.
 *
 * Letters: N positions of D coordinates, E entries of F features, L levels, S samples. */
#ifndef LUXEL_ABI_FIELD_H
#define LUXEL_ABI_FIELD_H

#include "abi/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* encode_grid: features of positions by interpolation in grids of several resolutions (Mueller et al. 2022).
 *
 * Level l has ceil(scales[l]) + 1 points along each axis. Positions are clamped to [0,1] (with zero gradient outside), multiplied
 * by the scale and shifted by 0.5; the features at the 2^D surrounding points are interpolated D-linearly. Where all points of
 * a level fit into its entries [offsets[l], offsets[l+1]) they are stored densely, the first axis fastest; otherwise the number
 * of entries is a power of two and the index of a point is hashed, or taken modulo that number. With hashed = 2, blocks of 8
 * neighbouring points (8, 4 x 2, 2 x 2 x 2, 2 x 2 x 2 x 1 for D = 1..4) are stored densely or hashed together; a dense level
 * then has one point more along each axis, rounded up to full blocks. A position with a NaN coordinate has features 0 and no
 * gradient.
 *
 * bwd_bwd is the vjp of the part of bwd that computes g_x. On the GPU the order of the sums in g_table is not fixed. */
enum { LUXEL_GRID_LEVELS = 32 }; /* largest L */
typedef struct luxel_encode_grid_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const void* x;              /* in  real [N,D] */
  const void* table;          /* in  real [E,F]; on the GPU 16-byte aligned, as half_table and g_table */
  const void* half_table;     /* in  float16 [E,F] optional: read in place of table, GPU only */
  const int64_t* offsets;     /* in  [L+1] in host memory: first entry of each level, and E */
  const double* scales;       /* in  [L] in host memory: grid units per unit of x of each level, above 0 and exact in float32 */
  int64_t count;              /* N */
  int32_t dimensions;         /* D, 1..4 */
  int32_t levels;             /* L, 1..LUXEL_GRID_LEVELS */
  int32_t features;           /* F: 1, 2, 4, 8 */
  int32_t hashed;             /* levels that do not fit: 0 index modulo entries, 1 points hashed, 2 blocks hashed */
  void* out;                  /* fwd out  real [N,L*F] */
  const void* g_out;          /* bwd, bwd_bwd in   real [N,L*F] */
  void* g_x;                  /* bwd, bwd_bwd out  real [N,D] optional */
  void* g_table;              /* bwd, bwd_bwd inout real [E,F] optional; added to, zeroed by the caller */
  const void* gg_x;           /* bwd_bwd in   real [N,D] gradient of the loss by bwd's g_x */
  void* gg_out;               /* bwd_bwd out  real [N,L*F] optional: gradient by bwd's g_out */
} luxel_encode_grid_args;
LUXEL_API int luxel_encode_grid_fwd(const luxel_encode_grid_args* args);
LUXEL_API int luxel_encode_grid_bwd(const luxel_encode_grid_args* args);
LUXEL_API int luxel_encode_grid_bwd_bwd(const luxel_encode_grid_args* args);

/* mlp: a multilayer perceptron without biases, fused into one stage (Mueller 2021, "Tiny CUDA neural networks").
 *
 * h_0 = x, h_{l+1} = activation(W_l h_l) for l < H, out = output_activation(W_H h_H). weights [P] holds W_0 .. W_H one
 * after another, each row major [its outputs, its inputs] and unpadded: inputs I for l = 0, else W; outputs O for l = H,
 * else W. `kept` below is half on the GPU unless precise, else `real`. In half precision sums are accumulated in float, but
 * gradients between layers are rounded to half: a caller with a small g_out should scale it up (loss scaling) and divide g_x
 * and g_weights by the same factor. Sums over rows have a fixed order. */
enum { LUXEL_LINEAR = 0, LUXEL_RELU = 1, LUXEL_SOFTPLUS = 2, LUXEL_SIGMOID = 3 }; /* activations */
enum { LUXEL_MLP_WIDEST = 128, LUXEL_MLP_DEEPEST = 8 };                          /* largest I, W, O; largest H */
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
  int32_t activation;         /* of hidden layers, one of the above */
  int32_t output_activation;
  int32_t precise;            /* GPU: 1 for float throughout, 0 for half on tensor cores */
  void* out;                  /* fwd out, bwd in  real [N,O] */
  void* hidden;               /* fwd out optional, bwd in  kept [H,N,W] h_1 .. h_H; not read on the GPU if not precise and
                                 I <= 32, W <= 64, H 1 or 2, O <= 16: bwd then recomputes them */
  const void* g_out;          /* bwd in   real [N,O] */
  void* g_x;                  /* bwd out  real [N,I] optional */
  void* g_weights;            /* bwd out  real [P] optional */
  void* workspace;            /* luxel_mlp_fwd_workspace() or _bwd_workspace() bytes, 256-byte aligned */
  int64_t workspace_bytes;
  const int32_t* live;        /* fwd in [1] optional: number of rows to compute; out of the rows after them is undefined */
  const void* directions;     /* fwd in  real [N,3] unit, optional: x is then [N,I-16], and the other 16 inputs of a row are the
                                 spherical harmonics of its direction, as in colour_inputs. I even; on the GPU only for sizes
                                 that bwd recomputes */
  void* first;                /* fwd out real [N], only with directions: the first column of x */
} luxel_mlp_args;
LUXEL_API int64_t luxel_mlp_fwd_workspace(const luxel_mlp_args* args); /* ignores pointers */
LUXEL_API int64_t luxel_mlp_bwd_workspace(const luxel_mlp_args* args); /* likewise */
LUXEL_API int luxel_mlp_fwd(const luxel_mlp_args* args);
LUXEL_API int luxel_mlp_bwd(const luxel_mlp_args* args);

/* order_positions: sorts positions along a Hilbert curve of 2^20 cells through the unit box, so that neighbours in the list are
 * neighbours in space. Positions are clamped to [0, 1]; those with a NaN are put into the last cell. Positions of one cell retain
 * their order. */
typedef struct luxel_order_positions_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const void* x;              /* in  real [N,D] */
  int64_t count;              /* N, below 2^30 */
  int32_t dimensions;         /* D, 2 or 3 */
  int32_t* order;             /* out [N] indices into x */
  void* sorted;               /* out real [N,D]: x[order] */
  void* workspace;            /* luxel_order_positions_workspace() bytes, 256-byte aligned */
  int64_t workspace_bytes;
} luxel_order_positions_args;
LUXEL_API int64_t luxel_order_positions_workspace(const luxel_order_positions_args* args); /* ignores pointers */
LUXEL_API int luxel_order_positions(const luxel_order_positions_args* args);

/* field: encode_grid followed by mlp, fused into one stage. Half precision on the GPU.
 *
 * The GPU supports D of 2 and 3, F of 2, 4 and 8, L F up to 32, W up to 64, H of 1 and 2, O up to 16. Its bwd recomputes the
 * hidden layers, and `kept` holds the features in pairs, half [L F / 2,N,2]; on the CPU `kept` holds features and hidden layers,
 * real [N,L F] and then [H,N,W]. Sums over rows for g_weights are the same from run to run on one device. The order of the sums
 * in g_table is not fixed on the GPU. With `order`, which should put neighbours in space next to each other, gradients of many
 * rows are first added in fixed point, with 22 bits below the largest gradient of those rows. */
typedef struct luxel_field_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const void* x;              /* in  real [N,D] */
  const void* table;          /* in  real [E,F]; on the GPU 16-byte aligned, as half_table and g_table */
  const void* half_table;     /* in  float16 [E,F] optional: read in place of table, GPU only */
  const int64_t* offsets;     /* in  [L+1] in host memory, as for encode_grid */
  const double* scales;       /* in  [L] in host memory, likewise */
  const void* weights;        /* in  real [P], as for mlp with L F inputs */
  int64_t count;              /* N */
  int32_t dimensions;         /* D */
  int32_t levels;             /* L */
  int32_t features;           /* F */
  int32_t hashed;             /* levels that do not fit: 0 index modulo entries, 1 points hashed, 2 blocks hashed */
  int32_t width;              /* W */
  int32_t hidden_layers;      /* H */
  int32_t outputs;            /* O */
  int32_t activation;         /* of hidden layers */
  int32_t output_activation;
  const int32_t* order;       /* in  [N] optional: row i of x and of kept belongs to row order[i] of out and g_out */
  void* out;                  /* fwd out, bwd in  real [N,O] */
  void* kept;                 /* fwd out optional, bwd in  half or real, see above */
  const void* g_out;          /* bwd in   real [N,O] */
  void* g_table;              /* bwd inout real [E,F] optional; added to, zeroed by the caller */
  void* g_weights;            /* bwd out  real [P] optional */
  void* workspace;            /* luxel_field_fwd_workspace() or _bwd_workspace() bytes, 256-byte aligned */
  int64_t workspace_bytes;
  const int32_t* live;        /* fwd in [1] optional, only without order and kept: number of rows to compute; out of the
                                 rows after them is undefined */
} luxel_field_args;
LUXEL_API int64_t luxel_field_fwd_workspace(const luxel_field_args* args); /* of pointers only whether they are null */
LUXEL_API int64_t luxel_field_bwd_workspace(const luxel_field_args* args); /* reads offsets */
LUXEL_API int luxel_field_fwd(const luxel_field_args* args);
LUXEL_API int luxel_field_bwd(const luxel_field_args* args);

/* colour_inputs: the inputs of a radiance field's colour network, which are the features of a sample followed by the 16
 * spherical harmonics (degrees 0 to 3) of its direction. The first feature is the sample's density before its activation. */
typedef struct luxel_colour_inputs_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const void* features;       /* fwd in   real [S,F]; on the GPU 16-byte aligned, as inputs and their gradients */
  const void* directions;     /* fwd in   real [S,3] unit */
  int64_t count;              /* S */
  int32_t width;              /* F, a multiple of 4 */
  void* inputs;               /* fwd out  real [S,F+16] */
  void* density;              /* fwd out  real [S] the first feature */
  const void* g_inputs;       /* bwd in   real [S,F+16] */
  const void* g_density;      /* bwd in   real [S] optional */
  void* g_features;           /* bwd out  real [S,F] */
  const int32_t* live;        /* fwd in [1] optional: number of samples to compute; outputs after them are not written */
} luxel_colour_inputs_args;
LUXEL_API int luxel_colour_inputs_fwd(const luxel_colour_inputs_args* args);
LUXEL_API int luxel_colour_inputs_bwd(const luxel_colour_inputs_args* args);

#ifdef __cplusplus
}
#endif
#endif /* LUXEL_ABI_FIELD_H */
