"""Measures neural fields: each kind with each encoding is trained for some seconds, evaluated, drawn and profiled."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from luxel.render.fields.application import Application
from luxel.render.fields.config import FieldConfig, defaults
from luxel.render.fields.encodings import EncodingName
from luxel.render.fields.training.trainer import FieldTrainer
from luxel.render.replay import release_memory
from luxel.render.storage.journal import scratch_folder
from luxel.viewer.bench.fields.datasets import FieldDataset, frames
from luxel.viewer.bench.fields.peers import rates
from luxel.viewer.bench.fields.stages import (
    counting,
    encoded_field,
    encoding_share,
    frame_parts,
    half_ceiling,
    rooflines,
    shares,
    stages_alone,
)
from luxel.viewer.bench.machine import gpu_state, machine_facts
from luxel.viewer.bench.raster.measure import FORMAT
from luxel.viewer.bench.raster.roofline import measure_ceilings
from luxel.viewer.bench.raster.scenes import Size
from luxel.viewer.bench.timing import many_kernel_times, stage_times, summary, times_ms

RATE = 60  # frames per second to reach
LONG_FRAME = 50.0  # milliseconds above which only the first view is profiled
ENDLESS = 10**7  # steps: trainings end by time


@dataclass(frozen=True)
class Settings:
    """How much is measured.

    Args:
        seconds: of training.
        warmup, iterations: untimed calls, then timed calls; of a frame at least one of each view.
        frame_seconds: that timing the frames of one size may take, which may cut their iterations.
        views: most cameras from which frames are rendered.
        rows: positions of a call when the field alone is compared with other implementations.
        batch: samples of a training step.
        log2_entries: logarithm to base 2 of the entries of a level; None: the default of the application.
        ngpc: the report estimates the speed-up by an accelerator, see `luxel.viewer.bench.fields.accelerator`.
    """

    seconds: float = 5.0
    warmup: int = 3
    iterations: int = 20
    frame_seconds: float = 1.0
    views: int = 4
    rows: int = 1 << 18
    batch: int = 1 << 18
    log2_entries: int | None = None
    ngpc: bool = False


def run(
    datasets: Sequence[Callable[[], FieldDataset]],
    encodings: Sequence[EncodingName],
    sizes: Sequence[Size],
    device: torch.device,
    settings: Settings,
    on_row: Callable[[dict[str, Any]], None] = lambda report: None,
) -> dict[str, Any]:
    """Measures every dataset with every encoding; a failure is recorded as text and the other measurements continue.

    Args:
        datasets: makers of what fields are trained on.
        encodings: of positions.
        sizes: of the frames.
        on_row: called with the report so far after each row.

    Returns:
        The report: plain values for JSON.
    """
    ceilings = measure_ceilings(device)
    report: dict[str, Any] = {
        "kind": "fields",
        "format": FORMAT,
        "machine": machine_facts(device),
        "ceilings": ceilings | half_ceiling(device, ceilings["flops_per_s"]),
        "settings": asdict(settings),
        "goal_ms": 1000 / RATE,
        "rows": [],
    }
    for make in datasets:
        dataset = make()
        for encoding in encodings:
            row: dict[str, Any] = {"field": dataset.kind, "scene": dataset.name, "encoding": encoding}
            row |= {"training": {}, "frames": [], "stages": {}, "rooflines": [], "peers": {}, "failures": {}}
            report["rows"].append(row)
            started = time.perf_counter()
            _measure(row, dataset, sizes, device, settings, report["ceilings"])
            row["whole_seconds"] = time.perf_counter() - started
            on_row(report)
    return report


def configuration(dataset: FieldDataset, encoding: EncodingName, settings: Settings) -> FieldConfig:
    """Configuration of a training: the defaults of the application, with encoding, batch and table size as given."""
    config = replace(
        defaults(dataset.kind), encoding=encoding, batch=settings.batch, steps=ENDLESS, schedule="steps"
    )
    if settings.log2_entries is not None:
        config.log2_entries = settings.log2_entries
    return config


def _measure(
    row: dict[str, Any],
    dataset: FieldDataset,
    sizes: Sequence[Size],
    device: torch.device,
    settings: Settings,
    ceilings: dict[str, Any],
) -> None:
    """Fills one row."""
    with scratch_folder() as folder:
        config = configuration(dataset, row["encoding"], settings)
        trained: list[FieldTrainer] = []

        def train() -> dict[str, Any]:
            trained.append(
                FieldTrainer.new(config, dataset.data, f"{folder}/run", device, say=lambda _: None)
            )
            return _train(trained[0], settings)

        _attempt(row, "training", train)
        if not row["training"]:
            return
        trainer = trained[0]
        full = encoded_field(trainer.application)
        row["parameters"] = trainer.application.count
        row["entries"] = sum(table.shape[0] for table in trainer.application.table_parameters())
        _attempt(
            row, "frames", lambda: [_frame(trainer.application, dataset, size, settings) for size in sizes]
        )
        queries = [frame.pop("queries") for frame in row["frames"]]

        def alone() -> dict[str, Any]:
            positions = max((q.largest for q in queries if q.largest is not None), key=len)
            turns = {"warmup": settings.warmup, "iterations": settings.iterations}
            return stages_alone(full, positions, device, **turns)

        if queries:
            _attempt(row, "stages", alone)
        if row["stages"]:
            row["rooflines"] = rooflines(row["stages"], full, ceilings)
            for frame in row["frames"]:
                _take_apart(frame, row["stages"], device)
        iterations = max(2, settings.iterations // 4)  # the plain torch field is slow
        _attempt(
            row,
            "peers",
            lambda: rates(full, settings.rows, device, warmup=1, iterations=iterations),
        )
        _attempt(row, "steps", lambda: _steps(trainer, settings))
        if device.type == "cuda":
            row["gpu_state"] = gpu_state(device)
    trained.clear()
    release_memory()


def _train(trainer: FieldTrainer, settings: Settings) -> dict[str, Any]:
    """Trains for the time of the settings and evaluates, which does not count as training time."""
    while trainer.train_seconds < settings.seconds:
        trainer.step()
    scores = trainer.evaluate()
    return {
        "seconds": trainer.train_seconds,
        "steps": trainer.steps_done,
        "batch": trainer.config.batch,
        "loss": trainer.loss,
        "scores": scores,
        "config": trainer.config.to_dict(),
    }


def _steps(trainer: FieldTrainer, settings: Settings) -> dict[str, Any]:
    """Times of further steps, as in the training: on a GPU replayed from a graph."""
    count = max(2 * settings.iterations, 2)
    times = times_ms(lambda _: trainer.step(), trainer.device, warmup=settings.warmup, iterations=count)
    # Some steps do more than others (a radiance field updates its occupancy grid): rates are of the mean.
    mean = float(np.mean(times))
    rate = 1e3 * trainer.config.batch / mean
    return {**summary(times), "mean": mean, "samples_per_s": rate, "captures": trainer.optimizer.captures}


def _frame(application: Application, dataset: FieldDataset, size: Size, settings: Settings) -> dict[str, Any]:
    """Times and kernels of the frames of one size."""
    device = application.device
    draws = frames(application, dataset, *size, settings.views)
    views = len(draws)

    def draw(i: int) -> Tensor:
        return draws[i % views]()

    with torch.no_grad():
        draw(0)  # builds what is made on first use, such as the coarse grid of a distance field
        with counting(encoded_field(application)) as queries:
            once = times_ms(draw, device, warmup=0, iterations=views)
        most = int(settings.frame_seconds * 1e3 / max(float(np.mean(once)), 1e-6))
        rounds = max(1, min(settings.iterations, most) // views)
        times = once
        if rounds > 1 or device.type == "cuda":
            times = times_ms(draw, device, warmup=1, iterations=rounds * views)
        profiled = views if float(np.mean(once)) < LONG_FRAME else 1
        timer = many_kernel_times if device.type == "cuda" else stage_times
        kernels = timer(draw, device, iterations=profiled)
    frame_times = summary(times)
    return {
        "width": size[0],
        "height": size[1],
        "views": views,
        "times": frame_times,
        "frame_ms": float(np.mean([np.median(times[view::views]) for view in range(profiled)])),
        "fps": 1000 / frame_times["median"],
        "reaches_goal": frame_times["median"] <= 1000 / RATE,
        "field_calls": queries.calls / views,
        "field_rows": queries.rows / views,
        "tables": queries.tables / views,
        "kernels": kernels,
        "queries": queries,
    }


def _take_apart(frame: dict[str, Any], alone: dict[str, Any], device: torch.device) -> None:
    """Adds the times and shares of the parts of a frame."""
    frame["encoding_share_of_fused"] = encoding_share(alone)
    rounding = frame["tables"] * alone["rounding_ms"]
    on_gpu = device.type == "cuda"
    frame["parts"] = frame_parts(frame["kernels"], frame["frame_ms"], encoding_share(alone), rounding, on_gpu)
    frame["shares"] = shares(frame["parts"])


def _attempt(row: dict[str, Any], key: str, function: Callable[[], Any]) -> None:
    """Stores what ``function`` returns, or the traceback of its failure."""
    try:
        row[key] = function()
    except Exception:
        row["failures"][key] = traceback.format_exc()
        print(f"{row['field']}, {row['encoding']}, {key}:\n{traceback.format_exc()}", file=sys.stderr)
    release_memory()
