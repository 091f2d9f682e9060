/* The C ABI of rays through neural fields: samples along rays, compositing, sphere tracing.
 *
 * Letters: R rays, S samples, V views. Depths t are distances along the ray, in world units except in sphere_trace. */
#ifndef LUXEL_ABI_RAYS_H
#define LUXEL_ABI_RAYS_H

#include "abi/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* draw_pixels: the random training pixels of one step of a radiance field, and their target colours.
 *
 * Row r < live is pixel numbers[r] mod M, or candidates[numbers[r] mod M] if candidates are given; rows from live on get pixel
 * -1 and colours 0. A pixel of four channels is composited onto its background, which is a fixed colour or, if absent, a random
 * one per row: Philox 4x32-10 (Salmon et al. 2011) of numbers[r]. */
typedef struct luxel_draw_pixels_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const int64_t* numbers;     /* in  [R] random, >= 0 */
  const int64_t* candidates;  /* in  [M] optional: indices of the pixels to draw from; absent: all pixels */
  const uint8_t* images;      /* in  [pixels,channels] straight RGB or RGBA, all images one after another */
  const float* background;    /* in  [3] in [0,1], optional */
  const int32_t* live;        /* in  [1] optional: number of rows in use; absent: all R */
  int64_t pool;               /* M: number of candidates, or of all pixels without candidates */
  int32_t count;              /* R */
  int32_t channels;           /* 3 or 4 */
  int64_t* pixels;            /* out [R] index over all images, -1 for unused rows */
  float* targets;             /* out [R,3] in [0,1] */
  float* backgrounds;         /* out [R,3] in [0,1] */
} luxel_draw_pixels_args;
LUXEL_API int luxel_draw_pixels(const luxel_draw_pixels_args* args);

/* march_rays: samples along rays through the occupied cells of a box.
 *
 * A ray is given by origin and unit direction, or passes through the centre (column + 0.5, row + 0.5) of a view's pixel. It is
 * clipped to the box and to [near,far], and sampled at t_k = begin + (k + jitter) step while t_k < end, k < LUXEL_MARCH_MAX,
 * wherever the cell is occupied. Jitter is 0.5 without a seed, else in (0,1): Philox 4x32-10 of seed and row. The samples of a
 * ray are contiguous; the order of the rays among the samples is not fixed on the GPU. Rows beyond the last sample are 0. A ray
 * whose samples do not fit into the capacity gets none.
 *
 * With `cascades` of K > 1 rays are clipped to the outermost of K boxes around the same centre, each twice as large as the one
 * before; a point's cell is one of the smallest box that holds it (Mueller et al. 2022, appendix E). With `growth` g > 0 steps
 * are max(step, g t) long: t_k has the arc coordinate u(begin) + k + jitter, where u(t) = t / step up to t = step / g, and
 * (1 + log(t g / step)) / g beyond. */
enum { LUXEL_MARCH_MAX = 16384 }; /* most steps along a ray */
typedef struct luxel_march_rays_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const void* origins;        /* in  real [R,3] optional; absent: rays of pixels, from the four below directions */
  const void* directions;     /* in  real [R,3] unit, with origins */
  const int64_t* pixels;      /* in  [R] index over the pixels of all views; negative: no ray */
  const int64_t* views;       /* in  [V,2] index of the first pixel, width */
  const void* world_to_cam;   /* in  real [V,4,4] row major */
  const void* intrinsics;     /* in  real [V,4] fx fy cx cy (px) */
  const uint64_t* occupancy;  /* in  [(G/4)^3] optional: a word per block of 4^3 cells, a bit per cell, both x fastest, then
                                 y; absent: all cells are occupied */
  const int64_t* seed;        /* in  [1] optional: of the jitter */
  int32_t* live;              /* inout [1] optional: number of rays in use, absent: all R; see target */
  int32_t count;              /* R */
  int32_t view_count;         /* V */
  int32_t resolution;         /* G cells along an axis, a multiple of 4, up to 1024 */
  int32_t capacity;           /* S */
  int32_t target;             /* above 0: samples per step to aim for. live becomes the number of rays that would have had
                                 so many, changed by at most a factor of 2 and clamped to [1,R] */
  int32_t cascades;           /* K boxes, 0 as 1; above 1 G is a multiple of 16, and occupancy is [K,(G/4)^3] */
  int32_t contracted;         /* 1: positions are (2 + c(2 p - 1)) / 4, p relative to the box, c the contraction of Barron et al.
                                 2022, "Mip-NeRF 360", equation 10, by the largest coordinate */
  double growth;              /* g, of steps with the distance; 0: even steps */
  double low_x;               /* corners of the (innermost) box, in world units as all below */
  double low_y;
  double low_z;
  double high_x;
  double high_y;
  double high_z;
  double step;                /* distance of samples along the ray */
  double near_t;              /* distances along the ray */
  double far_t;
  void* positions;            /* out real [S,3] relative to the (outermost) box, which is [0,1]^3, or contracted */
  void* sample_directions;    /* out real [S,3] optional: direction of the sample's ray */
  void* t;                    /* out real [S] distance along the ray */
  void* dt;                   /* out real [S] the step */
  int32_t* ranges;            /* out [R,2] first sample and number of samples of each ray */
  int64_t* counters;          /* out [5] samples written, samples that all rays have, rays in use, rays that did not fit,
                                 capacity left unused where some did not fit */
} luxel_march_rays_args;
LUXEL_API int luxel_march_rays(const luxel_march_rays_args* args);

/* visible_samples: compacts the samples of march_rays to those that contribute to their pixel.
 *
 * With optical depths tau and transmittances T as in composite, the samples of a ray before the first with T below
 * min_transmittance are retained; if min_alpha is above 0, only those of them with 1 - exp(-tau) >= min_alpha. Order and
 * capacity are handled as in march_rays. Counters have the same meaning, for the retained samples; rays that did not fit are those
 * of both stages. M: capacity of march_rays. */
typedef struct luxel_visible_samples_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const void* density;        /* in  real [M] before the activation, density_stride elements apart */
  const void* raw_positions;  /* in  real [M,3] output of march_rays, as all raw_ tensors */
  const void* raw_directions; /* in  real [M,3] */
  const void* raw_t;          /* in  real [M] */
  const void* raw_dt;         /* in  real [M] */
  const int32_t* raw_ranges;  /* in  [R,2] */
  const int64_t* raw_counters; /* in [5] */
  int64_t density_stride;
  int32_t* live;              /* inout [1] optional: number of rays in use in the next step; see target and raw_target */
  int32_t count;              /* R */
  int32_t capacity;           /* S */
  int32_t target;             /* above 0: retained samples per step to aim for. live becomes the number of rays that would have
                                 had so many, changed by at most a factor of 2 and clamped to [1,R] */
  int32_t raw_target;         /* above 0, with target: live is also limited to the rays that would have had so many raw
                                 samples */
  double scale;               /* see composite */
  double min_transmittance;
  double min_alpha;
  uint8_t* kept;              /* workspace [M], only with min_alpha above 0 */
  void* positions;            /* out real [S,3] */
  void* sample_directions;    /* out real [S,3] */
  void* t;                    /* out real [S] */
  void* dt;                   /* out real [S] */
  int32_t* ranges;            /* out [R,2] first sample and number of samples of each ray */
  int64_t* counters;          /* out [5] as in march_rays */
} luxel_visible_samples_args;
LUXEL_API int luxel_visible_samples(const luxel_visible_samples_args* args);

/* composite: volume rendering of rays from their samples (Max 1995; Mildenhall et al. 2020, "NeRF", equation 3).
 *
 * With optical depth tau_i = scale exp(density_i) dt_i, density clamped to [-15,15], and transmittance T_i = exp(-sum of tau_j
 * over j < i), the weight is w_i = T_i (1 - exp(-tau_i)), or 0 once T_i is below min_transmittance. rgb = sum of w_i
 * sigmoid(colour_i) + T background and depth = sum of w_i t_i, with T the transmittance behind the last weighted sample.
 * `distortion` is the loss of Barron et al. 2022, "Mip-NeRF 360", equation 15, in linear time by running sums. In the gradient by
 * a colour the slope of the sigmoid is at least 1/1024 where a step against the gradient brings the colour nearer to 1/2. */
typedef struct luxel_composite_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const void* density;        /* in  real [S] before the activation */
  const void* colour;         /* in  real [S,3] before the activation */
  const void* dt;             /* in  real [S] */
  const void* t;              /* in  real [S] */
  const int32_t* ranges;      /* in  [R,2] see march_rays */
  const void* background;     /* in  real [R,3] */
  int32_t count;              /* R */
  int32_t samples;            /* S */
  double scale;               /* factor of all optical depths */
  double min_transmittance;   /* in [0,1] */
  void* rgb;                  /* fwd out, bwd in  real [R,3] */
  void* transmittance;        /* fwd out, bwd in  real [R] */
  void* depth;                /* fwd out, bwd in  real [R] */
  const int64_t* counters;    /* bwd in   [5] see march_rays; samples from counters[0] on belong to no ray */
  const void* g_rgb;          /* bwd in   real [R,3] */
  const void* g_transmittance; /* bwd in  real [R] optional */
  const void* g_depth;        /* bwd in   real [R] optional */
  void* g_density;            /* bwd out  real [S], every row written, as in g_colour */
  void* g_colour;             /* bwd out  real [S,3] */
  double step;                /* as in march_rays, as growth: of the arc coordinate u in the distortion */
  double growth;
  double unit;                /* of u, so that s = u / unit and the width of a sample is 1 / unit */
  void* distortion;           /* fwd out real [R] optional: sum over i, j of w_i w_j |s_i - s_j| + sum of w_i^2 / (3 unit) */
  void* moments;              /* fwd out, bwd in real [R,2] with distortion: sums of w_i and w_i (s_i - s_first) */
  const void* g_distortion;   /* bwd in  real [R] optional; then also distortion and moments are read */
} luxel_composite_args;
LUXEL_API int luxel_composite_fwd(const luxel_composite_args* args);
LUXEL_API int luxel_composite_bwd(const luxel_composite_args* args);

/* render_wave: renders an image in waves. begin_waves starts the rays of N pixels of a camera, row by row from first_pixel on:
 * rays that meet no occupied cell get the background at once, the others are put on a list. Then three steps repeat until the
 * list is empty: march_wave gives every listed ray up to min(most, capacity / listed) samples (as march_rays, without jitter),
 * the caller evaluates a field at them, and composite_wave adds them to their rays (as composite). It finishes rays whose
 * transmittance is below min_transmittance or that have no sample left, and lists the others (the active rays). Counts stay on
 * the device.
 *
 * With `part` the pixels form full rows of the image, and rays are numbered along tiles of 8 x 8 pixels (smaller at the right
 * and the lower edge), so that neighbours in the list are neighbours in space; rgb, transmittance and depth are in row order
 * all the same. */
enum { LUXEL_WAVE_STATE = 8 }; /* numbers that a ray stores between waves */
typedef struct luxel_render_wave_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const void* world_to_cam;   /* in  real [4,4] row major; not read by composite_wave, as the next two */
  const void* intrinsics;     /* in  real [4] fx fy cx cy (px) */
  const uint64_t* occupancy;  /* in  optional, as in march_rays */
  int32_t width;              /* px, of the image */
  int32_t first_pixel;
  int32_t count;              /* N; for march_wave and composite_wave an upper bound of listed */
  int32_t resolution;         /* G, as in march_rays */
  int32_t capacity;           /* S */
  int32_t most;               /* most samples of a ray in a wave */
  int32_t per_ray;            /* above 0: a wave has at most min(S, max(fewest, per_ray * listed)) samples; march_wave only, as
                                 the next */
  int32_t fewest;
  int32_t cascades;           /* as in march_rays, as the next two */
  int32_t contracted;
  double growth;
  const int32_t* part;        /* in  [3] optional: width, first_pixel and number of pixels (up to N), read instead of the fields */
  double low_x;               /* corners of the box, in world units */
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
  const int32_t* listed;      /* in    [1] length of the list; not read by begin_waves, as the next */
  const int32_t* list;        /* in    [listed] indices of the active rays */
  int32_t* next_listed;       /* inout [1] length of the next list, zeroed by the caller; begin_waves and composite_wave */
  int32_t* next_list;         /* out   [N] */
  void* state;                /* inout real [N,8] rgb, optical depth, depth, step index of the next sample (-1: finished), two
                                       unused */
  int32_t* samples;           /* inout [1] samples of the wave, zeroed by the caller; march_wave */
  void* positions;            /* out   real [S,3] of march_wave, relative to the box */
  void* sample_directions;    /* out   real [S,3] optional, of march_wave */
  void* t;                    /* out   real [S] of march_wave, in of composite_wave */
  int32_t* ranges;            /* out   [listed,2] of march_wave, in of composite_wave: first sample and number of samples of
                                       each entry of the list */
  const void* density;        /* in    real [S] before the activation; composite_wave, as all below */
  const void* colour;         /* in    real [S,3] before the activation */
  const void* values;         /* in    real [S,4] optional, 16-byte aligned, read instead of density and colour: both after the
                                       activation, clamped to >= 0 and to [0, 1] */
  void* rgb;                  /* out   real [N,3], also of begin_waves, as the next two */
  void* transmittance;        /* out   real [N] */
  void* depth;                /* out   real [N] sum of weights times t */
} luxel_render_wave_args;
LUXEL_API int luxel_begin_waves(const luxel_render_wave_args* args);
LUXEL_API int luxel_march_wave(const luxel_render_wave_args* args);
LUXEL_API int luxel_composite_wave(const luxel_render_wave_args* args);

/* sphere_trace: intersects rays with the zero level set of a signed distance field in the unit box (Hart 1996), one wave of
 * field evaluations at a time.
 *
 * begin moves every ray to the box and on as far as a coarse grid of distances allows; rays that come near the surface are
 * active, each with a position x at which the caller evaluates the field. step reads these distances: a ray that is near enough
 * is a hit, the others advance, and those still in the box are active again. A NaN distance ends the ray. The order of lists is
 * not fixed. Rays are given, or pass through the pixel centres of a camera, row by row. All lengths are in units of the box. */
typedef struct luxel_sphere_trace_args {
  int32_t dtype;
  int32_t device;
  void* stream;
  const void* rays;           /* in  real [M,6] optional: origin and unit direction; absent: rays of a camera */
  const void* cam_to_unit;    /* in  real [3,4] without rays: camera to unit box, a scaled rotation and a translation */
  const void* intrinsics;     /* in  real [4] without rays: fx, fy, cx, cy (px) */
  int32_t width;              /* px, of the image, without rays */
  int64_t count;              /* M */
  const void* grid;           /* in  real [R,R,R] lower bound of the distance at the centre of cell [x,y,z] */
  int32_t resolution;         /* R, up to 1024 */
  double tolerance;           /* a distance below tolerance + widening * ray_t is a hit */
  double widening;
  const int32_t* size;        /* in  [2] optional: width and number of rays (up to M) of a camera, read instead of the fields */
  const void* pixel;          /* in  real [1] optional: factor of `widening` */
  void* ray_t;                /* begin out, step inout  real [M] distance from the origin along the ray */
  const int32_t* alive;       /* step in   [limit] indices of the active rays */
  const int32_t* alive_count; /* step in   [1] number of active rays */
  const void* distance;       /* step in   real [limit] the field at the active rays' positions */
  int64_t limit;              /* step      most rows of the lists to read */
  int32_t* next;              /* out       [M] indices of the rays that are active after the call */
  int32_t* next_count;        /* inout     [1] their number, zeroed by the caller */
  void* x;                    /* out       real [M,3] their positions */
  int32_t* hits;              /* step out  [M] indices of the rays that have hit, appended */
  int32_t* hit_count;         /* step inout [1] their number, earlier steps included */
  void* hit_x;                /* step out  real [M,3] their positions */
} luxel_sphere_trace_args;
LUXEL_API int luxel_sphere_trace_begin(const luxel_sphere_trace_args* args);
LUXEL_API int luxel_sphere_trace_step(const luxel_sphere_trace_args* args);

#ifdef __cplusplus
}
#endif
#endif /* LUXEL_ABI_RAYS_H */
