"""Times of a training step at a fixed count, for comparing primitives at equal work."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from luxel.render.geometry.camera import View
from luxel.render.primitives import PRIMITIVES, Gaussians, Gaussians4d, Parameters
from luxel.render.raster.rasterize import rasterize
from luxel.render.train import Trainer
from luxel.render.train.densify.fixed import FixedCount
from luxel.render.train.presets import preset
from luxel.scenes import Capture

WARM_UP_STEPS = 100


def trainer_for(
    capture: Capture,
    folder: Path | str,
    device: torch.device,
    primitive: str = "gaussians",
    name: str = "default",
    most: int | None = None,
    background: str = "auto",
) -> Trainer:
    """A trainer of one view a step, without checkpoints and evaluations.

    Args:
        capture: trained on.
        folder: of the run.
        device: where to train.
        primitive, name: of the preset.
        most: largest count of primitives; None: the preset's.
        background: behind the scene.
    """
    config = preset(name, primitive)
    config = type(config).from_dict({**config.to_dict(), "background": background})
    config.checkpoints.every, config.eval_every, config.batch = 0, 0, 1
    config.max_gaussians = most or config.max_gaussians
    return Trainer(config, capture.train, capture.test, capture.points, folder, device, say=lambda _: None)


def train_until(trainer: Trainer, step: int) -> None:
    """Trains up to a step and waits for the device."""
    while trainer.steps_done < step:
        trainer.step()
    trainer.synchronize()


def trained(trainer: Trainer, steps: int) -> Parameters:
    """A copy of the scene after ``steps`` steps."""
    train_until(trainer, steps)
    return trainer.scene.map(torch.clone)


def restart_from(trainer: Trainer, scene: Parameters) -> None:
    """Replaces a trainer's scene and fixes the count."""
    if not isinstance(trainer.config.strategy, FixedCount):
        trainer.config.strategy = FixedCount(prune_opacity=0)
    trainer.config.sh_every = trainer.config.reorder_every = 0
    trainer.start_from(scene)


def seconds_of(trainer: Trainer, steps: int) -> float:
    """Seconds that the next steps take."""
    trainer.synchronize()
    started = time.perf_counter()
    train_until(trainer, trainer.steps_done + steps)
    return time.perf_counter() - started


def step_times(
    trainer: Trainer, scene: Parameters, views: Sequence[View], *, window: int, windows: int
) -> dict[str, Any]:
    """Milliseconds of a step on a scene.

    Args:
        trainer: of the scene's primitive; its scene is replaced.
        scene: to train on at a fixed count.
        views: over which pairs are counted.
        window: steps that are timed together.
        windows: how often.

    Returns:
        primitive, count, instances: (tile, primitive) pairs of a view, step_ms: median, low, high.
    """
    pairs = instances(scene, views, trainer.device)
    restart_from(trainer, scene)
    train_until(trainer, trainer.steps_done + min(WARM_UP_STEPS, 10 * window))
    times = [1e3 * seconds_of(trainer, window) / window for _ in range(windows)]
    return {
        "primitive": scene.noun,
        "count": scene.count,
        "instances": round(pairs),
        "step_ms": float(np.median(times)),
        "low": min(times),
        "high": max(times),
    }


def instances(scene: Parameters, views: Sequence[View], device: torch.device) -> float:
    """(Tile, primitive) pairs of a view, on average."""
    with torch.no_grad():
        counts = [
            rasterize(scene, view.camera.to(device), time=view.time, max_instances=1).instances
            for view in views
        ]
    return torch.cat(counts).double().mean().item()


def scaled_to(pairs: float, scene: Parameters, views: Sequence[View], device: torch.device) -> Parameters:
    """The scene with its primitives scaled so that a view has ``pairs`` (tile, primitive) pairs."""
    low, high = 0.2, 5.0
    for _ in range(12):
        middle = (low * high) ** 0.5
        if instances(scene.scaled(middle), views, device) > pairs:
            high = middle
        else:
            low = middle
    return scene.scaled(low)


def equal_scene(
    primitive: str, gaussians: Gaussians, views: Sequence[View], device: torch.device
) -> Parameters:
    """Gaussians as another primitive with as many (tile, primitive) pairs a view; 4D Gaussians are static."""
    if isinstance(gaussians, PRIMITIVES[primitive].engine.parameters):
        return gaussians
    if PRIMITIVES[primitive].engine.parameters is Gaussians4d:
        return Gaussians4d.from_gaussians(gaussians, time=0.0, time_scale=1.0)
    converted = PRIMITIVES[primitive].engine.from_gaussians(gaussians)
    return scaled_to(instances(gaussians, views, device), converted, views, device)
