"""What a task at the page begins with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from objects_of_balls import two_balls
from page_driver import PausableTrainer, ball, ring
from shown import StaticSession, TrainingSession, side_of

import luxel.scenes
from luxel import scenes
from luxel.render.geometry.camera import Points
from luxel.render.primitives import Gaussians
from luxel.scenes import save_scene
from luxel.viewer.web.editing.editable_training import EditableTraining
from luxel.viewer.web.pair.session import PairSession
from luxel.viewer.web.run_end import RunEnd

FLOATERS = 40  # the last primitives of the demo's scene, all around the tankard on its first image
EVERY = 8  # of the points of the demo's capture, as a scene


@cache
def demo() -> tuple[Any, Gaussians]:
    """The capture of `luxel demo`, and its points as a scene, with floaters."""
    capture = scenes.open(Path(luxel.scenes.__path__[0]) / "data" / "tankard-tiny")
    points = capture.points.xyz[::EVERY]
    far = np.linalg.norm(points - np.median(points, 0), axis=1)
    near = far < 1.2 * np.quantile(far, 0.9)  # without those that are no part of the tankard
    points, colours = points[near], capture.points.rgb[::EVERY][near]
    turn = 2 * np.pi * np.arange(FLOATERS) / FLOATERS
    around = (
        np.stack([np.cos(turn), np.sin(turn)], 1) @ capture.views[0].camera.cam_to_world[:3, :2].numpy().T
    )
    middle = points.mean(0)
    reach = 1.5 * np.linalg.norm(points - middle, axis=1).max()
    xyz = np.concatenate([points, middle + reach * around]).astype(np.float32)
    grey = np.full((FLOATERS, 3), 128, np.uint8)
    rgb = np.concatenate([colours, grey])
    scene = Gaussians.from_points(Points(xyz, rgb), sh_degree=0, opacity=0.9)
    scene.log_scales[-FLOATERS:] = float(np.log(0.03 * reach))
    return capture, scene


def tankard() -> torch.Tensor:
    """Centres of the demo's primitives that are no floaters, [N, 3]."""
    return demo()[1].means[:-FLOATERS]


@contextmanager
def session_of(scene: str, folder: Path) -> Iterator[Any]:
    """The session of a task, by `Task.scene`."""
    if scene == "ended":
        yield from _ended(folder)
    elif scene == "balls":
        yield StaticSession(two_balls(), folder=folder)
    elif scene == "pair":
        left, right = (StaticSession(ball(count), ring(), name) for count, name in ((250, "a"), (200, "b")))
        yield PairSession(side_of("a", left), side_of("b", right))
    elif scene == "demo":
        capture, tankard = demo()
        yield StaticSession(
            tankard, capture.views, "demo", up=capture.up, background=(1.0, 1.0, 1.0), folder=folder
        )
    else:
        yield StaticSession(ball(), ring(), "ball", folder=folder)


def _ended(folder: Path) -> Iterator[Any]:
    save_scene(folder / "scene.ply", ball())
    with PausableTrainer() as trainer:
        session = TrainingSession(trainer, ring(), "run", folder=folder)
        trainer.done = True
        session.end(RunEnd("target_minutes", 1792, 10_000, 60, 250, "Gaussians", 26.93, 0.9123, 13, None))
        EditableTraining.of(session).open()
        yield session
