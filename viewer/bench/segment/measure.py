"""Measures segmentation: times of votes and label images, of the network, and the quality of labels."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from luxel.render.primitives.time_range import time_range
from luxel.render.replay import release_memory
from luxel.render.segment import Segmenter, SolveOptions
from luxel.viewer.bench.machine import gpu_state, machine_facts
from luxel.viewer.bench.raster.measure import FORMAT
from luxel.viewer.bench.raster.scenes import Scene, Size
from luxel.viewer.bench.segment import network, quality, speed
from luxel.viewer.bench.segment.choices import PartName, ProviderName
from luxel.viewer.bench.segment.scenes import LabelledScene, Sizes, labelled_scene
from luxel.viewer.segmenting import make_segmenter


@dataclass(frozen=True)
class Settings:
    """What is measured, and how much.

    Args:
        parts: see `PartName`.
        labels: numbers of labels for the times.
        primitives, providers: of the quality.
        views, clicked_views: numbers of views with label maps, and that a segmenter looks at after clicks.
        sizes: of the trained scenes.
        cameras: most views from which times are taken.
        warmup, iterations: untimed calls, then timed calls.
        cache: folder that keeps captures and trained scenes; None: nothing is stored.
        solve: how labels are chosen.
    """

    parts: Sequence[PartName]
    labels: Sequence[int]
    primitives: Sequence[str]
    providers: Sequence[ProviderName]
    views: Sequence[int]
    clicked_views: Sequence[int]
    sizes: Sizes
    cameras: int = 4
    warmup: int = 2
    iterations: int = 10
    cache: Path | None = None
    solve: SolveOptions = field(default_factory=SolveOptions)


def run(
    scenes: Sequence[Scene],
    sizes: Sequence[Size],
    device: torch.device,
    settings: Settings,
    on_row: Callable[[dict[str, Any]], None] = lambda report: None,
) -> dict[str, Any]:
    """Measures the parts; a failure is recorded as text and the other measurements continue.

    Args:
        scenes, sizes: on which times are taken, and of which images.
        device: to measure on.
        settings: see there.
        on_row: called with the report so far after each row.

    Returns:
        The report: plain values for JSON. Each row has its part and failures, and what the part measured.
    """
    report: dict[str, Any] = {
        "kind": "segment",
        "format": FORMAT,
        "machine": machine_facts(device),
        "settings": asdict(settings) | {"cache": None},
        "rows": [],
    }

    def attempt(row: dict[str, Any], measure: Callable[[], dict[str, Any]]) -> None:
        report["rows"].append(row | {"failures": {}})
        _attempt(report["rows"][-1], measure)
        if device.type == "cuda":
            report["rows"][-1]["gpu_state"] = gpu_state(device)
        on_row(report)

    if "times" in settings.parts:
        _times(scenes, sizes, device, settings, attempt)
    if "network" in settings.parts:
        for width, height in sizes:
            row = {"part": "network", "width": width, "height": height}
            attempt(
                row, partial(network.measure, width, height, device, warmup=1, iterations=settings.iterations)
            )
    if "quality" in settings.parts:
        for primitive in settings.primitives:
            _qualities(primitive, device, settings, attempt)
    return report


def _attempt(row: dict[str, Any], measure: Callable[[], dict[str, Any]]) -> None:
    """Adds what ``measure`` returns to a row, or the traceback of its failure."""
    try:
        row |= measure()
    except Exception:
        row["failures"][row["part"]] = traceback.format_exc()
        print(f"{row['part']}:\n{traceback.format_exc()}", file=sys.stderr)
    release_memory()


Attempt = Callable[[dict[str, Any], Callable[[], dict[str, Any]]], None]


def _times(
    scenes: Sequence[Scene], sizes: Sequence[Size], device: torch.device, settings: Settings, attempt: Attempt
) -> None:
    """Rows of times: each scene at each size with each number of labels."""
    for scene in scenes:
        built = scene.build(device)
        span = time_range(built)
        moment = None if span is None else sum(span) / 2
        for width, height in sizes:
            cameras = [c.to(device) for c in scene.look(built, width, height)[: settings.cameras]]
            for count in settings.labels:
                row = {"part": "times", "scene": scene.name, "primitive": built.primitive}
                row |= {"count": built.count, "width": width, "height": height, "labels": count}
                repeats = {"warmup": settings.warmup, "iterations": settings.iterations}
                attempt(row, partial(speed.measure, built, cameras, count, moment, **repeats))


def _qualities(primitive: str, device: torch.device, settings: Settings, attempt: Attempt) -> None:
    """Rows of quality of one primitive: each provider with each number of views."""

    def say(text: str) -> None:
        print(f"  {text}", file=sys.stderr, flush=True)

    retained: list[LabelledScene] = []
    bounds: list[float] = []
    segmenters: list[Segmenter] = []

    def measure(provider: ProviderName, views: int) -> dict[str, Any]:
        if not retained:
            retained.append(labelled_scene(primitive, settings.sizes, settings.cache, device, say))
            bounds.append(quality.bound(retained[0], settings.solve))
        made = retained[0]
        if provider == "mobile-sam":
            if not segmenters:
                segmenters.append(make_segmenter("mobile-sam", made.train, device))
            scored = quality.from_clicks(made, segmenters[0], views, settings.solve)
        else:
            scored = quality.from_maps(made, provider, views, settings.solve)
        facts = {"scene": made.name, "count": made.scene.count, "held_out": len(made.test)}
        return {**facts, "bound": bounds[0], **scored}

    for provider in settings.providers:
        for views in settings.clicked_views if provider == "mobile-sam" else settings.views:
            row = {"part": "quality", "primitive": primitive, "provider": provider, "given_views": views}
            attempt(row, partial(measure, provider, views))
