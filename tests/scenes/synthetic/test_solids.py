"""The ray caster of solids against analytic geometry: distances, areas, normals, motions, textures."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from luxel.render.geometry.camera import Camera
from luxel.scenes.synthetic.example_scenes import FLOOR, dynamic_scene, static_scene
from luxel.scenes.synthetic.solids.motions import Bounce, Breathe, Orbit, Spin, Still, Swing, Visit
from luxel.scenes.synthetic.solids.solid_scene import Solid, SolidScene, Texture
from luxel.scenes.synthetic.solids.solids import (
    Box,
    Capsule,
    Cylinder,
    Ellipsoid,
    RoundedBox,
    Shape,
    Torus,
    sphere,
)

PLAIN = Texture(0, 0.3)
BUFFERS = ("rgb", "alpha", "depth", "normals", "ids", "velocity")


def implicit(shape: Shape, p: np.ndarray) -> np.ndarray:
    """A function of points [3, R] that is negative inside of the shape: written apart from the shapes."""
    x, y, z = p
    match shape:
        case Ellipsoid((a, b, c)):
            return (x / a) ** 2 + (y / b) ** 2 + (z / c) ** 2 - 1
        case Box((a, b, c)):
            return np.maximum.reduce([abs(x) - a, abs(y) - b, abs(z) - c])
        case Cylinder(r, h):
            return np.maximum(np.hypot(x, y) - r, abs(z) - h)
        case Torus(ring, tube):
            return (x**2 + y**2 + z**2 + ring**2 - tube**2) ** 2 - 4 * ring**2 * (x**2 + y**2)
        case Capsule(r, h):
            return np.linalg.norm([x, y, np.maximum(abs(z) - h, 0)], axis=0) - r
        case RoundedBox((a, b, c), r):
            beyond = np.stack([abs(x) - a + r, abs(y) - b + r, abs(z) - c + r])
            return (
                np.where(
                    beyond.max(axis=0) > 0, np.linalg.norm(np.maximum(beyond, 0), axis=0), beyond.max(axis=0)
                )
                - r
            )
    raise AssertionError(shape)


SHAPES = [
    sphere(0.7),
    Ellipsoid((0.3, 0.5, 0.9)),
    Box((0.4, 0.7, 0.2)),
    Cylinder(0.6, 0.35),
    Torus(0.6, 0.22),
    Capsule(0.25, 0.5),
    RoundedBox((0.6, 0.3, 0.45), 0.1),
]


def rays(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Origins on a sphere of 3 and directions of any length to points within 0.9 of the centre, [3, R]."""
    random = np.random.default_rng(seed)
    origin = random.standard_normal((3, count))
    origin *= 3 / np.linalg.norm(origin, axis=0)
    return origin, (random.uniform(-0.9, 0.9, (3, count)) - origin) * random.uniform(0.3, 2, count)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: type(s).__name__)
def test_rays_hit_the_first_surface(shape: Shape) -> None:
    origin, direction = rays(1500)
    t = shape.hit(origin, direction, 1e-3)
    met = np.isfinite(t)
    assert 0.1 < met.mean() < 0.95
    point = origin[:, met] + t[met] * direction[:, met]
    assert np.abs(implicit(shape, point)).max() < 1e-8
    assert np.linalg.norm(point, axis=0).max() <= shape.bound + 1e-9
    # Every ray, marched in 3,000 steps: nothing is met before, and rays that miss are never clearly inside.
    end = np.where(met, t, 20 / np.linalg.norm(direction, axis=0)) * (1 - 1e-6)
    for share in np.linspace(0, 1, 3000):
        inside = implicit(shape, origin + share * end * direction)
        assert inside.min() > -2e-6

    normal = shape.normal(point)
    normal /= np.linalg.norm(normal, axis=0)
    slope = np.stack(
        [
            implicit(shape, point + 1e-6 * axis[:, None]) - implicit(shape, point - 1e-6 * axis[:, None])
            for axis in np.eye(3)
        ]
    )
    agree = (normal * slope).sum(axis=0) / np.linalg.norm(slope, axis=0)
    assert np.quantile(agree, 0.01) > 1 - 1e-5  # an edge of a box within 1e-6 has no slope
    assert ((normal * direction[:, met]).sum(axis=0) < 1e-9).all()


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: type(s).__name__)
def test_rays_from_inside_hit_the_far_side(shape: Shape) -> None:
    direction = rays(300)[1]
    origin = np.array([[shape.ring if isinstance(shape, Torus) else 0.0], [0.0], [0.0]])
    t = shape.hit(origin, direction, 0.0)
    assert np.isfinite(t).all()
    assert np.abs(implicit(shape, origin + t * direction)).max() < 1e-8


def ahead(width: int = 64, height: int = 48, *, distance: float = 4.0, fov_y: float = 0.5) -> Camera:
    """A camera on the negative y axis that looks at the origin."""
    return Camera.look_at((0, -distance, 0), (0, 0, 0), fov_y=fov_y, width=width, height=height)


def one(shape: Shape, motion=Still((0, 0, 0)), **more: float) -> SolidScene:  # noqa: B008
    return SolidScene([Solid("it", shape, PLAIN, motion, **more)])


def test_sphere_on_the_axis() -> None:
    view = one(sphere(0.5)).render(ahead(65, 49))
    assert view.depth[24, 32] == pytest.approx(3.5, abs=1e-6)
    assert view.normals[24, 32] == pytest.approx([0, -1, 0], abs=1e-6)
    assert view.ids[24, 32] == 1 and view.alpha[24, 32] == 1
    outside = (
        view.ids[0, 0],
        view.alpha[0, 0],
        view.depth[0, 0],
        *view.rgb[0, 0],
    )
    assert outside == (0,) * 6 and not view.normals[0, 0].any()
    assert [getattr(view, n).dtype for n in BUFFERS] == ["f4", "f4", "f4", "f4", "u1", "f4"]


def test_depth_is_along_the_axis_and_normals_face_the_camera() -> None:
    """The plane ahead, a side of a box, has one depth however far from the centre of the image."""
    camera = ahead()
    view = one(Box((0.6, 0.25, 0.5))).render(camera)
    front = np.abs(view.normals[..., 1] + 1) < 1e-6
    assert front.sum() > 500 and view.depth[front] == pytest.approx(3.75, abs=1e-6)
    moved = Camera.look_at((2, -3, 1.5), (0.1, 0, 0), fov_y=0.6, width=80, height=60)
    view = dynamic_scene(3).render(moved, 0.5)
    seen = view.ids > 0
    fx, fy, cx, cy = moved.intrinsics.double().tolist()
    rows, columns = np.mgrid[:60, :80] + 0.5
    ray = np.stack([(columns - cx) / fx, (rows - cy) / fy, np.ones_like(rows)], -1)
    ray = ray @ moved.world_to_cam[:3, :3].double().numpy()
    assert np.abs(np.linalg.norm(view.normals[seen], axis=-1) - 1).max() < 1e-6
    assert ((view.normals * ray).sum(-1)[seen] < 0).all()


@pytest.mark.parametrize("samples", [1, 2, 4])
def test_alpha_is_the_area_of_the_disc(samples: int) -> None:
    """A sphere on the axis is a disc of radius f r / sqrt(d^2 - r^2). Measured: 0.20 %, 0.12 % and 0.004 % off."""
    camera = ahead(160, 120)
    alpha = one(sphere(0.5)).render(camera, samples=samples).alpha
    radius = float(camera.intrinsics[0]) * 0.5 / math.sqrt(4**2 - 0.5**2)
    assert alpha.sum() == pytest.approx(math.pi * radius**2, rel=0.003 / math.sqrt(samples))
    levels = np.unique(alpha)
    assert levels.min() == 0 and levels.max() == 1 and len(levels) == (2 if samples == 1 else len(levels))
    rows, columns = np.mgrid[:120, :160] + 0.5
    away = np.hypot(columns - 80, rows - 60)
    mixed = (alpha > 0) & (alpha < 1)
    assert mixed.any() == (samples > 1) and (np.abs(away - radius)[mixed] < 0.75).all()
    assert (alpha[away < radius - 0.75] == 1).all() and not alpha[away > radius + 0.75].any()


def test_occlusion() -> None:
    near = Solid("near", sphere(0.3), PLAIN, Still((0, -0.5, 0)))
    far = Solid("far", Box((0.6, 0.1, 0.6)), PLAIN, Still((0, 0.5, 0)))
    for solids in ([near, far], [far, near]):
        view = SolidScene(solids).render(ahead(65, 49))
        assert solids[int(view.ids[24, 32]) - 1] is near and solids[int(view.ids[24, 43]) - 1] is far
    clipped = replace(ahead(65, 49), near=3.9)
    view = SolidScene([near, far]).render(clipped)
    assert view.ids[24, 32] == 2 and view.depth[24, 32] == pytest.approx(4.4, abs=1e-6)
    assert not SolidScene([near, far]).render(replace(clipped, far=4.0)).ids.any()


def test_cameras_inside_the_scene() -> None:
    """Bounding spheres around or behind the camera must not cut windows; the platform fills the lower half."""
    inside = Camera.look_at((0.45, 0, FLOOR + 0.1), (3, 0, FLOOR + 0.1), fov_y=1.5, width=40, height=40)
    scene = SolidScene([Solid("ground", Cylinder(50, 0.1), PLAIN, Still((0, 0, FLOOR - 0.1)))])
    ids = scene.render(inside).ids
    assert ids[23:].all() and not ids[:20].any()
    assert one(sphere(2.0)).render(ahead(distance=1.0)).ids.all()
    behind = one(sphere(0.5), Still((0, -8, 0))).render(ahead())
    assert not behind.ids.any()


def projected(camera: Camera, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Column, row and depth of points [P, 3]."""
    matrix = camera.world_to_cam.double().numpy()
    x, y, z = matrix[:3, :3] @ points.T + matrix[:3, 3:]
    fx, fy, cx, cy = camera.intrinsics.double().tolist()
    return fx * x / z + cx, fy * y / z + cy, z


def unprojected(camera: Camera, depth: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """World points [P, 3] of the pixels in a mask."""
    rows, columns = np.nonzero(mask)
    fx, fy, cx, cy = camera.intrinsics.double().tolist()
    local = np.stack([(columns + 0.5 - cx) / fx, (rows + 0.5 - cy) / fy, np.ones(len(rows))])
    matrix = np.linalg.inv(camera.world_to_cam.double().numpy())
    return (matrix[:3, :3] @ (local * depth[mask]) + matrix[:3, 3:]).T


MOTIONS = {
    "spin": Spin((0.1, 0, 0.2), (1, 2, 3), 1.3, tilt=0.4),
    "orbit": Orbit((0, 0, 0.1), 0.5, 1.0, (1, 0, 1), 0.7, 0.3),
    "bounce": Bounce((0.1, 0.1, -0.6), 0.3, 0.5, 2.0, spins=0.5),
    "swing": Swing((0, 0, 0.8), 0.8, (0, 1, 0), 0.5, 1.5),
    "breathe": Breathe((0, 0, 0), (0.3, 0.2, 0.1), 1.0, 0.5),
    "visit": Visit((0, 0.1, 0), 0.1, 0.9, 0.3, turns=1.0),
}


@pytest.mark.parametrize("name", MOTIONS)
def test_solids_follow_their_motion(name: str) -> None:
    motion, camera = MOTIONS[name], ahead(128, 96, fov_y=0.7)
    scene = one(Ellipsoid((0.3, 0.3, 0.3)), motion)
    for time in (0.25, 0.4, 0.63, 0.75):
        view = scene.render(camera, time)
        matrix = motion(time)
        points = unprojected(camera, view.depth, view.ids == 1)
        own = (points - matrix[:3, 3]) @ np.linalg.inv(matrix[:3, :3]).T
        assert len(points) > 50 and np.abs(np.linalg.norm(own, axis=1) - 0.3).max() < 1e-5
        column, row, _ = projected(camera, matrix[None, :3, 3])
        assert view.ids[int(row[0]), int(column[0])] == 1
        rigid = np.allclose(matrix[:3, :3].T @ matrix[:3, :3], np.eye(3), atol=1e-12)
        assert rigid == (name in ("spin", "orbit", "swing")) or name in ("bounce", "visit")


def test_velocities_are_those_of_the_motion() -> None:
    camera = ahead(96, 72, fov_y=0.8)
    orbit = one(sphere(0.3), Orbit((0, 0, 0), 0.6, 0.5, phase=1.0)).render(camera, 0.3)
    angle = 2 * math.pi * 0.5 * 0.3 + 1.0
    expected = 2 * math.pi * 0.5 * 0.6 * np.array([-math.sin(angle), math.cos(angle), 0])
    assert np.abs(orbit.velocity[orbit.ids > 0] - expected).max() < 1e-4
    assert not orbit.velocity[orbit.ids == 0].any()
    spin = one(sphere(0.3), Spin((0, 0, 0), (0, 0, 1), 1.0)).render(camera, 1.0)
    seen = spin.ids > 0
    points = unprojected(camera, spin.depth, seen)
    expected = 2 * math.pi * np.stack([-points[:, 1], points[:, 0], 0 * points[:, 2]], -1)
    assert np.abs(spin.velocity[seen] - expected).max() < 1e-3


def test_transported_points_agree_with_another_view() -> None:
    """From view A at one time to view B at another: the same solid, the same depth, the same place of its texture.

    Colours are compared as shares of their sum, which Lambert's light leaves alone.
    """
    scene = dynamic_scene(1)
    scene = SolidScene([replace(solid, gloss=0.0) for solid in scene.solids])
    here = Camera.look_at((2.5, -2.5, 2.0), (0, 0, 0), fov_y=0.69, width=300, height=300)
    there = Camera.look_at((3.1, -1.6, 2.2), (0, 0, 0), fov_y=0.69, width=300, height=300)
    time, to = 0.42, 0.55
    a, b = scene.render(here, time), scene.render(there, to)
    seen = (a.ids > 0) & (a.alpha == 1)
    ids = a.ids[seen]
    points = unprojected(here, a.depth, seen)
    assert np.abs(scene.transport(points, ids, time, time) - points).max() < 1e-12
    moved = scene.transport(points, ids, time, to)
    assert np.abs(scene.transport(moved, ids, to, time) - points).max() < 1e-12
    assert np.linalg.norm(moved - points, axis=1)[ids > 1].min() > 0.005
    assert np.array_equal(moved[ids == 1], points[ids == 1])
    column, row, z = projected(there, moved)
    i, j = row.astype(int), column.astype(int)
    gap = z - b.depth[i, j]
    assert (
        gap[b.ids[i, j] == ids].min() > -0.08
    )  # nothing is behind what it lies on, but for the slope in a pixel
    visible = (np.abs(gap) < 0.01) & (b.alpha[i, j] == 1)
    assert visible.mean() > 0.5
    assert (b.ids[i, j] == ids)[visible].mean() > 0.999
    assert set(ids[visible]) == set(range(1, 10))
    shares = [rgb / rgb.sum(axis=-1, keepdims=True) for rgb in (a.rgb[seen][visible], b.rgb[i, j][visible])]
    off = np.abs(shares[0] - shares[1]).max(axis=-1)
    strangers = np.abs(shares[0] - np.roll(shares[1], 5000, axis=0)).max(axis=-1)
    assert np.median(off) < 0.006 and np.quantile(off, 0.95) < 0.05 < np.median(strangers)


@pytest.mark.parametrize("seed", range(4))
def test_textures_do_not_repeat(seed: int) -> None:
    """Of a plane of 6 x 6 units no shift beyond the longest wave finds the pattern again."""
    size, extent = 256, 6.0
    grid = (np.arange(size) - size / 2) * extent / size
    x, y = np.meshgrid(grid, grid)
    texture = Texture(seed, 0.1)
    for plane in ((x, y, 0 * x), (0 * x + 0.1, x, y)):
        colour = texture(np.stack([p.ravel() for p in plane]))
        assert colour.shape == (size * size, 3) and colour.min() >= 0 and colour.max() <= 1
        grey = colour.mean(axis=1).reshape(size, size).astype(float)
        grey -= grey.mean()
        assert grey.std() > 0.05
        pad = np.zeros((2 * size, 2 * size))
        pad[:size, :size] = grey
        raw = np.fft.irfft2(np.abs(np.fft.rfft2(pad)) ** 2, pad.shape)
        lag = np.minimum(np.arange(2 * size), 2 * size - np.arange(2 * size))
        overlap = np.outer(size - lag, size - lag) / size**2
        far = np.hypot(*np.meshgrid(lag, lag)) * extent / size > texture.coarsest
        correlation = raw[far & (overlap > 0.2)] / raw[0, 0] / overlap[far & (overlap > 0.2)]
        assert correlation.max() < 0.5


def test_textures_depend_on_the_seed_only() -> None:
    points = np.random.default_rng(0).uniform(-0.5, 0.5, (3, 200))
    assert np.array_equal(Texture(1, 0.2)(points), Texture(1, 0.2)(points))
    assert np.abs(Texture(1, 0.2)(points) - Texture(2, 0.2)(points)).mean() > 0.05
    grey = Texture(1, 0.2, vivid=0.0).colours
    assert np.ptp(grey, axis=1).max() < 1e-6


def test_images_depend_on_the_seed_only() -> None:
    camera = ahead(96, 72, fov_y=0.7)
    for build in (dynamic_scene, static_scene):
        first, again, other = (build(seed).render(camera, 0.3) for seed in (5, 5, 6))
        for name in BUFFERS:
            assert getattr(first, name).tobytes() == getattr(again, name).tobytes()
        assert first.rgb.tobytes() != other.rgb.tobytes()


@pytest.mark.parametrize("seed", range(6))
def test_solids_of_the_dynamic_scene_do_not_touch(seed: int) -> None:
    scene = dynamic_scene(seed)
    for time in np.linspace(0, 1, 61):
        placed = [(s, p, s.bounding_radius(p[0])) for s in scene.solids[1:] if (p := s.pose(float(time)))]
        for (one_, a, r), (other, b, q) in itertools.combinations(placed, 2):
            assert np.linalg.norm(a[1] - b[1]) > r + q, (one_.name, other.name, time)
        for solid, (_, place), reach in placed:
            low = solid.shape.bound if solid.name == "slab" else reach
            assert np.hypot(*place[:2]) < 1.3 and np.linalg.norm(place) + reach < 1.36
            if solid.name not in ("ball", "slab"):
                assert place[2] - low > FLOOR - 0.03, (solid.name, time)
        ball = scene.solids[1].motion(float(time))
        assert ball[2, 3] - 0.2 * np.linalg.norm(ball[2, :3]) > FLOOR - 1e-9
    moving = [s.name for s in scene.solids if not np.allclose(s.motion(0.4), s.motion(0.43))]
    assert moving == ["ball", "box", "torus", "capsule", "egg", "visitor", "pebble", "slab"]


def test_pace_slows_the_scene() -> None:
    camera = ahead(96, 72, fov_y=0.7)
    whole, part = dynamic_scene(3), dynamic_scene(3, pace=0.4)
    assert whole.render(camera, 0.2).rgb.tobytes() == part.render(camera, 0.5).rgb.tobytes()
    assert whole.render(camera, 0.5).rgb.tobytes() != part.render(camera, 0.5).rgb.tobytes()
    for pace in (0.0, -1.0, 1.5):
        with pytest.raises(ValueError, match="pace"):
            dynamic_scene(pace=pace)


def test_visitor_is_present_for_its_interval() -> None:
    scene, camera = dynamic_scene(0), Camera.look_at((1, -1, 4), (0, 0, 0), width=80, height=80)
    number = 1 + [solid.name for solid in scene.solids].index("visitor")
    shown = {
        t: bool((scene.render(camera, t).ids == number).any()) for t in (0.0, 0.24, 0.35, 0.6, 0.81, 1.0)
    }
    assert shown == {0.0: False, 0.24: False, 0.35: True, 0.6: True, 0.81: False, 1.0: False}
    assert np.isnan(scene.transport(np.zeros((1, 3)), np.array([number]), 0.1, 0.5)).all()


@pytest.mark.parametrize("seed", range(4))
def test_solids_of_the_static_scene_do_not_touch(seed: int) -> None:
    scene = static_scene(seed, 12)
    assert len(scene.solids) == 13 and len({solid.name for solid in scene.solids}) == 13
    points, ids = scene.sample_points(6000)
    assert set(ids) == set(range(1, 14))
    for number, solid in enumerate(scene.solids, 1):
        linear, place = solid.pose(0.0) or pytest.fail("absent")
        own = np.linalg.inv(linear) @ (points.xyz[ids != number].T - place[:, None])
        assert implicit(solid.shape, own).min() > -1e-6
        if number > 1:
            assert abs(points.xyz[ids == number, 2].min() - FLOOR) < 0.15
    assert np.array_equal(scene.render(ahead(), 0.0).rgb, scene.render(ahead(), 1.0).rgb)


def test_sampled_points_are_uniform_on_surfaces() -> None:
    scene = dynamic_scene(2)
    points, ids = scene.sample_points(3000, 0.5, seed=1)
    assert points.xyz.shape == (3000, 3) and points.rgb.dtype == np.uint8 and set(ids) == set(range(1, 10))
    for number, solid in enumerate(scene.solids, 1):
        linear, place = solid.pose(0.5) or pytest.fail("absent")
        own = np.linalg.inv(linear) @ (points.xyz[ids == number].T.astype(float) - place[:, None])
        assert np.abs(implicit(solid.shape, own)).max() < 1e-5
        assert np.abs(points.rgb[ids == number] / 255 - solid.texture(own)).max() < 0.01
    ball, _ = one(sphere(0.5), Still((1, 2, 3))).sample_points(20000)
    local = (ball.xyz - [1, 2, 3]) / 0.5
    assert np.abs(local.mean(axis=0)).max() < 0.02 and (local**2).mean(axis=0) == pytest.approx(
        1 / 3, abs=0.01
    )
    assert len(SolidScene([]).sample_points(10)[0].xyz) == 0


def test_invalid_arguments_are_refused() -> None:
    scene = one(sphere(0.5))
    for time in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match=r"in \[0, 1\]"):
            scene.render(ahead(), time)
        with pytest.raises(ValueError, match=r"in \[0, 1\]"):
            scene.sample_points(5, time)
    with pytest.raises(ValueError, match=r"camera must be a single one .*got poses"):
        scene.render(Camera.stack([ahead(), ahead()]))
    with pytest.raises(ValueError, match="samples"):
        scene.render(ahead(), samples=0)
    with pytest.raises(ValueError, match="solids must be at most 255, got 256"):
        SolidScene(scene.solids * 256)
    with pytest.raises(ValueError, match="0 to 16"):
        static_scene(0, 17)
