"""Solids of known distance: the distance, what is carved, and images with exact depth and coverage."""

from __future__ import annotations

import math

import pytest
import torch

from luxel.render.geometry.camera import Camera
from luxel.scenes.synthetic.captures.exact_solid import exact_solid_cameras, make_exact_solid
from luxel.scenes.synthetic.rays.distance_solid import DistanceSolid
from luxel.scenes.synthetic.rays.ray_caster import StaticSolid
from luxel.scenes.synthetic.rays.ray_shapes import BOX, CYLINDER, ELLIPSOID, TORUS
from luxel.scenes.synthetic.rays.ray_textures import PLAIN, Surface
from luxel.scenes.synthetic.solids.motions import rotation

GREY = Surface(PLAIN, 1.0, ((0.5, 0.5, 0.5),) * 3, 0.0, 0.0)


@pytest.mark.parametrize(
    ("shape", "size", "point", "expected"),
    [
        (BOX, (0.1, 0.2, 0.3), (0.4, 0.6, 0.0), 0.5),
        (BOX, (0.1, 0.2, 0.3), (0.05, 0.0, 0.0), -0.05),
        (ELLIPSOID, (0.1, 0.1, 0.1), (0.0, 0.3, 0.4), 0.4),
        (CYLINDER, (0.1, 0.1, 0.2), (0.4, 0.0, 0.6), 0.5),
        (TORUS, (0.4, 0.4, 0.1), (0.4, 0.0, 0.0), -0.1),
    ],
)
def test_distances_are_exact_and_rounding_grows_them(
    shape: int, size: tuple[float, float, float], point: tuple[float, float, float], expected: float
) -> None:
    turn, at = rotation((1, 2, 3), 0.7), (0.03, -0.02, 0.01)
    world = torch.tensor(turn @ point + at, dtype=torch.float32)[None]
    solid = DistanceSolid([StaticSolid(shape, size, at, GREY, turn)], rounding=0.02)
    assert float(solid.distances(world)) == pytest.approx(expected - 0.02, abs=1e-6)
    assert solid.distances(world[:0]).shape == (0,)


def test_what_is_carved_is_empty_and_textures_need_balls() -> None:
    ball = StaticSolid(ELLIPSOID, (0.5, 0.5, 0.5), (0, 0, 0), GREY)
    tunnel = StaticSolid(CYLINDER, (0.2, 0.2, 2.0), (0, 0, 0), GREY)
    solid = DistanceSolid([ball], [tunnel])
    points = torch.tensor([[0.0, 0.0, 0.0], [0.35, 0.0, 0.0], [0.0, 0.0, 0.7]])
    assert solid.distances(points).tolist() == pytest.approx([0.2, -0.15, 0.2], abs=1e-6)
    stretched = StaticSolid(ELLIPSOID, (0.5, 0.5, 0.6), (0, 0, 0), GREY)
    with pytest.raises(ValueError, match="not balls"):
        DistanceSolid([ball], [stretched])


def test_a_ball_has_the_depth_and_the_coverage_of_a_ball(device: torch.device) -> None:
    radius, away, side = 0.6, 3.0, 96
    camera = Camera.look_at([0, -away, 0], [0, 0, 0], (0.0, 0.0, 1.0), fov_y=0.6, width=side, height=side)
    solid = DistanceSolid([StaticSolid(ELLIPSOID, (radius,) * 3, (0, 0, 0), GREY)], device=device)
    image, depth = solid.render(camera, samples=2)
    assert image.shape == (side, side, 4) and depth.shape == (2 * side, 2 * side)
    focal = float(camera.intrinsics[0])
    disc = math.pi * (focal * radius / math.sqrt(away**2 - radius**2)) ** 2  # its outline is a circle
    assert float(image[..., 3].sum()) == pytest.approx(disc, rel=2e-3)
    assert float(depth[side, side]) == pytest.approx(away - radius, abs=2e-4)
    assert bool((image[..., 3] == 1).any()) and bool((depth[0] == math.inf).all())


def test_tracing_tiles_first_and_views_together_changes_nothing() -> None:
    solid, cameras = make_exact_solid(3), exact_solid_cameras(3, 21, seed=3)
    origins = torch.stack([camera.position for camera in cameras])
    rays = torch.cat([solid._rays(camera, 42, 42)[0] for camera in cameras])
    alone, tiled = solid._march(origins, rays, None, 0.0), solid._trace(cameras, 2, origins, rays)
    assert bool((alone.isfinite() == tiled.isfinite()).all()) and bool(tiled.isfinite().any())
    hit = tiled.isfinite()
    assert float((alone[hit] - tiled[hit]).abs().max()) < 2e-4
    image, depth = solid.render(cameras[1])
    assert torch.allclose(image, list(solid.images(cameras))[1][0], atol=1e-3)
    assert torch.equal(depth.isfinite().flatten(), tiled.view(3, -1)[1].isfinite())


def test_normals_point_away_from_the_solid() -> None:
    solid = DistanceSolid([StaticSolid(ELLIPSOID, (0.5,) * 3, (0, 0, 0), GREY)])
    points = torch.nn.functional.normalize(torch.randn(20, 3, generator=torch.Generator().manual_seed(0)))
    assert float((solid.normals(0.5 * points) - points).abs().max()) < 1e-3
