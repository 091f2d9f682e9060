"""Convexes look the same in images of another size once their smoothness is rescaled."""

from __future__ import annotations

import math

import numpy as np
import torch

from luxel.render.geometry.camera import Camera, Points
from luxel.render.primitives import PRIMITIVES
from luxel.render.primitives.convexes import Convexes
from luxel.render.raster.rasterize import rasterize


def test_the_look_stays_when_images_are_halved() -> None:
    points = Points(np.zeros((1, 3), np.float32), np.full((1, 3), 255, np.uint8))
    scene = Convexes.from_points(points, points_each=8, sigma=0.05, sh_degree=0, opacity=0.9)
    scene.points.mul_(0.5)
    scene.log_delta.fill_(math.log(2e-3))

    def alpha(side: int) -> torch.Tensor:
        camera = Camera.look_at((0, -3, 0), (0, 0, 0), width=side, height=side, fov_y=math.radians(45))
        return rasterize(scene, camera).alpha

    full = alpha(128)
    halved = torch.nn.functional.avg_pool2d(full[None, None], 2)[0, 0]
    without = float((alpha(64) - halved).abs().max())
    rescale = PRIMITIVES["convexes"].engine.on_resolution_change
    assert rescale is not None
    rescale(scene, 0.5)
    rescaled = float((alpha(64) - halved).abs().max())
    assert rescaled < 0.05 < 0.2 < without
    rescale(scene, 2.0)
    torch.testing.assert_close(alpha(128), full, rtol=0, atol=1e-5)
