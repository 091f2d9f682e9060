"""Captures of exact shapes: what they write, and that the distances are those of what is drawn."""

from __future__ import annotations

import math

import pytest
import torch

from luxel.scenes import open as open_capture
from luxel.scenes.synthetic.captures.shape_captures import (
    SHAPE_CAPTURES,
    distances,
    shape_cameras,
    visible_surface,
    write_shape_capture,
)
from luxel.scenes.synthetic.rays.ray_caster import StaticSolid
from luxel.scenes.synthetic.rays.ray_shapes import BOX, CYLINDER, ELLIPSOID, TORUS
from luxel.scenes.synthetic.rays.ray_textures import PLAIN, Surface
from luxel.scenes.synthetic.solids.motions import rotation

GREY = Surface(PLAIN, 1.0, ((0.5, 0.5, 0.5),) * 3)


@pytest.mark.parametrize("kind", SHAPE_CAPTURES)
def test_what_is_drawn_lies_on_the_surface(kind):
    surface = visible_surface(SHAPE_CAPTURES[kind](), shape_cameras(6, 64), spacing=0.02)
    assert len(surface.xyz) > 1000
    assert distances(SHAPE_CAPTURES[kind](), surface.xyz).abs().max() < 1e-5
    outside = distances(SHAPE_CAPTURES[kind](), surface.xyz + 1e-3 * surface.normals)
    assert (outside > 0).double().mean() > 0.99, "normals point outward"


@pytest.mark.parametrize(
    ("shape", "size", "point", "expected"),
    [
        (BOX, (1.0, 2.0, 3.0), (2.0, 3.0, 0.0), math.sqrt(2)),
        (BOX, (1.0, 2.0, 3.0), (0.5, 0.0, 0.0), -0.5),
        (ELLIPSOID, (1.0, 1.0, 1.0), (0.0, 3.0, 4.0), 4.0),
        (CYLINDER, (1.0, 1.0, 2.0), (4.0, 0.0, 6.0), 5.0),
        (TORUS, (2.0, 2.0, 0.5), (2.0, 0.0, 0.0), -0.5),
        (TORUS, (2.0, 2.0, 0.5), (0.0, 0.0, 0.0), 1.5),
    ],
)
def test_distances_are_exact(shape, size, point, expected):
    turn, at = rotation((1, 2, 3), 0.7), (0.3, -0.2, 0.1)
    solid = StaticSolid(shape, size, at, GREY, turn)
    world = torch.tensor(turn) @ torch.tensor(point, dtype=torch.float64) + torch.tensor(
        at, dtype=torch.float64
    )
    assert float(distances([solid], world[None])) == pytest.approx(expected, abs=1e-12)


def test_ellipsoids_that_are_not_balls_are_refused():
    solid = StaticSolid(ELLIPSOID, (1.0, 1.0, 2.0), (0, 0, 0), GREY)
    with pytest.raises(ValueError, match="balls"):
        distances([solid], torch.zeros(1, 3, dtype=torch.float64))


def test_the_capture_opens_with_masks_and_points_near_the_surface(tmp_path):
    write_shape_capture(tmp_path / "c", "blocks", views=9, side=48)
    capture = open_capture(tmp_path / "c")
    assert len(capture.train) + len(capture.test) == 9
    alpha = capture.train[0].read().alpha
    assert alpha is not None and 0.05 < (alpha > 127).mean() < 0.6
    assert capture.points is not None
    away = distances(SHAPE_CAPTURES["blocks"](), torch.from_numpy(capture.points.xyz).double())
    assert away.abs().median() < 0.01
    with pytest.raises(ValueError, match="kind"):
        write_shape_capture(tmp_path / "d", "cones")
