"""A made-up capture of something that moves, which every primitive can be trained on in seconds."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from luxel.render.geometry.camera import Pixels, Points, View
from luxel.render.metrics.evaluate import evaluate
from luxel.render.primitives import PRIMITIVES
from luxel.render.primitives.gaussians import SH_C0
from luxel.render.raster.rasterize import rasterize
from luxel.render.train import TrainConfig, Trainer
from luxel.render.train.config import Checkpoints
from luxel.render.train.presets import preset
from luxel.scenes.synthetic.toy import ring_cameras, torus_knot


class Moving:
    """A knot that travels while time goes from 0 to 1, seen by eight cameras at four times; one of each is held out.

    Args:
        travels: how far.
        masked: whether the photographs have alphas and weights.
        depth: whether the depth of some pixels is known.
    """

    def __init__(self, travels: float, masked: bool = False, depth: bool = False) -> None:
        knot, views = torus_knot(300), []
        for i, (k, camera) in itertools.product(range(4), enumerate(ring_cameras(8, width=48, height=40))):
            time = i / 3
            moved = replace(knot, means=knot.means + torch.tensor([0.0, 0.0, travels * (time - 0.5)]))
            with torch.no_grad():
                frame = rasterize(moved, camera, depth=depth)
                rgb = (frame.rgb.clamp(0, 1) * 255 + 0.5).to(torch.uint8).numpy()
            pixels = Pixels(rgb, None)
            if masked:  # coverage, and pixels that count less or not at all
                random = np.random.default_rng(len(views))
                pixels = Pixels(rgb, *random.integers(0, 256, (2, *rgb.shape[:2]), np.uint8))
            view = View(f"{i}-{k}.png", camera, lambda pixels=pixels: pixels, time)
            if depth:
                assert frame.depth is not None
                known = torch.where(frame.alpha > 0.5, frame.depth, 0.0).numpy()
                known[::3, ::2] = 0
                view.depth = lambda known=known: known
            views.append(view)
        self.test = [view for i, view in enumerate(views) if i % 8 == 2 * (i // 8)]
        self.train = [view for view in views if view not in self.test]
        noise = 0.03 * np.random.default_rng(0).standard_normal((300, 3))
        colours = (255 * (0.5 + SH_C0 * knot.sh_dc.numpy()).clip(0, 1)).astype(np.uint8)
        self.points = Points((knot.means.numpy() + noise).astype(np.float32), colours)

    def config(self, primitive: str, **changes: Any) -> TrainConfig:
        config = preset("default", primitive)
        config.steps, config.lpips, config.save_renders, config.report_every = 60, False, 0, 10
        config.init = PRIMITIVES[primitive].init(sh_degree=1, opacity=0.5)
        config.checkpoints = Checkpoints(every=0, minutes=0)
        for name, value in changes.items():
            setattr(config, name, value)
        return config

    def trainer(self, folder: Path, config: TrainConfig, **options: Any) -> Trainer:
        return Trainer(
            config, self.train, self.test, self.points, folder, **{"say": lambda _: None, **options}
        )


def brisk(config: TrainConfig) -> TrainConfig:
    """The same with density control that acts within a short run, whatever the gradients."""
    strategy = config.strategy
    for name, value in (
        ("grow_grad2d", 1e-6),
        ("grow_sigma", -1.0),
        ("refine_every", 20),
        ("refine_stop", 20_000),
    ):
        if hasattr(strategy, name):
            setattr(strategy, name, value)
    config.max_gaussians = 600
    return config


def assert_replayed_alike(
    capture: Moving, config: TrainConfig, folder: Path, device: torch.device, *, bits: bool = True
) -> None:
    """A run whose steps are captured and replayed ends with the bits of one whose steps are called.

    Args:
        bits: otherwise it ends as well, within 0.1 dB of the held-out views.
    """
    replayed, single = (capture.trainer(folder / part, config, device=device) for part in "ab")
    replayed.run(progress=False)
    single.queue._replay.run = lambda epoch, key, work: work()
    single.run(progress=False)
    assert replayed.queue.captures >= 1
    if not bits:
        ends = [evaluate(run.scene, capture.test, lpips=False).mean.psnr for run in (replayed, single)]
        assert abs(ends[0] - ends[1]) < 0.1, ends
        return
    for key, tensor in replayed.store.tensors().items():
        assert torch.equal(tensor, single.store.tensors()[key]), key


def assert_resumed_alike(
    capture: Moving, config: TrainConfig, folder: Path, *, every: int, stop: int
) -> Trainer:
    """A run that is cut off and resumed from its newest checkpoint ends with the bits of one that is not.

    Args:
        every: steps between checkpoints.
        stop: number of steps after which it is cut off.

    Returns:
        The run that was not cut off.
    """
    whole = capture.trainer(folder / "whole", config)
    whole.run(progress=False)
    config = replace(config, checkpoints=Checkpoints(every=every, minutes=0))
    broken = capture.trainer(folder / "broken", config)
    while broken.steps_done < stop:
        broken.step()
        broken.loop._save_when_due(broken)
    broken.loop.saver.wait()
    again = Trainer.resume(folder / "broken", capture.train, capture.test, say=lambda _: None)
    assert again.steps_done == stop // every * every
    again.run(progress=False)
    for key, tensor in whole.store.tensors().items():
        assert torch.equal(tensor, again.store.tensors()[key]), key
    return whole


def assert_waits_for_nothing(trainer: Trainer) -> None:
    """A hundred further steps wait for nothing and capture nothing."""
    captured = trainer.queue.captures
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(100):
            trainer.step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert trainer.queue.captures == captured and not trainer.synchronize()
