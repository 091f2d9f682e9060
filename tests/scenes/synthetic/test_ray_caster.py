"""The torch ray caster: its shapes against those of the numpy one, windows, shadows and textures."""

from __future__ import annotations

import math
from typing import cast

import numpy as np
import pytest
import torch

from luxel.render.geometry.camera import Camera
from luxel.scenes.synthetic.rays.ray_caster import TO_LIGHT, RayGrid, StaticScene, StaticSolid
from luxel.scenes.synthetic.rays.ray_shapes import (
    BOX,
    CYLINDER,
    ELLIPSOID,
    TORUS,
    divisors,
    first_hit,
    surface,
)
from luxel.scenes.synthetic.rays.ray_textures import CLOUDS, PLAIN, STRIPES, WINDOWS, Spots, Surface, Textures
from luxel.scenes.synthetic.solids.solids import Box, Cylinder, Ellipsoid, Shape, Torus

Triple = tuple[float, float, float]
SHAPES: list[tuple[int, Triple, Shape]] = [
    (BOX, (0.5, 0.8, 0.3), Box((0.5, 0.8, 0.3))),
    (ELLIPSOID, (0.5, 0.9, 0.4), Ellipsoid((0.5, 0.9, 0.4))),
    (CYLINDER, (0.6, 0.6, 0.7), Cylinder(0.6, 0.7)),
    (TORUS, (0.7, 0.7, 0.25), Torus(0.7, 0.25)),
]
GREY = Surface(PLAIN, 1.0, ((0.5, 0.5, 0.5),) * 3, 0.0, 0.0)
WHITE_SKY = Surface(CLOUDS, 20.0, ((1.0, 1.0, 1.0),) * 3, 0.0, 0.0)


@pytest.mark.parametrize(("shape", "size", "witness"), SHAPES)
@pytest.mark.parametrize("distance", [0.0, 3.0])
def test_hits_and_normals_are_those_of_the_other_caster(
    shape: int, size: Triple, witness: Shape, distance: float, device: torch.device
) -> None:
    random = np.random.default_rng(shape)
    direction = random.standard_normal((3, 4000))
    origin = distance * random.standard_normal((3, 4000)) + 0.05
    toward = -origin + random.uniform(-0.8, 0.8, (3, 4000))
    direction = toward if distance else direction
    o, d = (torch.tensor(a, dtype=torch.float32, device=device) for a in (origin, direction))
    expected = witness.hit(o.double().cpu().numpy(), d.double().cpu().numpy(), 1e-3)
    by = torch.tensor(divisors(shape, size), device=device)[:, None]
    actual = first_hit(shape, size, o / by, d / by).double().cpu().numpy()
    met = np.isfinite(actual) & np.isfinite(expected)
    assert met.sum() > 500 and (np.isfinite(actual) != np.isfinite(expected)).mean() < 2e-3
    error = np.abs(actual[met] - expected[met]) * np.linalg.norm(direction, axis=0)[met]
    assert np.quantile(error, 0.99) < 2e-4
    point = (origin + expected * direction)[:, met]
    sizes = torch.tensor(size, device=device)[:, None].expand(3, point.shape[1])
    shapes = torch.full((point.shape[1],), shape, device=device)
    normal = surface(shapes, sizes, torch.tensor(point, dtype=torch.float32, device=device))[0].cpu().numpy()
    witnessed = witness.normal(point)
    witnessed = witnessed / np.linalg.norm(witnessed, axis=0)
    assert np.quantile((normal * witnessed).sum(0), 0.01) > 0.999


def test_rays_beside_a_shape_miss_it() -> None:
    origin, direction = torch.tensor([[0.0], [0.0], [5.0]]), torch.tensor([[1.0], [0.0], [0.0]])
    for shape, size, _ in SHAPES:
        assert math.isinf(first_hit(shape, size, origin, direction).item())
    down = torch.tensor([[0.0], [0.0], [-1.0]])
    assert math.isinf(first_hit(TORUS, (0.7, 0.7, 0.25), origin, down).item())  # through its hole
    assert first_hit(CYLINDER, (0.6, 0.6, 0.5), origin, 2 * down).item() == pytest.approx(2.0)


def solids() -> list[StaticSolid]:
    half = math.sqrt(0.5)
    turned = np.array([[half, -half, 0], [half, half, 0], [0, 0, 1]])
    shapes = [
        StaticSolid(
            shape, size, (1.7 * k - 2.5, 0.4 * k, 0.2 * k), Surface(STRIPES, 0.2, GREY.colours), turned
        )
        for k, (shape, size, _) in enumerate(SHAPES)
    ]
    ground = StaticSolid(BOX, (20, 20, 0.5), (0, 0, -2), GREY)
    return [StaticSolid(ELLIPSOID, (50, 50, 50), (0, 0, 0), WHITE_SKY), ground, *shapes]


@pytest.mark.parametrize("eye", [(0, -6, 1), (5, 3, 2), (-1.5, -1.0, 0.5)])
def test_windows_leave_out_no_hit(eye: Triple, monkeypatch: pytest.MonkeyPatch) -> None:
    camera = Camera.look_at(eye, (0, 0, 0), width=60, height=40, fov_y=1.2)
    scene = StaticScene(solids(), shadow_side=128)
    small = scene.render(camera)
    assert len(small.ids.unique()) >= 4 and int(small.ids.min()) >= 0
    monkeypatch.setattr(RayGrid, "window", lambda self, corners: (slice(None), slice(None)))
    whole = StaticScene(solids(), shadow_side=128).render(camera)
    assert torch.equal(small.ids, whole.ids) and torch.equal(small.depth, whole.depth)
    assert torch.allclose(small.rgb, whole.rgb, atol=1e-6)


def test_depth_is_along_the_cameras_axis_and_nothing_is_black() -> None:
    ball = StaticSolid(ELLIPSOID, (1, 1, 1), (0, 0, 0), GREY)
    view = StaticScene([ball], shadow_side=0).render(
        Camera.look_at((0, -4, 0), (0, 0, 0), width=21, height=21)
    )
    assert view.depth[20:22, 20:22].mean().item() == pytest.approx(3.0, abs=2e-3)
    assert int(view.ids[0, 0]) == -1 and math.isinf(view.depth[0, 0].item()) and not view.rgb[0, 0].any()
    assert view.rgb[10, 10].min() > 0.1


def test_a_solid_casts_its_shadow_away_from_the_light() -> None:
    ground = StaticSolid(BOX, (20, 20, 0.5), (0, 0, -0.5), GREY)
    ball = StaticSolid(ELLIPSOID, (0.5, 0.5, 0.5), (0, 0, 3), GREY)
    sky = StaticSolid(ELLIPSOID, (50, 50, 50), (0, 0, 0), WHITE_SKY)
    foot = -3 * TO_LIGHT[:2] / TO_LIGHT[2]

    def level(at: np.ndarray, *others: StaticSolid) -> float:
        eye = (float(at[0]) + 0.1, float(at[1]), 1.5)
        camera = Camera.look_at(eye, (*at.tolist(), 0.0), width=5, height=5, fov_y=0.05)
        return StaticScene([sky, ground, *others]).render(camera).rgb.mean().item()

    lit = level(foot)
    assert level(foot, ball) < 0.7 * lit
    for beside in ((0.9, 0), (-0.9, 0), (0, 0.9), (0, -0.9)):
        assert level(foot + beside, ball) == pytest.approx(level(foot + beside), abs=1e-4)


def test_highlights_depend_on_the_direction_of_view() -> None:
    look = Surface(PLAIN, 1.0, GREY.colours, 0.4, 0.0)
    scene = StaticScene([StaticSolid(BOX, (5, 5, 1), (0, 0, -1), look)], shadow_side=0)

    def level(toward: np.ndarray) -> float:
        camera = Camera.look_at((4 * toward).tolist(), (0, 0, 0), (0, 1, 0), width=5, height=5, fov_y=0.05)
        return scene.render(camera).rgb.mean().item()

    mirrored = TO_LIGHT * (-1, -1, 1)
    assert level(mirrored) > 1.2 * level(TO_LIGHT * (1, 1, 0.6))


def test_a_batch_of_cameras_is_refused() -> None:
    camera = Camera.stack([Camera.look_at((0, -4, 0), (0, 0, 0), width=4, height=4)] * 2)
    with pytest.raises(ValueError, match=r"camera must be a single one .*got poses"):
        StaticScene(solids()).render(camera)


@pytest.mark.parametrize("pattern", range(CLOUDS + 1))
def test_detail_below_the_footprint_fades(pattern: int) -> None:
    """Neighbouring points differ sharply under small footprints and hardly under large ones."""
    random = np.random.default_rng(0)
    uv = torch.tensor(random.uniform(0.05, 0.9, (2, 3000)), dtype=torch.float32)
    count = uv.shape[1]
    colours = torch.tensor([[0.2, 0.5, 0.7], [0.7, 0.6, 0.3], [0.1, 0.9, 0.1]])[..., None].expand(3, 3, count)

    def spread(footprint: float) -> float:
        cell = 5.0 if pattern == CLOUDS else 0.05
        spots = Spots(
            torch.cat([uv, uv[:1]]),
            uv,
            torch.full((2, count), 0.5),
            torch.full((count,), footprint),
            torch.full((count,), cell),
            torch.full((count,), 3),
        )
        kinds = torch.full((count,), pattern)
        albedo = Textures(0, torch.device("cpu"))(kinds, colours, torch.full((count,), 0.3), spots)
        assert albedo.shape == (3, count) and cast(bool, ((albedo >= 0) & (albedo <= 1)).all().item())
        return albedo.std(dim=1).max().item()

    assert spread(1e-3) > 0.03
    if pattern not in (WINDOWS, CLOUDS):  # the one keeps its panes' brightness, the other is large
        assert spread(2.0) < 0.6 * spread(1e-3)
