"""Photographs of less sharpness: their weights, and what these do to a scene."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from toy_run import ToyRun

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Pixels, View
from luxel.render.train.presets import preset
from luxel.render.train.views.sharpness import LEAST, SHARP, sharpness_weights
from luxel.scenes.captures.checks.blur import with_sharpness

LENGTH = 6  # pixels that a photograph moved to either side while it was exposed


def shaken(view: View, random: np.random.Generator) -> View:
    """The photograph of a view with motion blur."""
    angle, kernel = random.uniform(0, np.pi), np.zeros((2 * LENGTH + 1,) * 2, np.float32)
    for t in np.linspace(-LENGTH, LENGTH, 8 * LENGTH):
        kernel[round(LENGTH + t * np.sin(angle)), round(LENGTH + t * np.cos(angle))] += 1
    rgb = cv2.filter2D(view.read().rgb, -1, kernel / kernel.sum(), borderType=cv2.BORDER_REPLICATE)
    return replace(view, read=lambda: Pixels(rgb))


def test_weights_follow_sharpness(toy: Any) -> None:
    values = (None, 1.3, SHARP, SHARP / 2, 0.0)
    views = [replace(view, sharpness=value) for view, value in zip(toy.train, values, strict=False)]
    torch.testing.assert_close(sharpness_weights(views), torch.tensor([1.0, 1.0, 1.0, 0.25, LEAST]))


def test_without_measured_sharpness_there_are_no_weights(toy: Any, tmp_path: Path) -> None:
    with pytest.raises(LuxelError, match="downweight_blur needs the sharpness of the images"):
        toy.trainer(tmp_path / "run", toy.config(downweight_blur=True))


def test_blurred_photographs_are_found() -> None:
    toy, random = ToyRun(cameras=24, size=(144, 120)), np.random.default_rng(0)
    views = [shaken(view, random) if i % 5 == 0 else view for i, view in enumerate(toy.train)]
    weights = sharpness_weights(with_sharpness(views))
    assert weights[::5].max() < 0.3 and sum(weights < 1) == len(weights[::5])
    assert sharpness_weights(with_sharpness(toy.train)).min() == 1


@pytest.mark.slow
def test_blurred_photographs_soften_the_scene_less(tmp_path: Path) -> None:
    toy, random = ToyRun(cameras=36, size=(144, 120)), np.random.default_rng(0)
    clean, scores = with_sharpness(toy.train), {}
    blurred = with_sharpness([shaken(v, random) if i % 3 == 0 else v for i, v in enumerate(toy.train)])
    few = {"max_gaussians": 2000, "lpips": False, "save_renders": 0, "eval_every": 0}
    for name, views, weighted in (
        ("sharp", clean, False),
        ("sharp, weighted", clean, True),
        ("blurred", blurred, False),
        ("blurred, weighted", blurred, True),
    ):
        toy.train = views
        config = replace(preset("default").with_steps(600), downweight_blur=weighted, **few)  # type: ignore[arg-type]
        scores[name] = toy.trainer(tmp_path / name, config).run(progress=False).test_psnr
    assert scores["blurred, weighted"] > scores["blurred"] + 1
    assert scores["sharp, weighted"] > scores["sharp"] - 0.1


@pytest.mark.parametrize("exposure", ["none", "camera"])
@pytest.mark.parametrize("batch", [1, 2])
def test_the_fused_step_is_the_step_of_autograd(
    toy_cutout: Any, tmp_path: Path, exposure: Any, batch: int
) -> None:
    values = np.random.default_rng(0).uniform(0.1, 0.8, len(toy_cutout.train))
    toy_cutout.train = [replace(v, sharpness=float(x)) for v, x in zip(toy_cutout.train, values, strict=True)]
    config = toy_cutout.config(downweight_blur=True, exposure=exposure, batch=batch, background="random")
    fused, plain = (toy_cutout.trainer(tmp_path / name, config) for name in "ab")
    plain.queue._fused = False
    for trainer in (fused, plain):
        for _ in range(7):
            trainer.step()
        trainer.synchronize()
    torch.testing.assert_close(fused.scene.means, plain.scene.means, atol=1e-5, rtol=0)
    torch.testing.assert_close(fused.scene.sh_dc, plain.scene.sh_dc, atol=1e-4, rtol=0)
