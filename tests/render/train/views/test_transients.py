"""What only single photographs show: which pixels are left out, and what that does to a scene."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from luxel.render.geometry.camera import Pixels, View
from luxel.render.train.presets import preset
from luxel.render.train.views.transients import DOUBT, FACTOR, static_share, threshold, without_transients

NOW = torch.tensor([FACTOR])


def differing() -> tuple[torch.Tensor, torch.Tensor]:
    """A render, and a photograph with noise, a lost line of one pixel, and a large object that passes."""
    random = torch.Generator().manual_seed(0)
    image = torch.rand(1, 90, 122, 3, generator=random)
    photograph = image + 0.02 * torch.randn(image.shape, generator=random)
    photograph[:, 70] = 1 - image[:, 70]
    photograph[:, 20:50, 30:70] = 1 - image[:, 20:50, 30:70] + 0.4
    return image, photograph


def test_objects_hardly_count_and_details_do() -> None:
    image, photograph = differing()
    weight = static_share(image, photograph, None, NOW)
    assert weight.shape == (1, 90, 122)
    assert (weight[:, 20:50, 30:70] - DOUBT).abs().max() < 1e-6, "the whole object, its border included"
    assert weight[:, 60:].min() == 1, "a thin line is detail"
    assert weight.mean() > 0.8


def test_an_object_is_found_up_to_its_outline() -> None:
    random = torch.Generator().manual_seed(0)
    image = 0.4 + 0.05 * torch.rand(1, 90, 122, 3, generator=random)
    rows, columns = torch.arange(90)[:, None], torch.arange(122)[None]
    disc = ((rows - 41.5) ** 2 + (columns - 57.0) ** 2 < 17**2)[None]
    ring = disc & ((rows - 41.5) ** 2 + (columns - 57.0) ** 2 >= 2**2)[None]
    photograph = torch.where(ring[..., None], image + 0.4, image)
    weight = static_share(image, photograph, None, NOW)
    assert (weight[disc] - DOUBT).abs().max() < 1e-6, "the outline and the hole inside"
    grown = torch.nn.functional.max_pool2d(disc[:, None].float(), 3, 1, 1)[:, 0]
    assert weight[grown == 0].min() == 1, "what is two pixels away stays"


def test_objects_are_hardly_shown() -> None:
    image, photograph = differing()
    shown, weight = without_transients(image, photograph, None, NOW)
    assert torch.equal(shown[weight == 1], photograph[weight == 1]) and (weight < 1).sum() >= 30 * 40
    hidden = weight < 1
    torch.testing.assert_close(shown[hidden], image[hidden] + DOUBT * (photograph[hidden] - image[hidden]))
    assert torch.equal((shown - image).sign()[hidden], (photograph - image).sign()[hidden])


def test_weights_that_were_given_stay() -> None:
    image, photograph = differing()
    given = torch.rand(1, 90, 122, generator=torch.Generator().manual_seed(1))
    _, weight = without_transients(image, photograph, given, NOW)
    assert torch.equal(weight[:, 60:], given[:, 60:])
    torch.testing.assert_close(weight[:, 20:50, 30:70], DOUBT * given[:, 20:50, 30:70])
    _, nothing = without_transients(image, photograph, torch.zeros_like(given), NOW)
    assert nothing.sum() == 0


def test_everything_counts_at_the_start() -> None:
    image, photograph = differing()
    assert threshold(0.0) == threshold(0.049) == math.inf
    assert threshold(0.05) > threshold(0.1) > threshold(0.15) == threshold(1.0) == FACTOR
    assert static_share(image, photograph, None, torch.tensor([math.inf])).min() == 1
    assert static_share(image, image, None, NOW).min() == 1, "equal images"


def covered(view: View, random: np.random.Generator) -> View:
    """The photograph of a view with boxes of one colour before a tenth of it."""
    rgb = view.read().rgb.copy()
    height, width = rgb.shape[:2]
    hidden = np.zeros((height, width), bool)
    while hidden.mean() < 0.1:
        y, x, h, w = (int(random.integers(0, n)) for n in (height - 12, width - 12, 20, 20))
        box = slice(y, y + 10 + h), slice(x, x + 10 + w)
        rgb[box], hidden[box] = random.integers(0, 256, 3), True
    return replace(view, read=lambda: Pixels(rgb))


@pytest.mark.slow
def test_people_who_pass_do_not_become_part_of_the_scene(tmp_path: Path) -> None:
    from toy_run import ToyRun

    scores: dict[str, float] = {}
    for name, passed, ignored in (("clean", False, False), ("kept", True, False), ("ignored", True, True)):
        toy: Any = ToyRun(cameras=24, size=(144, 120))
        if passed:
            random = np.random.default_rng(0)
            toy.train = [covered(view, random) for view in toy.train]
        config = replace(
            preset("default").with_steps(1000),
            ignore_transients=ignored,
            max_gaussians=2000,
            **{"lpips": False, "save_renders": 0, "eval_every": 0},
        )
        scores[name] = toy.trainer(tmp_path / name, config).run(progress=False).test_psnr
    assert scores["clean"] - scores["kept"] > 3
    assert scores["ignored"] > scores["kept"] + 1


@pytest.mark.parametrize("exposure", ["none", "gain"])
@pytest.mark.parametrize("cutout", [False, True], ids=["opaque", "cut out"])
def test_the_fused_step_is_the_step_of_autograd(
    toy: Any, toy_cutout: Any, tmp_path: Path, cutout: bool, exposure: Any
) -> None:
    run = toy_cutout if cutout else toy
    config = run.config(ignore_transients=True, exposure=exposure, steps=20, batch=2)
    fused, plain = (run.trainer(tmp_path / name, config) for name in "ab")
    plain.queue._fused = False
    for trainer in (fused, plain):
        for _ in range(12):
            trainer.step()
        trainer.synchronize()
    torch.testing.assert_close(fused.scene.means, plain.scene.means, atol=1e-5, rtol=0)
    torch.testing.assert_close(fused.scene.sh_dc, plain.scene.sh_dc, atol=1e-4, rtol=0)
