/* The C ABI of rays through neural fields: samples along them, their compositing, tracing of distances.
 *
 * Letters: R rays, S samples, V views. */
#ifndef LUXEL_ABI_RAYS_H
#define LUXEL_ABI_RAYS_H

#include "abi/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* draw_pixels: the pixels of a step of a radiance field, and their target colours.
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
  const uint8_t* images;      /* in  [pixels,channels] straight RGB or RGBA, of all images one after another */
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
  int64_t* counters;          /* out [5] samples, samples requested, rays that count, rays without room, room that was left */
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

/* render_wave: an image in waves. begin_waves takes N pixels of a camera, row by row from first_pixel on: rays that meet no
 * occupied cell are background at once, the others are listed. Then, again and again, march_wave gives every listed ray up
 * to min(most, capacity / listed) samples (as march_rays does, without jitter), a field is evaluated at them, and
 * composite_wave adds them to their rays (as composite does); it finishes rays whose transmittance is below
 * min_transmittance, or that have no sample left, and lists the rest. Counts stay on the device.
 *
 * With `part` the pixels are those of whole rows of the image, as many as part says, and rays have their numbers along tiles
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
  int32_t width;              /* of the image */
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
  int32_t* samples;           /* inout [1] samples requested, zeroed by the caller; march_wave */
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
  double tolerance;           /* a distance below this, plus `widening` times ray_t, is a hit */
  double widening;
  const int32_t* size;        /* in  [2] optional, of a camera: width and the number of rays, up to M, in their place */
  const void* pixel;          /* in  real [1] optional: `widening` is times this */
  void* ray_t;                /* begin out, step inout  real [M] distance from the origin along the ray */
  const int32_t* alive;       /* step in   [limit] rays that were evaluated */
  const int32_t* alive_count; /* step in   [1] how many of them */
  const void* distance;       /* step in   real [limit] */
  int64_t limit;              /* step      rows of the lists that are read */
  int32_t* next;              /* out       [M] rays that are alive */
  int32_t* next_count;        /* inout     [1] how many, zeroed by the caller */
  void* x;                    /* out       real [M,3] their places */
  int32_t* hits;              /* step out  [M] rays that have hit */
  int32_t* hit_count;         /* step inout [1] how many, from earlier steps */
  void* hit_x;                /* step out  real [M,3] their places */
} luxel_sphere_trace_args;
LUXEL_API int luxel_sphere_trace_begin(const luxel_sphere_trace_args* args);
LUXEL_API int luxel_sphere_trace_step(const luxel_sphere_trace_args* args);

#define LUXEL_RAYS_STRUCTS(X) \
  X(luxel_draw_pixels_args) \
  X(luxel_march_rays_args) \
  X(luxel_visible_samples_args) \
  X(luxel_composite_args) \
  X(luxel_render_wave_args) \
  X(luxel_sphere_trace_args)

#ifdef __cplusplus
}
#endif
#endif /* LUXEL_ABI_RAYS_H */
