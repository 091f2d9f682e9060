"""Rolling shutters learnt in training: steps, starting velocities, resuming, and what they gain on a film."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from moving import Moving, assert_replayed_alike
from test_step import assert_same_step, general, in_the_middle
from toy_run import ToyRun, drop_checkpoints

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera, Pixels, View
from luxel.render.geometry.shutter import shutter_row
from luxel.render.metrics.evaluate import evaluate
from luxel.render.raster.rasterize import rasterize
from luxel.render.train.densify.fixed import FixedCount
from luxel.render.train.views.shutters import RollingShutter, frame_velocities
from luxel.scenes.synthetic.captures.film_capture import read_rows
from luxel.scenes.synthetic.toy import torus_knot

READOUT = 0.6
FRAMES = 30


def camera_at(time: float) -> Camera:
    """A walk around the knot in 30 frames, with shaking hands."""
    angle = 2 * math.pi * time / FRAMES
    eye = (3.0 * math.cos(angle), 3.0 * math.sin(angle), 1.0 + 0.4 * math.sin(2 * angle))
    to = (0.45 * math.sin(0.9 * time), 0.45 * math.cos(0.7 * time), 0.35 * math.sin(0.8 * time))
    return Camera.look_at(eye, to, fov_y=math.radians(50), width=64, height=56)


class Film(ToyRun):
    """Frames of the walk, read row by row for ``readout`` of the interval between them; every sixth is held out."""

    def __init__(self, readout: float) -> None:
        super().__init__()
        with torch.no_grad():
            views = [self._frame(k, readout) for k in range(FRAMES)]
        self.test, self.train = views[3::6], [v for k, v in enumerate(views) if k % 6 != 3]

    @staticmethod
    def _frame(index: int, readout: float) -> View:
        knot = torus_knot(300)
        image = read_rows(
            lambda camera: rasterize(knot, camera).rgb.numpy(),
            lambda tau: camera_at(index + readout * tau).world_to_cam,
            camera_at(index),
            1 if readout else 56,
        )
        pixels = Pixels((255 * image.clip(0, 1) + 0.5).astype(np.uint8))
        return View(f"{index}.png", camera_at(index), lambda: pixels, time=index / 30)


def score_of_scene(scene: Any) -> float:
    """PSNR of the scene in the held-out views of a global shutter."""
    return evaluate(scene, Film(0.0).test, lpips=False).mean.psnr


@pytest.mark.slow
def test_a_film_is_better_with_the_option_and_others_lose_nothing(tmp_path: Path) -> None:
    scores, seen = {}, {}
    for readout in (0.0, READOUT):
        film = Film(readout)
        for rolling in (False, True):
            config = film.config(steps=350, rolling_shutter=rolling, readout=READOUT if readout else 0.0)
            trainer = film.trainer(tmp_path / f"{readout}-{rolling}", config)
            trainer.run(progress=False)
            scores[readout, rolling] = score_of_scene(trainer.scene)
            seen[readout, rolling] = trainer.test_psnr
            if rolling and readout:
                assert 0.9 < trainer.models.shutter.factor < 1.1
    # In views of a global shutter 28.7 and 30.1 dB, in its own 25.2 and 29.4; of a capture without 30.45 and 30.44.
    assert scores[READOUT, True] > scores[READOUT, False] + 1
    assert seen[READOUT, True] > seen[READOUT, False] + 3
    assert scores[0.0, True] > scores[0.0, False] - 0.05
    assert scores[READOUT, True] > scores[0.0, False] - 1


def rolling_rig() -> Moving:
    """The moving knot, filmed by eight cameras with a rolling shutter."""
    capture = Moving(1.0)

    def renamed(views: list[View]) -> list[View]:
        return [replace(view, name="/".join(reversed(view.name[:-4].split("-"))) + ".png") for view in views]

    capture.train, capture.test = renamed(capture.train), renamed(capture.test)
    return capture


def as_if_learnt(trainer: Any) -> None:
    """Gives the cameras a motion."""
    shutter = trainer.models.shutter
    generator = torch.Generator().manual_seed(3)
    shutter.table.values.copy_(0.03 * torch.randn(shutter.table.values.shape, generator=generator))


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("name", ["gaussians", "gaussians4d"])
def test_the_fused_step_is_the_step_of_autograd(
    tmp_path: Path, device: torch.device, name: str, batch: int
) -> None:
    capture = rolling_rig()
    config = capture.config(name, steps=2000, strategy=FixedCount(), batch=batch, sh_every=0)
    config.deterministic, config.rolling_shutter, config.refine_poses = True, True, batch == 3
    fused = capture.trainer(tmp_path / "a", config, device=device)
    plain = general(capture.trainer(tmp_path / "b", config, device=device))
    for trainer in (fused, plain):
        as_if_learnt(trainer)
    in_the_middle(fused)
    before = fused.models.shutter.table.values.clone()
    for _ in range(3):
        assert_same_step(fused, plain)
    moved = fused.models.shutter.table.values
    assert (moved != before).any(1).sum() >= 3
    torch.testing.assert_close(moved, plain.models.shutter.table.values, atol=2e-5, rtol=0)


def test_a_stopped_run_ends_like_one_that_was_not(tmp_path: Path, same_state: Any) -> None:
    film = Film(READOUT)
    config = film.config(steps=24, rolling_shutter=True, readout=READOUT)
    config.checkpoints.every = 12
    whole = film.trainer(tmp_path / "whole", config)
    whole.run(progress=False)
    drop_checkpoints(tmp_path / "whole", after=12)
    again = film.resume(tmp_path / "whole")
    assert again.steps_done == 12
    again.run(progress=False)
    assert same_state(whole, again)
    ours, theirs = whole.models.shutter, again.models.shutter
    assert ours.table.values.any() and torch.equal(ours.table.values, theirs.table.values)
    fresh = RollingShutter(film.train, film.test, READOUT, "down", whole.extent, torch.device("cpu"))
    fresh.restore(whole.models.tensors())
    assert torch.equal(fresh.table.values, ours.table.values)
    with pytest.raises(LuxelError, match="no shutters of these views"):
        fresh.restore({})


def test_velocities_are_those_of_the_walk() -> None:
    views = Film(READOUT).train + Film(READOUT).test
    velocities = frame_velocities(views)
    for view, velocity in list(zip(views, velocities, strict=True))[1:20]:
        index = 30 * view.time
        if 1 <= index <= FRAMES - 2:
            short = camera_at(index - 0.05), camera_at(index + 0.05)
            exact = (short[1].world_to_cam - short[0].world_to_cam).double() / 0.1
            moved = velocity[3:].norm()
            turned = exact[:3, :3] @ camera_at(index).world_to_cam[:3, :3].double().T
            angular = torch.stack([turned[2, 1], turned[0, 2], turned[1, 0]])
            assert (velocity[3:] - angular).norm() < 0.25 * moved + 0.01
    thinned = [replace(view, frame_interval=1 / 60) for view in views]
    torch.testing.assert_close(frame_velocities(thinned), 0.5 * velocities)
    names = [replace(view, time=0.0) for view in views]
    torch.testing.assert_close(frame_velocities(names), velocities)
    assert not frame_velocities(views[:1]).any()


def test_held_out_views_have_the_velocity_of_their_neighbours() -> None:
    film = Film(READOUT)
    shutter = RollingShutter(film.train, film.test, 0.5, "right", 4.0, torch.device("cpu"))
    shutter.table.values.copy_(0.2 * shutter.start / shutter._scale)
    assert shutter.factor == pytest.approx(1.2)
    stranger = View("other.png", camera_at(0), film.test[0].read)
    seen = shutter.evaluation_views([*film.test, stranger])
    velocities = frame_velocities([*film.train, *film.test])[len(film.train) :]
    for view, velocity in zip(seen, velocities, strict=False):
        expected = shutter_row(0.6 * velocity.float(), "right")
        torch.testing.assert_close(view.camera.shutter, expected, atol=1e-6, rtol=1e-5)
    assert seen[-1].camera.shutter is None


def test_what_cannot_have_a_rolling_shutter_refuses_it(tmp_path: Path) -> None:
    film = Film(READOUT)
    with pytest.raises(LuxelError, match="the gsplat backend does not support rolling_shutter"):
        film.config(rolling_shutter=True, backend="gsplat").check()
    capture = Moving(1.0)
    config = capture.config("convexes")
    config.rolling_shutter = True
    with pytest.raises(LuxelError, match="convexes do not support rolling_shutter"):
        config.check()
    config = capture.config("gaussians", rolling_shutter=True)
    with pytest.raises(LuxelError, match="Some views have the same time") as refused:
        capture.trainer(tmp_path / "a", config)
    assert "folder" in str(refused.value)
    film.train = [replace(view, name=f"{7 * k % 25}.png", time=0.0) for k, view in enumerate(film.train)]
    film.test = []
    with pytest.raises(LuxelError, match="these are no frames of a film"):
        film.trainer(tmp_path / "b", film.config(rolling_shutter=True))


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["gaussians", "gaussians4d"])
@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_a_step_is_replayed(tmp_path: Path, device: torch.device, name: str) -> None:
    """Gradients by the velocities of cameras are summed in any order on a GPU."""
    capture = rolling_rig()
    config = capture.config(name, strategy=FixedCount(), rolling_shutter=True)
    assert_replayed_alike(capture, config, tmp_path, device, bits=False)
