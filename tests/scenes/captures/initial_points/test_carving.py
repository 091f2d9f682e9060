"""Random points of cut-outs: those that no mask carves away, as if each point were looked up in each view."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from luxel.render.geometry.camera import Camera, Pixels
from luxel.scenes.captures.initial_points.carving import visible_points


def cut_outs(count: int, side: int) -> list[tuple[Camera, Pixels]]:
    """Views around the origin whose masks are discs."""
    rows, columns = np.mgrid[:side, :side] - side / 2
    alpha = ((rows**2 + columns**2 < (0.35 * side) ** 2) * 255).astype(np.uint8)
    pixels = Pixels(np.zeros((side, side, 3), np.uint8), alpha=alpha)
    eyes = [(4 * np.cos(turn), 4 * np.sin(turn), 1.0) for turn in np.linspace(0, 5, count)]
    return [(Camera.look_at(eye=eye, target=(0, 0, 0), width=side, height=side), pixels) for eye in eyes]


def looked_up(point: np.ndarray, looked: list[tuple[Camera, Pixels]]) -> tuple[int, bool]:
    """In how many views a point is, and whether it is within the mask of all of these."""
    times, inside = 0, True
    for camera, pixels in looked:
        local = camera.world_to_cam.double() @ torch.tensor([*point, 1.0], dtype=torch.float64)
        fx, fy, cx, cy = camera.intrinsics.tolist()
        if local[2] <= 0:
            continue
        column, row = float(local[0] / local[2]) * fx + cx, float(local[1] / local[2]) * fy + cy
        if 0 <= column < camera.width and 0 <= row < camera.height:
            times += 1
            assert pixels.alpha is not None
            inside &= bool(pixels.alpha[int(row), int(column)] >= 64)
    return times, inside


@pytest.mark.parametrize("carve", [True, False])
def test_points_are_kept_as_if_each_were_looked_up(carve: bool) -> None:
    looked = cut_outs(7, 96)
    points = np.random.default_rng(0).uniform(-2.5, 2.5, (600, 3))
    kept = visible_points(points, looked, carve=carve, least=4)
    expected = [
        times >= 4 and (inside or not carve) for times, inside in (looked_up(p, looked) for p in points)
    ]
    assert kept.tolist() == expected and 20 < kept.sum() < 580
