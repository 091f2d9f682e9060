"""Trains a capture to the end with each backend and measures quality over time."""

from __future__ import annotations

import itertools
import json
import math
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from luxel.render.backends import Backend
from luxel.render.train import TrainConfig, Trainer
from luxel.render.train.config import Checkpoints
from luxel.scenes import Capture
from luxel.viewer.bench.machine import gpu_state, machine_facts
from luxel.viewer.bench.raster import FORMAT
from luxel.viewer.bench.timing import summary

WARM_UP_STEPS = 12


def run(
    captures: Sequence[tuple[Capture, TrainConfig]],
    backends: Sequence[Backend],
    device: torch.device,
    on_row: Callable[[dict[str, Any]], None] = lambda report: None,
    *,
    keep: Callable[[Path, str, Backend], None] | None = None,
) -> dict[str, Any]:
    """Trains every capture with every backend: the same data, start, schedule, seed and hold-out.

    Args:
        captures: what is trained on, and how; the configuration's own backend does not count.
        backends: who draws, the first against the others.
        on_row: told the report so far after each run.
        keep: called with the run folder, the capture's name and the backend before the folder is deleted.

    Returns:
        The report: plain values for JSON.
    """
    report: dict[str, Any] = {
        "kind": "train",
        "format": FORMAT,
        "machine": machine_facts(device),
        "backends": list(backends),
        "rows": [],
    }
    for capture, config in captures:
        row = {**describe_capture(capture), "config": config.to_dict(), "results": {}, "failures": {}}
        report["rows"].append(row)
        for backend in backends:
            try:
                row["results"][backend] = train_once(replace(config, backend=backend), capture, device, keep)
            except Exception:
                row["failures"][backend] = traceback.format_exc()
                print(f"{capture.name}, {backend}:\n{traceback.format_exc()}", file=sys.stderr)
            on_row(report)
    return report


def describe_capture(capture: Capture) -> dict[str, Any]:
    """What a row says of its capture."""
    first = capture.train[0].camera
    return {
        "scene": capture.name,
        "kind": capture.kind,
        "views": len(capture.train),
        "held_out": len(capture.test),
        "holdout": capture.holdout,
        "width": first.width,
        "height": first.height,
        "points": len(capture.points.xyz),
    }


def train_once(
    config: TrainConfig,
    capture: Capture,
    device: torch.device,
    keep: Callable[[Path, str, Backend], None] | None = None,
) -> dict[str, Any]:
    """Trains in a folder of its own, which is deleted afterwards, and returns what was measured.

    Evaluations are outside of the training time, and so is what a backend does once (loading, compiling): a few steps
    of another run come first.

    Returns:
        psnr, ssim, lpips at the end; seconds of training, steps_per_s, step_ms (percentiles over the report
        intervals), count, peak_bytes (None on a CPU), curve: (step, seconds, psnr) on held-out views, and more.
    """
    quiet = Checkpoints(every=0, minutes=0)
    with tempfile.TemporaryDirectory(prefix="luxel-bench-") as scratch:
        warm = replace(
            config,
            steps=min(WARM_UP_STEPS, config.steps),
            checkpoints=quiet,
            eval_every=0,
            target_psnr=None,
            save_renders=0,
            lpips=False,
        )
        _trainer(warm, capture, Path(scratch) / "warm", device, test=False).run(progress=False)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(device)
        before = gpu_state(device) if device.type == "cuda" else {}
        folder = Path(scratch) / "run"
        started = time.perf_counter()
        trainer = _trainer(replace(config, checkpoints=quiet), capture, folder, device)
        prepared = time.perf_counter() - started
        result = trainer.run(progress=False)
        if result.reason == "interrupted":
            raise KeyboardInterrupt
        whole = time.perf_counter() - started
        peak = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None
        log = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        if keep is not None:
            keep(folder, capture.name, config.backend)
        shutil.rmtree(folder)
    mean = result.evaluation.mean if result.evaluation else None
    return {
        "psnr": mean.psnr if mean else math.nan,
        "ssim": mean.ssim if mean else math.nan,
        "lpips": mean.lpips if mean else math.nan,
        "seconds": result.train_seconds,
        "steps": result.step,
        "steps_per_s": result.step / result.train_seconds if result.train_seconds > 0 else math.nan,
        "step_ms": step_milliseconds(log),
        "reason": result.reason,
        "count": result.count,
        "peak_bytes": peak,
        "curve": [
            {"step": line["step"], "seconds": line["seconds"], "psnr": line["test"]["psnr"]}
            for line in log
            if "test" in line
        ],
        "prepare_seconds": prepared,
        "whole_seconds": whole,
        "views_scores": result.evaluation.as_dict()["views"] if result.evaluation else [],
        "gpu_state_before": before,
        "gpu_state": gpu_state(device) if device.type == "cuda" else {},
    }


def step_milliseconds(log: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Milliseconds per step over the intervals at which readings of the loss arrive."""
    read = [(line["step"], line["seconds"]) for line in log if "loss" in line]
    pairs = itertools.pairwise(read)
    times = [1e3 * (end - start) / (last - first) for (first, start), (last, end) in pairs if last > first]
    return summary(times) if times else None


def seconds_to(curve: Sequence[dict[str, Any]], psnr: float) -> float:
    """Seconds of training after which a curve has reached a PSNR, interpolated; NaN where it never does."""
    before: dict[str, Any] | None = None
    for point in curve:
        if point["psnr"] is not None and point["psnr"] >= psnr:
            if before is None or before["psnr"] is None:
                return point["seconds"]
            share = (psnr - before["psnr"]) / (point["psnr"] - before["psnr"])
            return before["seconds"] + share * (point["seconds"] - before["seconds"])
        before = point
    return math.nan


def _trainer(
    config: TrainConfig, capture: Capture, folder: Path, device: torch.device, *, test: bool = True
) -> Trainer:
    return Trainer(
        config,
        capture.train,
        capture.test if test else [],
        capture.points,
        folder,
        device,
        say=lambda text: print(f"  {text}", file=sys.stderr, flush=True) if test else None,
    )
