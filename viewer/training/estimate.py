"""How much memory and time a training on a capture takes here, before it starts: an estimate, and what it rests on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Points, View, pixel_count
from luxel.render.primitives import PRIMITIVES
from luxel.render.runs.memory import is_out_of_memory, used_memory
from luxel.render.runs.progress import duration
from luxel.render.storage.journal import scratch_folder
from luxel.render.train import TrainConfig, Trainer
from luxel.render.train.config import Resolution
from luxel.render.train.densify.situation import Situation
from luxel.render.train.memory import plan as memory_plan
from luxel.render.train.start import scene_extent
from luxel.render.train.views.dataset import AHEAD
from luxel.render.train.views.image_content import image_content
from luxel.scenes import Capture
from luxel.viewer.doctor import processor

MEASURED_VIEWS = 8  # whose images the measured steps use
WARM_UP, MAX_STEPS, MIN_STEPS = 3, 20, 2
SECONDS = 3.0  # of steps that are measured, at each of two sizes
GROWTH = 0.25  # of a run, over which its steps grow where images have one size throughout
READERS = 2  # images that are read from disk at a time


@dataclass(frozen=True)
class TrainingEstimate:
    """What a training takes, estimated.

    Args:
        preset: that it is trained with.
        device: its name.
        gpu: whether that is a GPU; else ``device_bytes`` is host memory too.
        steps: length of the run.
        first, last: primitives at the start and at most at the end.
        noun: name of the primitives.
        kept: whether the decoded images are in the memory of the host.
        streamed: whether images go to the device step by step.
        image_bytes: of the training images on the device.
        device_bytes, host_bytes: of a training.
        first_ms, last_ms: of a step at the start and at the end, measured; None: not measured.
        seconds: of the complete training without evaluation; None: not measured.
        notes: what memory makes necessary, and why something was not measured.
    """

    preset: str
    device: str
    gpu: bool
    steps: int
    first: int
    last: int
    noun: str
    kept: bool
    streamed: bool
    image_bytes: int
    device_bytes: int
    host_bytes: int
    first_ms: float | None = None
    last_ms: float | None = None
    seconds: float | None = None
    notes: tuple[str, ...] = ()

    def facts(self) -> dict[str, str]:
        """The estimate by name, for a person."""
        position = "read from disk step by step" if not self.kept else "stored in the memory of this machine"
        position += ", streamed to the GPU" if self.gpu and self.streamed else ""
        host = f"{_gib(self.host_bytes)} of this machine"
        memory = f"{_gib(self.device_bytes)} of the GPU and {host}" if self.gpu else host
        grows = f"up to {self.last:,} {self.noun}"
        facts = {
            "memory of the images": f"{_gib(self.image_bytes)}, {position}",
            "memory of a training": f"about {memory} with the preset {self.preset} and {grows}",
        }
        if self.seconds is not None:
            facts["time of a training"] = (
                f"about {duration(self.seconds)} for {self.steps:,} steps on {self.device}, evaluation not counted: "
                f"estimated from steps measured here, {self.first_ms:.3g} ms at the start and {self.last_ms:.3g} ms "
                f"with {self.last:,} {self.noun}"
            )
        if self.notes:
            facts["note"] = " ".join(self.notes)
        return facts


def estimate(capture: Capture, config: TrainConfig, preset: str, device: torch.device) -> TrainingEstimate:
    """Plans a training and measures a few of its steps, which takes some seconds.

    Args:
        capture: to be trained on.
        config: of the training.
        preset: its name.
        device: where to train.
    """
    views = capture.train
    config = config.sized(pixel_count(views))
    first = min(len(capture.points.xyz), config.init.max_points or len(capture.points.xyz))
    last = _most(config, views, first)
    parameters: Any = PRIMITIVES[config.primitive].engine.parameters
    each = memory_plan.bytes_of_one(parameters.empty(config.init.sh_degree))
    kept = all(getattr(view.read, "cached", None) is not None for view in views)
    noun, notes = PRIMITIVES[config.primitive].noun, ()
    images = memory_plan.image_bytes(views, config.resolution.halvings > 0)
    streamed, fits = True, True
    try:
        plan = memory_plan.plan(
            views,
            first,
            each=each,
            noun=noun,
            pyramid=config.resolution.halvings > 0,
            images=config.images,
            max_gaussians=config.max_gaussians,
            device=device,
        )
        streamed, notes = plan.images == "stream", plan.notes
        last = min(last, plan.cap or last)
    except LuxelError as error:
        notes, fits = (f"{error.problem} {error.remedy}",), False
    largest = max(view.camera.width * view.camera.height for view in views)
    resident = 4 * largest if streamed else images
    on_device = memory_plan.SPARE + memory_plan.PIXEL_WORKSPACE * largest + resident + each * max(first, last)
    host = used_memory(torch.device("cpu")) + (2 + AHEAD) * 4 * largest * (not kept or streamed)
    gpu = device.type == "cuda"
    known = TrainingEstimate(
        preset,
        torch.cuda.get_device_name(device) if gpu else processor(),
        gpu,
        config.steps,
        first,
        last,
        noun,
        kept,
        streamed,
        images,
        on_device,
        host if gpu else host + on_device,
        notes=notes,
    )
    return _timed(known, capture, config, device) if fits else known


def _most(config: TrainConfig, views: Sequence[View], first: int) -> int:
    """Most primitives that a run has, by the limits of its strategy and its configuration."""
    content = image_content(views if config.strategy.follows_images else ())
    now = Situation(
        step=0,
        clock=0.0,
        steps=config.steps,
        extent=1.0,
        cap=config.max_gaussians,
        generator=torch.Generator(),
        pixels=pixel_count(views),
        detail=content.detail,
        coverage=content.coverage,
    )
    limit = config.strategy.limit(now)
    return first if limit is None else max(first, limit)


def _timed(
    known: TrainingEstimate, capture: Capture, config: TrainConfig, device: torch.device
) -> TrainingEstimate:
    """The estimate with the times of steps at the start and at the end of a run."""
    chosen = np.unique(np.linspace(0, len(capture.train) - 1, MEASURED_VIEWS).round().astype(int))
    views = [capture.train[row] for row in chosen]
    end = replace(
        config,
        resolution=Resolution(halvings=0),
        sh_every=0,
        max_gaussians=known.last,
        init=replace(config.init, max_points=None),
    )
    grown = _grown(capture.points, max(known.first, known.last), scene_extent(capture.train))
    reading = 0.0
    try:
        if known.streamed and not known.kept:
            started = time.perf_counter()
            for view in views:
                view.read()
            reading = (time.perf_counter() - started) / len(views) / READERS * config.batch
        first = max(reading, _step_seconds(config, views, capture.points, device))
        last = max(reading, _step_seconds(end, views, grown, device))
    except Exception as error:
        if not isinstance(error, LuxelError) and not is_out_of_memory(error):
            raise
        reason = "memory ran out." if is_out_of_memory(error) else str(error)
        return replace(known, notes=(*known.notes, f"No steps could be measured here: {reason}"))
    slower = max(GROWTH, config.resolution.until if config.resolution.halvings else 0.0)
    mean = slower * (first + last) / 2 + (1 - slower) * last
    seconds = config.steps * mean
    if config.target_minutes is not None:
        seconds = min(seconds, 60 * config.target_minutes)
    return replace(known, first_ms=1e3 * first, last_ms=1e3 * last, seconds=seconds)


def _grown(points: Points, count: int, extent: float) -> Points:
    """As many points as primitives at the end of a run, scattered around those of the capture."""
    random = np.random.default_rng(0)
    rows = random.integers(len(points.xyz), size=count)
    apart = extent / np.sqrt(count)
    return Points(
        (points.xyz[rows] + random.normal(0, apart, (count, 3))).astype(np.float32), points.rgb[rows]
    )


def _step_seconds(config: TrainConfig, views: Sequence[View], points: Points, device: torch.device) -> float:
    """Seconds of a step of a run that begins with these points."""
    with scratch_folder() as folder:
        trainer = Trainer(config, views, [], points, folder / "run", device, say=lambda _: None)
        try:
            for _ in range(WARM_UP if device.type == "cuda" else 1):
                trainer.advance()
            trainer.synchronize()
            started, steps = time.perf_counter(), 0
            while steps < MAX_STEPS and (steps < MIN_STEPS or time.perf_counter() - started < SECONDS):
                trainer.advance()
                steps += 1
            trainer.synchronize()
            return (time.perf_counter() - started) / steps
        finally:
            trainer.dataset.close()


def _gib(count: int) -> str:
    return f"{count / 2**30:.2f} GiB"
