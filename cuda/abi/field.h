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
  void* hidden;               /* fwd out optional, bwd in  kept [H,N,W] h_1 .. h_H; not read on the GPU where it is not
                                 precise, I <= 32, W <= 64, H 1 or 2, O <= 16: bwd computes it anew */
  const void* g_out;          /* bwd in   real [N,O] */
  void* g_x;                  /* bwd out  real [N,I] optional */
  void* g_weights;            /* bwd out  real [P] optional */
  void* workspace;            /* luxel_mlp_fwd_workspace() or _bwd_workspace() bytes, 256-byte aligned */
  int64_t workspace_bytes;
  const int32_t* live;        /* fwd in [1] optional: rows from live[0] on need not be computed; out there is undefined */
  const void* directions;     /* fwd in  real [N,3] optional: x is [N,I-16], and what follows in a row are the harmonics of its
                                 direction, as colour_inputs has them. I even; on the GPU of sizes that bwd computes anew */
  void* first;                /* fwd out real [N] with directions: the first column of x */
} luxel_mlp_args;
LUXEL_API int64_t luxel_mlp_fwd_workspace(const luxel_mlp_args* args); /* ignores pointers */
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
LUXEL_API int64_t luxel_order_positions_workspace(const luxel_order_positions_args* args); /* ignores pointers */
LUXEL_API int luxel_order_positions(const luxel_order_positions_args* args);

/* field: encode_grid, then mlp on its features, as one stage: the work of a field in every step. Half on the GPU.
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
  const int32_t* live;        /* fwd in [1] optional, without order and kept: rows from live[0] on need not be computed;
                                 out there is undefined */
} luxel_field_args;
LUXEL_API int64_t luxel_field_fwd_workspace(const luxel_field_args* args); /* reads only which pointers are null */
LUXEL_API int64_t luxel_field_bwd_workspace(const luxel_field_args* args); /* reads offsets */
LUXEL_API int luxel_field_fwd(const luxel_field_args* args);
LUXEL_API int luxel_field_bwd(const luxel_field_args* args);

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
  const int32_t* live;        /* fwd in [1] optional: samples from live[0] on are left as they are */
} luxel_colour_inputs_args;
LUXEL_API int luxel_colour_inputs_fwd(const luxel_colour_inputs_args* args);
LUXEL_API int luxel_colour_inputs_bwd(const luxel_colour_inputs_args* args);

#define LUXEL_FIELD_STRUCTS(X) \
  X(luxel_encode_grid_args) \
  X(luxel_mlp_args) \
  X(luxel_order_positions_args) \
  X(luxel_field_args) \
  X(luxel_colour_inputs_args)

#ifdef __cplusplus
}
#endif
#endif /* LUXEL_ABI_FIELD_H */
