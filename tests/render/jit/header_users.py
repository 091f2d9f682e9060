"""What a source that includes one header of cuda/math does with it: the body of a function template of the number type T,
given numbers ``p``. It calls what only compiles where the header itself includes what it needs."""

from __future__ import annotations

_POLICY = """
  static_assert(policy_detail::check_bounds<{type}<T>, T>());
  static_assert(check_gpu_policy<{type}<float>>());
#if !defined(__CUDACC__)
  static_assert(check_cpu_policy<{type}<T>, T>());
#endif
  p[0] = {type}<T>::Bounds::of(p).left();
"""
_CAMERA = "const auto pinhole = load_pinhole(p, p + 16, 64, 48, 0.1f, 10.0f);"
_LENS = "LensCamera<T> lens; static_cast<Pinhole<T>&>(lens) = load_pinhole(p, p + 16, 64, 48, 0.1f, 10.0f); load_lens(lens, p + 20);"

USERS = {
    "hd.h": "p[0] = sigmoid(log_of(p[1])) + log1p_of(p[1]) + expm1_of(p[2]) + cos_of(p[3]) * sin_of(p[3]) + inverse_root(p[4])"
    " + T(power_of(p[5], 2)) + machine_epsilon<T>() + smallest_normal<T>() + exp2_of(log2_of(p[6])) + fused(p[1], p[2], p[3]);"
    " const int64_t wide = int64_t(1) << 40; const uint8_t narrow = 255; p[1] = T(wide) + T(narrow);",
    "vec.h": "T length; const Vec3<T> a = load3(p); store3(p, normalized(cross(a, load3(p + 3)), length));"
    " p[4] = difference_of_products(p[0], p[1], p[2], p[3]);",
    "quat.h": "Quat<T> unit; T norm; const Mat3<T> m = quat_to_matrix(p, unit, norm); p[0] = quat_to_matrix_vjp(unit, norm, m).w;",
    "philox.h": "const Vec3<float> normal = normal3(philox({{1u, 2u, 3u, 4u}}, 5u, 6u)); p[0] = T(normal.x + normal.y + normal.z);",
    "camera/camera.h": f"{_CAMERA} PoseGradient<T> g = {{}}; g.add_point(load3(p), load3(p + 3)); p[0] = g.translation.x + pinhole.fx;",
    "camera/lens.h": f"{_LENS} T least = T(0); const auto image = image_through(lens, load3(p), T(0.1));"
    " p[0] = image_through_vjp(lens, load3(p), image, p[1], p[2], least).x + depth_of_vjp(lens, load3(p), p[3]).y;"
    " p[1] = T(in_range(lens, load3(p)));",
    "camera/shutter.h": "RollingLens<T> a = {}; RollingPinhole<T> b = {}; load_shutter(a, p); load_shutter(b, p); Vec3<T> at = load3(p);"
    " PoseGradient<T> g = {}; p[0] = T(roll(a, at)) + T(roll(b, at)); p[1] = roll_vjp(a, at, at, g).x + roll_vjp(b, at, at, g).x;",
    "camera/camera_response.h": "const auto camera = camera_response(p); double sums[kCamera] = {};"
    " p[0] = photograph_value(camera, 1, camera.falloff(p[9]), p[10]).value + photograph_value_vjp(camera, 2, p[9], p[8], p[7], p[6], sums).slope;",
    "field/composite.h": "const Vec3<T> colour = sample_colour(p); const T depth = optical_depth(p[3], p[4]), w = sample_weight(p[5], depth);"
    " colour_vjp(colour, w, load3(p), p); p[0] = density_vjp(p[3], depth, p[5], sample_value(colour, p[6], colour, p[7]), p[8]);",
    "field/grid.h": "const GridLevel level = grid_level(15.5, 0, 4096, 3, kGridHashedBlocks);"
    " const auto load = [p](uint32_t entry, T* to) { to[0] = p[entry % 8]; to[1] = T(entry); }; T value[2], gg[2], g_x[3] = {};"
    " grid_value<T, 3, 2>(level, p, load, value); grid_vjp_x<T, 3, 2>(level, p, load, value, g_x);"
    " grid_vjp_x_vjp<T, 3, 2>(level, p, load, p, value, gg, g_x);"
    " grid_vjp_table<T, 3>(level, p, [p](uint32_t entry, T factor) { p[entry % 8] += factor; }); p[0] = gg[0] + g_x[0];",
    "field/hilbert.h": "p[0] = T(hilbert_key<T, 2>(p)) + T(hilbert_key<T, 3>(p));",
    "field/march.h": "MarchRay<T> march; Cells cells = {}; cells.resolution = 64; const Box3<T> box = {load3(p), load3(p + 3)};"
    " const auto ray = pixel_ray(p, p + 16, p[0], p[1]); if (enter_box(ray, box, p[0], p[1], Steps<T>{p[2], p[3]}, 2, p[4], march))"
    " p[0] = T(occupied_place(march, cells, 0, 9)) + field_position(march.point(p[1]), 2, true).x;",
    "field/mlp.h": "for (int kind = kLinear; kind <= kSigmoid; ++kind) p[0] += activate_vjp(kind, activate(kind, p[1]));",
    "field/trace.h": "T enter = T(0), leave = T(9); const auto ray = pixel_ray(p, p + 12, int64_t(7), 5);"
    " p[0] = T(clip_to_box(ray, enter, leave)) + T(stride(ray, p, 8, leave, enter));",
    "mesh/distance.h": "const TriangleTree<T> tree = {}; const int64_t slot = nearest_triangle(tree, load3(p));"
    " p[0] = T(inside_by_parity(tree, load3(p))) + T(inside_by_pseudonormal(tree, slot, 0, load3(p)));",
    "mesh/ray_tracing.h": "const TriangleTree<T> tree = {}; p[0] = first_hits(tree, prepare_rays(tree, load3(p), load3(p + 3)), p[6], p[7]).t;",
    "raster/policies.h": "constexpr int kPolicies = 0\n#define LUXEL_ONE(name, type, header) +1\nLUXEL_POLICIES(LUXEL_ONE)\n#undef LUXEL_ONE\n;"
    " static_assert(kPolicies >= 3); p[0] = T(kPolicies);",
    "raster/policy.h": "struct Box { using Number = T; Number x; LUXEL_HD T top() const { return x; } LUXEL_HD T bottom() const { return x; }"
    " LUXEL_HD bool band(T y0, T, T& left, T& right) const { left = y0; right = x; return true; } };"
    " for_tile_rows(Box{p[0]}, 4, 3, 0, 3, [p](int row, int, int) { p[1] += T(row) + T(kMinAlpha + kMinTransmittance); });",
    "raster/policy_check.h": "static_assert(policy_detail::Same<policy_detail::Plain<const T&>, T>::value && !policy_detail::gives<int, policy_detail::RowWidth, Vec3<T>>); p[0] = T(0);",
    "raster/gaussian.h": f"{_CAMERA} {_LENS} GaussianProjection<T> q; Splat<T> splat; GaussianGradient<T> g = {{}};"
    " const ProjectionOptions<T> options = {T(0.3), true};"
    " if (project_gaussian(pinhole, options, load3(p), p, load3(p), p[0], q, splat) && project_gaussian(lens, options, load3(p), p, load3(p), p[0], q, splat)) {"
    " project_gaussian_vjp(pinhole, options, load3(p), q, splat, splat, p[1], q.axes, g);"
    " project_gaussian_vjp(lens, options, load3(p), q, splat, splat, p[1], q.axes, g); p[0] = splat.x + g.mean.x; }",
    "raster/gaussian4d.h": f"{_CAMERA} Gaussian4dProjection<T> q; Splat<T> splat; const ProjectionOptions<T> options = {{T(0.3), true}};"
    " if (project_gaussian4d(pinhole, options, p[0], p, p[1], p, p[2], p, p[3], q, splat)) p[0] = splat.x + shortest_axis(rotation_of_space(rotor_to_quats(p))).x;",
    "raster/convex.h": f"{_CAMERA} ConvexProjection<T> q; ConvexExtent<T> extent; const ConvexShape<T> shape = {{p[0], p[1], p[2], p[3]}};"
    " ConvexGradient<T> g = {}; if (project_convex(pinhole, p, 6, shape, q) && convex_extent(pinhole, q, extent))"
    " project_convex_vjp(pinhole, p, q, p[0], p[1], p[2], p[3], p, g, [](int, Vec3<T>) {});",
    "raster/convex_bounds.h": "const auto bounds = ConvexBounds<T>::of(p); T left, right; p[0] = T(bounds.band(p[1], p[2], left, right)) + bounds.left();",
    "raster/surfel.h": f"{_CAMERA} SurfelProjection<T> q; SurfelSplat<T> s; SurfelGradient<T> g = {{}}; T sign;"
    " if (project_surfel(pinhole, load3(p), p, p, p[0], q, s)) { project_surfel_vjp(pinhole, load3(p), q, s, s, p[1], load3(p), g);"
    " p[0] = surfel_normal(q, load3(p), load3(p), sign).x; }",
    "raster/sh.h": "T basis[16]; sh_basis(3, load3(p), basis); p[0] = sh_basis_vjp(3, load3(p), basis).x;",
    "train/adam.h": "const AdamConstants<T> c(1e-3, 0.9, 0.999, 1e-8, 7); adam_update(AdamConstants<T>::decays(0.9, 0.999, 1e-8).at(p[0], p[1], p[2]), p[3], p[4], p[5], p[6]);"
    " adam_update(c, p[3], p[4], p[5], p[6]);",
    "train/depth_loss.h": "double sums[kDepthSums] = {}; add_depth(p[0], p[1], p[2], p[3], true, sums); const auto fit = depth_fit<T>(sums, 9, 1, true);"
    " correlation_vjp(fit, p[0], p[1], p[2], p[3], p[4], p[5]); depth_difference_vjp(p[0], p[1], p[2], p[3], p[4], p[5]); p[0] = depth_difference(p[0], p[1], p[2]);",
    "train/entropy.h": "p[0] = opacity_entropy(p[1]) + opacity_entropy_vjp(p[1]);",
    "train/relocation.h": "float shared, factor; share_appearance(float(p[0]), 3, shared, factor); p[0] = T(shared + factor);",
    "train/ssim.h": "const SsimMoments<T> m = {p[0], p[1], p[2], p[3]}; p[4] = ssim(m) + ssim_vjp(m, p[0], p[1], p[2], p[3]) + T(ssim_tap(2));",
    "train/velocity4d.h": "Velocity4d<T> v; if (velocity4d(p, load3(p), p[0], v)) p[0] = velocity4d_vjp(v, load3(p), p + 3).w;",
    "simd.h": "p[0] = sum_lanes<T>(exp2_of(log2_of(load_vector(p)))); store_vector(p, lane_numbers<T>());",
}
for _name, _type in (("gaussian", "GaussianPolicy"), ("convex", "ConvexPolicy"), ("surfel", "SurfelPolicy")):
    USERS[f"raster/{_name}_policy.h"] = _POLICY.format(type=_type)

CPU_ONLY = frozenset({"simd.h"})  # vectors of the processor
OWN_POLICY = frozenset(name for name, body in USERS.items() if "check_gpu_policy" in body)


def source(header: str, function: str = "", entry: str = "") -> str:
    """A source that includes one header, and uses it with float and with double.

    Args:
        header: its path below math.
        function, entry: attributes of the template, and of the function that the compiler must generate.
    """
    check = '#include "math/raster/policy_check.h"\n' if header in OWN_POLICY else ""
    return (
        f'#include "math/{header}"\n{check}namespace luxel {{\n'
        f"template <typename T> {function} void use(T* p) {{\n{USERS[header]}\n}}\n"
        f'}}\nextern "C" {entry} void run(float* a, double* b) {{\n  luxel::use(a);\n  luxel::use(b);\n}}\n'
    )
