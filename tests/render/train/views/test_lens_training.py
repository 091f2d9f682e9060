"""Training behind a lens: the fused step, its replay on a GPU, and a fisheye trained as it is against undistortion."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from moving import Moving, assert_replayed_alike, assert_waits_for_nothing, brisk
from test_step import STRATEGIES, assert_same_step, general, in_the_middle

from luxel.render.errors import LuxelError
from luxel.render.geometry.lens import fisheye_lens, radial_lens
from luxel.render.raster.rasterize import rasterize
from luxel.render.train import Trainer
from luxel.render.train.config import Checkpoints
from luxel.render.train.densify.fixed import FixedCount
from luxel.render.train.resume import read_config

NAMES = ("gaussians", "gaussians4d")


def bent(masked: bool = False) -> Moving:
    """The moving knot through fisheyes, and every third camera through a radial lens."""
    capture = Moving(1.0, masked)
    lenses = fisheye_lens((0.05, -0.01)), fisheye_lens((-0.03,), 0.5), radial_lens((0.1, -0.05), (0.01, 0.0))

    def through(views: list[Any]) -> list[Any]:
        return [
            replace(view, camera=replace(view.camera, lens=lenses[i % 3])) for i, view in enumerate(views)
        ]

    capture.train, capture.test = through(capture.train), through(capture.test)
    return capture


@pytest.mark.parametrize("masked", [False, True], ids=["plain", "masked"])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_the_fused_step_is_the_step_of_autograd_behind_a_lens(
    tmp_path: Path, device: torch.device, name: str, batch: int, masked: bool
) -> None:
    capture = bent(masked)
    config = capture.config(name, steps=2000, strategy=STRATEGIES[name](), batch=batch, sh_every=0)
    config.deterministic, config.refine_poses = True, True
    fused = capture.trainer(tmp_path / "a", config, device=device)
    plain = general(capture.trainer(tmp_path / "b", config, device=device))
    in_the_middle(fused)
    for _ in range(3):
        assert_same_step(fused, plain)


def test_a_run_is_resumed_with_its_lenses(tmp_path: Path) -> None:
    capture = bent()
    config = capture.config("gaussians", steps=24, strategy=FixedCount(), deterministic=True)
    whole = capture.trainer(tmp_path / "a", config)
    whole.run(progress=False)
    config.checkpoints = Checkpoints(every=12, minutes=0)
    capture.trainer(tmp_path / "b", config).run(progress=False)
    for path in (tmp_path / "b/checkpoints").glob("step-00000024*"):
        path.unlink()
    again = Trainer.resume(tmp_path / "b", capture.train, capture.test, device="cpu", say=lambda _: None)
    assert again.steps_done == 12
    again.run(progress=False)
    for name, tensor in whole.scene.tensors().items():
        assert torch.equal(tensor, again.scene.tensors()[name]), name
    assert read_config(tmp_path / "b")[0].primitive == "gaussians"


@pytest.mark.parametrize(("primitive", "backend"), [("convexes", "luxel"), ("gaussians", "gsplat")])
def test_what_cannot_draw_a_lens_refuses_it(tmp_path: Path, primitive: str, backend: str) -> None:
    capture = bent()
    config = capture.config(primitive, backend=backend)
    with pytest.raises(LuxelError, match="fisheye or a distorted lens") as refused:
        capture.trainer(tmp_path / "run", config, render=rasterize)
    assert "--lens undistort" in str(refused.value)
    assert not (tmp_path / "run/config.json").exists()


@pytest.mark.gpu
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_a_step_behind_a_lens_is_replayed_without_waiting(
    tmp_path: Path, device: torch.device, name: str
) -> None:
    capture = bent()
    config = brisk(capture.config(name, deterministic=True))
    assert_replayed_alike(capture, config, tmp_path, device)
    config = capture.config(name, steps=30_000, strategy=FixedCount(), batch=1)
    config.reorder_every, config.sh_every, config.loss.neighbours_every = 0, 0, 10**9
    trainer = capture.trainer(tmp_path / "c", config, device=device)
    for _ in range(20):
        trainer.step()
    assert_waits_for_nothing(trainer)
