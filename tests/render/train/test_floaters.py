"""Gradients of what is near a camera, and fog that photographs with differences leave there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from toy_run import ToyRun

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Pixels, Points, View
from luxel.render.raster.pipeline import gradient_scale, project, viewing
from luxel.render.train import TrainConfig
from luxel.render.train.presets import preset
from luxel.scenes.synthetic.toy import ring_cameras, torus_knot


def veiled(view: View, random: np.random.Generator) -> View:
    """The photograph of a view with light that fell into its lens: a soft bright patch."""
    rgb = view.read().rgb.astype(np.float32)
    height, width = rgb.shape[:2]
    y, x = np.mgrid[:height, :width]
    away = (y - random.uniform(0, height)) ** 2 + (x - random.uniform(0, width)) ** 2
    patch = 0.35 * np.exp(-away / (2 * 25**2))[..., None]
    lit = (rgb * (1 - patch) + patch * random.uniform(120, 255, 3)).clip(0, 255).astype(np.uint8)
    return replace(view, read=lambda: Pixels(lit))


def test_gradients_grow_with_the_square_of_depth() -> None:
    scene, camera = torus_knot(300), ring_cameras(4, width=48, height=40)[0]
    projected = project(scene, viewing(scene, camera))
    depth = float(projected.splats[..., 3].median())
    scale = gradient_scale(projected, depth)
    seen = projected.tile_counts > 0
    expected = (projected.splats[..., 3] / depth).square().clamp_max(1)
    torch.testing.assert_close(scale[..., 0][seen], expected[seen])
    assert scale.min() < 0.9 and (scale[..., 0][~seen] == 1).all()


@pytest.mark.parametrize("batch", [1, 2])
def test_the_fused_step_is_the_step_of_autograd(toy_cutout: Any, tmp_path: Path, batch: int) -> None:
    config = toy_cutout.config(batch=batch, background="random", suppress_floaters=True)
    fused, plain, without = (
        toy_cutout.trainer(tmp_path / name, replace(config, suppress_floaters=name != "c")) for name in "abc"
    )
    plain.queue._fused = False
    for trainer in (fused, plain, without):
        trainer.timeline.extent = (
            trainer.extent * 4
        )  # the toy's cameras are farther away than what counts as near
        for _ in range(7):
            trainer.step()
        trainer.synchronize()
    torch.testing.assert_close(fused.scene.means, plain.scene.means, atol=1e-5, rtol=0)
    torch.testing.assert_close(fused.scene.sh_dc, plain.scene.sh_dc, atol=1e-4, rtol=0)
    assert (fused.scene.means - without.scene.means).abs().max() > 1e-4


def test_other_backends_are_refused() -> None:
    with pytest.raises(LuxelError, match="the gsplat backend does not support suppress_floaters"):
        TrainConfig(backend="gsplat", suppress_floaters=True).check()


@pytest.mark.slow
def test_differences_of_photographs_leave_less_fog(tmp_path: Path) -> None:
    few = {"max_gaussians": 2000, "lpips": False, "save_renders": 0, "eval_every": 0}
    scores: dict[tuple[bool, bool], float] = {}
    for lit in (False, True):
        toy, random = ToyRun(cameras=18, size=(144, 120)), np.random.default_rng(0)
        if lit:  # and a cloud of points with strays among the cameras
            toy.train = [veiled(view, random) for view in toy.train]
            around = max(float(view.camera.position.norm()) for view in toy.train)
            strays = random.uniform(-around, around, (300, 3)).astype(np.float32)
            colours = random.integers(0, 255, (300, 3)).astype(np.uint8)
            known = toy.points
            toy.points = Points(np.concatenate([known.xyz, strays]), np.concatenate([known.rgb, colours]))
        for suppressed in (False, True):
            config = replace(preset("default").with_steps(600), suppress_floaters=suppressed, **few)  # type: ignore[arg-type]
            trainer = toy.trainer(tmp_path / f"{lit}{suppressed}", config)
            scores[lit, suppressed] = trainer.run(progress=False).test_psnr or 0.0
    assert scores[True, True] > scores[True, False] + 1
    assert scores[False, True] > scores[False, False] - 0.2
