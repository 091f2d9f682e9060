"""The trained scenes with true ids on which labels are scored: ten solids at rest, and nine that move."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from luxel.render.geometry.camera import View
from luxel.render.primitives import PRIMITIVES, Parameters
from luxel.render.runs.folder.run_config import has_config
from luxel.render.storage.journal import scratch_folder
from luxel.render.train import Trainer
from luxel.render.train.config import Checkpoints
from luxel.render.train.presets import preset
from luxel.scenes import Capture, save_dnerf, save_primitive_ply
from luxel.scenes import open as open_capture
from luxel.scenes.captures.true_ids import read_ids
from luxel.scenes.loading.scene_files import load_any_scene
from luxel.scenes.synthetic.captures.dnerf import (
    default_camera_samples,
    monocular_camera_samples,
    rig_camera_samples,
)
from luxel.scenes.synthetic.example_scenes import dynamic_scene, static_scene
from luxel.viewer.bench.record.part import Setup
from luxel.viewer.bench.record.training import made_capture

SOLIDS = 10  # of the scene at rest, alongside its platform
TRAIN, TEST = 48, 20  # views of the scene at rest
RIG, TIMES = 10, 20  # still cameras around the moving scene, and times that all of them see
QUICK_STEPS = 20
SCENE = "scene.ply"
PACE = 0.35  # of the moving scene: at 1 its solids are too fast for so few steps
TIME_SCALE = 0.2  # starting standard deviation in time of what moves
MOST = {"convexes": 12_000, "gaussians4d": 20_000}  # primitives, so that trainings take minutes on a CPU


@dataclass(frozen=True)
class Sizes:
    """How large the scenes are.

    Args:
        side: pixels of the square images.
        steps: of the trainings.
        quick: few small views and steps, to check that everything works; figures are meaningless.
    """

    side: int = 256
    steps: int = 1000
    quick: bool = False


@dataclass
class LabelledScene:
    """A trained scene with views of known labels.

    Args:
        name: of the scene.
        scene: N primitives.
        train, test: the views that it was trained on, and others.
        truth: true label maps by name of the view, uint8 [H, W]; 0: the background.
        count: L; labels are below it.
        render: options of `luxel.render.raster.rasterize.rasterize` that change alpha.
    """

    name: str
    scene: Parameters
    train: list[View]
    test: list[View]
    truth: dict[str, Tensor]
    count: int
    render: dict[str, Any] = field(default_factory=dict)


def labelled_scene(
    primitive: str, sizes: Sizes, cache: Path | None, device: torch.device, say: Callable[[str], None]
) -> LabelledScene:
    """The scene of a primitive: the moving one for primitives that move, else the one at rest.

    Args:
        primitive: what it is trained with.
        sizes: of views and training.
        cache: folder that keeps captures and trained scenes; None: nothing is stored.
        device: to train on.
        say: receives lines about what is rendered and trained.
    """
    moves = PRIMITIVES[primitive].engine.parameters.moves
    name = ("moving" if moves else "resting") + f"-{sizes.side}" + ("-quick" if sizes.quick else "")
    write = functools.partial(_write_moving if moves else _write_resting, sizes=sizes)
    with made_capture(Setup(device, cache=cache), name, write) as folder:
        capture = open_capture(folder)
        views = {"train": [*map(_in_memory, capture.train)], "test": [*map(_in_memory, capture.test)]}
        truth = {
            view.name: torch.from_numpy(read_ids(view).copy()) for part in views.values() for view in part
        }
        scene, antialiased = _trained(primitive, sizes, capture, cache, device, say)
    count = 1 + max(int(ids.max()) for ids in truth.values())
    render = {"antialiased": antialiased and scene.antialiases}
    return LabelledScene(name, scene, views["train"], views["test"], truth, count, render)


def _in_memory(view: View) -> View:
    """The view with its pixels read: the folder may be a temporary one."""
    pixels = view.read()
    return replace(view, read=lambda: pixels)


def _write_resting(folder: Path, sizes: Sizes) -> None:
    train, test = (6, 2) if sizes.quick else (TRAIN, TEST)
    samples = default_camera_samples(train, 0, test, static=True, width=sizes.side, height=sizes.side)
    save_dnerf(static_scene(0, SOLIDS), folder, samples)


def _write_moving(folder: Path, sizes: Sizes) -> None:
    """The moving scene before still cameras; held out are other cameras at times between the trained ones."""
    cameras, times, test = (3, 3, 2) if sizes.quick else (RIG, TIMES, TEST)
    lens = {"width": sizes.side, "height": sizes.side}
    between = ((np.arange(test) + 0.5) / test).tolist()
    samples = {
        "train": rig_camera_samples(cameras, np.linspace(0, 1, times).tolist(), seed=0, **lens),
        "test": monocular_camera_samples(between, seed=1, **lens),
    }
    save_dnerf(dynamic_scene(pace=PACE), folder, samples)


def _trained(
    primitive: str,
    sizes: Sizes,
    capture: Capture,
    cache: Path | None,
    device: torch.device,
    say: Callable[[str], None],
) -> tuple[Parameters, bool]:
    """The scene, and whether it is rendered antialiased; trained where the cache has none."""
    moves = PRIMITIVES[primitive].engine.parameters.moves
    steps = QUICK_STEPS if sizes.quick else sizes.steps
    config = preset("video" if moves else "default", primitive).with_steps(steps)
    if primitive in MOST:
        start = replace(config.init, max_points=2 * MOST[primitive] // 3)
        start = replace(start, time_scale=TIME_SCALE) if moves else start
        config = replace(config, max_gaussians=MOST[primitive], init=start)
    config = replace(config, checkpoints=Checkpoints(every=0, minutes=0), eval_every=0, lpips=False)
    config = replace(config, save_renders=0)
    name = f"{primitive}-{sizes.side}-{steps}-{device.type}"
    if cache is not None and has_config(cache / name) and (cache / name / SCENE).exists():
        return load_any_scene(cache / name).to(device), config.antialiased
    say(f"training {primitive} for {steps:,} steps on {len(capture.train)} views")
    with scratch_folder(cache) as scratch:
        folder = scratch / name
        trainer = Trainer(config, capture.train, [], capture.points, folder, device, _export)
        if trainer.run(progress=False).reason == "interrupted":
            raise KeyboardInterrupt
        if cache is not None:
            with contextlib.suppress(OSError):  # another process has trained the same
                folder.replace(cache / name)
        return trainer.scene, config.antialiased


def _export(scene: Parameters, path: Path) -> None:
    save_primitive_ply(path, scene)
