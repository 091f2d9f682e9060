"""A cube with flat faces: eight convexes hold what eight Gaussians cannot."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from luxel.render.geometry.camera import Camera, Pixels, Points, View
from luxel.render.primitives.convexes import ConvexInit, ConvexRates
from luxel.render.primitives.gaussians import GaussianRates
from luxel.render.train import Trainer
from luxel.render.train.config import Checkpoints
from luxel.render.train.densify.fixed import FixedCount
from luxel.render.train.presets import preset

COLOURS = torch.tensor([[0.9, 0.2, 0.1], [0.1, 0.6, 0.2], [0.2, 0.3, 0.9]])  # of the faces across x, y and z


def cube_view(camera: Camera, name: str, samples: int = 4) -> View:
    """The cube [-0.5, 0.5]^3 by rays, with alpha."""
    grid = (torch.arange(camera.width * samples) + 0.5) / samples
    fx, fy, cx, cy = camera.intrinsics.tolist()
    y, x = torch.meshgrid(grid, grid, indexing="ij")
    local = torch.stack([(x - cx) / fx, (y - cy) / fy, torch.ones_like(x)], -1)
    direction = local @ camera.world_to_cam[:3, :3]
    eye = camera.position
    near = (-0.5 * direction.sign() - eye) / direction
    far = (0.5 * direction.sign() - eye) / direction
    enter, axis = near.max(-1)
    hit = (enter < far.amin(-1)).float()
    colour = COLOURS[axis] * hit[..., None]

    def mean(values: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.avg_pool2d(values.permute(2, 0, 1)[None], samples)[0].permute(1, 2, 0)

    cover = mean(hit[..., None])
    straight = mean(colour) / cover.clamp_min(1e-6)
    as_bytes = [(255 * t + 0.5).to(torch.uint8).numpy() for t in (straight, cover[..., 0])]
    pixels = Pixels(as_bytes[0], as_bytes[1])
    return View(name, camera, lambda: pixels)


def views(count: int, size: int) -> list[View]:
    """All around the cube, above and below, none along an axis."""
    out = []
    for i in range(count):
        height, angle = 0.85 * np.cos(2.4 * i), 0.3 + 2.4 * i
        flat = np.sqrt(1 - height * height)
        eye = 2.4 * np.array([flat * np.cos(angle), flat * np.sin(angle), height])
        camera = Camera.look_at(eye.tolist(), (0, 0, 0), fov_y=0.75, width=size, height=size)
        out.append(cube_view(camera, f"{i:02d}"))
    return out


# On the faces, and two inside.
PLACES = 0.4 * np.concatenate([np.eye(3), -np.eye(3), np.full((1, 3), 0.25), np.full((1, 3), -0.25)])


@pytest.mark.slow
def test_eight_convexes_beat_eight_gaussians_on_a_cube(tmp_path: Path) -> None:
    cube_views = views(40, 40)
    points = Points(PLACES.astype(np.float32), np.full((8, 3), 128, np.uint8))
    psnr: dict[str, float] = {}
    for name in ("gaussians", "convexes"):
        config = preset("default", name)
        config.steps, config.sh_every, config.background = 1500, 0, "white"
        config.strategy = FixedCount(prune_opacity=0.0)
        config.init = replace(config.init, sh_degree=0, opacity=0.5, scale_factor=0.7)
        config.checkpoints, config.report_every = Checkpoints(every=0, minutes=0), 500
        config.lpips, config.save_renders = False, 0
        if name == "convexes":  # pixels are few, steps too
            config.init = ConvexInit(sh_degree=0, opacity=0.5, scale_factor=0.7, points_each=8)
            config.rates = ConvexRates(points=4e-3, opacity_logits=5e-2, log_sigma=1e-2, log_delta=1e-2)
        elif isinstance(config.rates, GaussianRates):
            config.rates.means *= 5
        trainer = Trainer(
            config, cube_views[4:], cube_views[:4], points, tmp_path / name, "cpu", say=lambda _: None
        )
        result = trainer.run(progress=False)
        assert result.evaluation is not None and result.count == 8
        psnr[name] = result.evaluation.mean.psnr
    assert psnr["convexes"] >= psnr["gaussians"] + 5, psnr
