"""Measures the rasterizers on scenes: times in turns, memory, kernels, quality, rooflines."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from luxel.render.geometry.camera import Camera
from luxel.render.primitives import Parameters
from luxel.render.primitives.time_range import time_range
from luxel.render.raster import Backend
from luxel.render.replay import release_memory
from luxel.viewer.bench.machine import gpu_state, machine_facts
from luxel.viewer.bench.raster.quality import measure_quality
from luxel.viewer.bench.raster.roofline import by_stage, count_work, measure_ceilings, rooflines
from luxel.viewer.bench.raster.scenes import Scene, Size
from luxel.viewer.bench.raster.variants import PASSES, CameraSample, RasterVariant, variants
from luxel.viewer.bench.timing import compare_ms, kernel_times, peak_bytes, stage_times

FORMAT = 1  # of the JSON
GOALS_ON = "H200"  # goals apply to GPUs whose name contains this
WHOLE = PASSES[-1]
PROFILED = (PASSES[0], WHOLE)  # passes whose memory and kernels are measured


@dataclass(frozen=True)
class Settings:
    """How much is measured.

    Args:
        warmup, iterations: untimed calls, then timed calls, per variant and pass.
        tiles: tiles that the float64 reference draws; 0: no quality.
        cameras: views of a ring that are rendered in turn at most.
        profiled: whether the kernels of a frame are listed, for stages and rooflines.
    """

    warmup: int = 10
    iterations: int = 100
    tiles: int = 64
    cameras: int = 8
    profiled: bool = True


def run(
    scenes: Sequence[tuple[Scene, Sequence[Size]]],
    backends: Sequence[Backend],
    device: torch.device,
    settings: Settings,
    on_row: Callable[[dict[str, Any]], None] = lambda report: None,
) -> dict[str, Any]:
    """Measures every scene at every size; a failure is recorded as text and the other measurements continue.

    Args:
        scenes: scenes with their image sizes.
        backends: rasterizer backends; the first is compared with the others.
        on_row: called with the report so far after each row.

    Returns:
        The report: plain values for JSON.
    """
    report: dict[str, Any] = {
        "kind": "raster",
        "format": FORMAT,
        "machine": machine_facts(device),
        "ceilings": measure_ceilings(device) if settings.profiled else {},
        "settings": asdict(settings),
        "backends": list(backends),
        "rows": [],
    }
    for scene, sizes in scenes:
        built = scene.build(device)
        for width, height in sizes:
            row: dict[str, Any] = {"scene": scene.name, "width": width, "height": height}
            row |= {"gaussians": built.count, "primitive": built.primitive}
            row |= {"goals": scene.goals.get((width, height))}
            cameras = [c.to(device) for c in scene.look(built, width, height)[: settings.cameras]]
            _measure(row, built, _samples(built, cameras), backends, settings, report["ceilings"])
            report["rows"].append(row)
            on_row(report)
    return report


def _samples(scene: Parameters, cameras: Sequence[Camera]) -> list[CameraSample]:
    """Each camera at its own time, evenly over those of a scene that moves."""
    if (times := time_range(scene)) is None:
        return [CameraSample(camera, None) for camera in cameras]
    start, end = times
    return [CameraSample(c, start + (end - start) * (k + 0.5) / len(cameras)) for k, c in enumerate(cameras)]


def _measure(
    row: dict[str, Any],
    built: Parameters,
    samples: Sequence[CameraSample],
    backends: Sequence[Backend],
    settings: Settings,
    ceilings: dict[str, Any],
) -> None:
    """Fills one row."""
    row |= {"cameras": len(samples), "work": {}, "results": {}, "failures": {}}
    _attempt(row, "work", lambda: count_work(built, samples))
    if settings.tiles > 0:
        _attempt(
            row,
            "quality",
            lambda: measure_quality(built, samples[0], backends, settings.tiles),
        )
    _attempt(row, "results", lambda: _timed(row, built, samples, backends, settings))
    gpu = torch.cuda.get_device_name(built.device) if built.device.type == "cuda" else ""
    for result in row["results"].values():
        result["stages"] = {pass_name: by_stage(rows) for pass_name, rows in result["kernels"].items()}
        known = bool(row["work"])
        result["rooflines"] = rooflines(result["kernels"][WHOLE], row["work"], ceilings) if known else []
    ours = [r for r in row["results"].values() if r["backend"] == "luxel" and r["ranked"]]
    if row["goals"] and ours and GOALS_ON in gpu:
        medians = [min(result["times"][name]["median"] for result in ours) for name in PROFILED]
        row["goals_met"] = [ms <= goal for ms, goal in zip(medians, row["goals"], strict=True)]
    if built.device.type == "cuda":
        row["gpu_state"] = gpu_state(built.device)


def _timed(
    row: dict[str, Any],
    built: Parameters,
    samples: Sequence[CameraSample],
    backends: Sequence[Backend],
    settings: Settings,
) -> dict[str, Any]:
    """Times of all variants in turns, then memory and kernels of each alone."""
    device = built.device
    contestants = variants(backends, built, samples)
    generator = torch.Generator().manual_seed(3)
    g_image = torch.randn(row["height"], row["width"], 3, generator=generator).to(device)
    runs = {variant.name: variant.passes(samples, g_image) for variant in contestants}
    out: dict[str, Any] = {
        variant.name: {
            "backend": variant.backend,
            "ranked": variant.ranked,
            "times": {},
            "peak_bytes": {},
            "kernels": {},
        }
        for variant in contestants
    }
    for name in PASSES:
        times = compare_ms(
            {variant: passes[name] for variant, passes in runs.items()},
            device,
            warmup=settings.warmup,
            iterations=settings.iterations,
        )
        for variant in contestants:
            out[variant.name]["times"][name] = times[variant.name]
            variant.drop_gradients()
    for variant in contestants:
        result, passes = out[variant.name], runs[variant.name]
        timer = kernel_times if device.type == "cuda" else stage_times
        for name in PROFILED:
            result["peak_bytes"][name] = _peak(variant, passes[name], name == WHOLE, device)
            result["kernels"][name] = timer(passes[name], device) if settings.profiled else []
        variant.drop_gradients()
    return out


def _peak(
    variant: RasterVariant, run_pass: Callable[[int], object], backward: bool, device: torch.device
) -> int | None:
    """Bytes of parameters, their gradients with ``backward``, and what a pass adds at its peak; None on a CPU."""
    variant.drop_gradients()
    peak = peak_bytes(run_pass, device)
    parameters = sum(t.numel() * t.element_size() for t in variant.leaves)
    # A pass begins by dropping the gradients of the last one: what it frees is not part of its peak.
    return peak + parameters * (2 if backward else 1) if peak else None


def _attempt(row: dict[str, Any], key: str, function: Callable[[], Any]) -> None:
    """Stores what ``function`` returns, or the traceback of its failure."""
    try:
        row[key] = function()
    except Exception:
        row["failures"][key] = traceback.format_exc()
        print(
            f"{row['scene']} {row['width']}x{row['height']}, {key}:\n{traceback.format_exc()}",
            file=sys.stderr,
        )
    release_memory()
