"""A made-up capture that trains in seconds, for every test that trains: a torus knot seen by cameras on a ring."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from luxel.render.geometry.camera import Camera, Pixels, Points, View
from luxel.render.primitives.gaussians import SH_C0
from luxel.render.primitives.training import Init
from luxel.render.raster.rasterize import rasterize
from luxel.render.train import TrainConfig, Trainer
from luxel.render.train.config import Checkpoints
from luxel.render.train.densify.fixed import FixedCount
from luxel.scenes.synthetic.toy import ring_cameras, torus_knot


def make_view(camera: Camera, name: str, alpha: bool) -> View:
    """A photograph of the knot: straight colours and coverage, or composited onto black."""
    with torch.no_grad():
        frame = rasterize(torus_knot(300), camera)
    cover = frame.alpha[..., None]
    rgb = frame.rgb / cover.clamp_min(1e-4) if alpha else frame.rgb
    as_bytes = [(x.clamp(0, 1) * 255 + 0.5).to(torch.uint8).numpy() for x in (rgb, frame.alpha)]
    pixels = Pixels(as_bytes[0], as_bytes[1] if alpha else None)
    return View(name, camera, lambda: pixels)


@dataclass
class ToyRun:
    """Views (every sixth held out), noisy points, and a trainer on request."""

    alpha: bool = False
    cameras: int = 12
    size: tuple[int, int] = (48, 40)
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        cameras = ring_cameras(self.cameras, width=self.size[0], height=self.size[1])
        views = [make_view(camera, f"{i:02d}.png", self.alpha) for i, camera in enumerate(cameras)]
        self.test, self.train = views[::6], [v for i, v in enumerate(views) if i % 6]
        random, knot = np.random.default_rng(0), torus_knot(300)
        xyz = knot.means.numpy() + 0.03 * random.standard_normal((300, 3))
        rgb = (255 * (0.5 + SH_C0 * knot.sh_dc.numpy()).clip(0, 1)).astype(np.uint8)
        self.points = Points(xyz.astype(np.float32), rgb)

    def config(self, **changes: Any) -> TrainConfig:
        """A short run with few extras."""
        quick: dict[str, Any] = {
            "steps": 60,
            "strategy": FixedCount(),
            "init": Init(sh_degree=1),
            "checkpoints": Checkpoints(every=0, minutes=0),
            "lpips": False,
            "save_renders": 0,
            "report_every": 10,
        }
        return TrainConfig(**{**quick, **changes})

    def trainer(self, folder: Path, config: TrainConfig | None = None, **options: Any) -> Trainer:
        """A trainer on the CPU; what it says goes to ``said``."""
        options = {"say": self.said.append, "device": "cpu", **options}
        return Trainer(config or self.config(), self.train, self.test, self.points, folder, **options)

    def resume(self, folder: Path, **options: Any) -> Trainer:
        """Goes on with a run."""
        return Trainer.resume(folder, self.train, self.test, **{"say": self.said.append, **options})


def drop_checkpoints(run: Path, *, after: int) -> None:
    """Deletes the checkpoints of a run folder that were written after a step, as if the run had been stopped there."""
    for path in (run / "checkpoints").glob("step-*"):
        if int(path.stem[5:]) > after:
            path.unlink()


@pytest.fixture
def toy() -> ToyRun:
    """Opaque photographs on black."""
    return ToyRun()


@pytest.fixture
def toy_cutout() -> ToyRun:
    """Photographs with alpha."""
    return ToyRun(alpha=True)


@pytest.fixture
def same_state() -> Callable[[Trainer, Trainer], bool]:
    """Whether two trainers hold bit for bit the same parameters, moments and random state."""

    def compare(a: Trainer, b: Trainer) -> bool:
        left, right = a.store.tensors(), b.store.tensors()
        equal = all(torch.equal(left[name], right[name]) for name in left)
        return equal and torch.equal(a.generator.get_state(), b.generator.get_state())

    return compare
