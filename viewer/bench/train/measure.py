"""Trains a capture to the end with each backend and measures quality over time."""

from __future__ import annotations

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
from luxel.render.replay import release_memory
from luxel.render.train import TrainConfig, Trainer
from luxel.render.train.config import Checkpoints
from luxel.scenes import Capture
from luxel.viewer.bench.machine import gpu_state, machine_facts
from luxel.viewer.bench.raster.measure import FORMAT
from luxel.viewer.bench.train import curves
from luxel.viewer.bench.train.variants import TrainVariant

WARM_UP_STEPS = 12
EARLY = 4  # measurements within the first interval between two, each at half the step of the next


def run(
    captures: Sequence[Capture],
    variants: Sequence[TrainVariant],
    device: torch.device,
    on_row: Callable[[dict[str, Any]], None] = lambda report: None,
    *,
    keep: Callable[[Path, str, Backend], None] | None = None,
) -> dict[str, Any]:
    """Trains every capture with every variant: the same data and hold-out.

    Args:
        captures: data sets to train on.
        variants: configurations; the first is compared with the others.
        on_row: called with the report so far after each run.
        keep: called with the run folder, the capture's name and the backend before the folder is deleted.

    Returns:
        The report: plain values for JSON.
    """
    first = variants[0]
    report: dict[str, Any] = {
        "kind": "train",
        "format": FORMAT,
        "machine": machine_facts(device),
        "variants": [
            {
                "name": one.name,
                "backend": one.config.backend,
                "differences": one.differences(first.config),
                "config": one.config.to_dict(),
            }
            for one in variants
        ],
        "definitions": {"ahead_from": curves.AHEAD_FROM.format(first=first.name)},
        "rows": [],
    }
    for capture in captures:
        results: dict[str, Any] = {}
        row = {**describe_capture(capture), "results": results, "failures": {}}
        report["rows"].append(row)
        for one in variants:
            try:
                results[one.name] = train_once(one.config, capture, device, keep)
            except Exception:
                row["failures"][one.name] = traceback.format_exc()
                print(f"{capture.name}, {one.name}:\n{traceback.format_exc()}", file=sys.stderr)
            if one is not first and first.name in results and one.name in results:
                ours, others = (results[name]["curve"] for name in (first.name, one.name))
                results[one.name]["ahead_from"] = curves.ahead_from(ours, others)
            on_row(report)
    return report


def describe_capture(capture: Capture) -> dict[str, Any]:
    """The columns of a row that describe its capture."""
    first = capture.train[0].camera
    return {
        "scene": capture.name,
        "kind": capture.format,
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
        psnr, ssim, lpips at the end; best_psnr during training and final_minus_best (0 or less); seconds of training,
        steps_per_s, step_ms (see `curves.step_milliseconds`), count, scene_mb (parameters as
        float32), peak_bytes (None on a CPU), curve: (step, seconds,
        psnr) on held-out views, and more.
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
            release_memory()
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
    curve = [
        {"step": line["step"], "seconds": line["seconds"], "psnr": line["test"]["psnr"]}
        for line in log
        if "test" in line
    ]
    best = curves.best_psnr(curve)
    return {
        "psnr": mean.psnr if mean else math.nan,
        "best_psnr": best,
        "final_minus_best": mean.psnr - best if mean else math.nan,
        "ssim": mean.ssim if mean else math.nan,
        "lpips": mean.lpips if mean else math.nan,
        "seconds": result.train_seconds,
        "steps": result.step,
        "steps_per_s": result.step / result.train_seconds if result.train_seconds > 0 else math.nan,
        "step_ms": curves.step_milliseconds(curve, result.step, result.train_seconds),
        "reason": result.reason,
        "count": result.count,
        "scene_mb": sum(4 * t.numel() for t in trainer.scene.tensors().values()) / 1e6,
        "peak_bytes": peak,
        "curve": curve,
        "prepare_seconds": prepared,
        "whole_seconds": whole,
        "views_scores": result.evaluation.as_dict()["views"] if result.evaluation else [],
        "gpu_state_before": before,
        "gpu_state": gpu_state(device) if device.type == "cuda" else {},
    }


def early_steps(config: TrainConfig) -> frozenset[int]:
    """Steps of the measurements before the first that `TrainConfig.eval_every` asks for."""
    steps = (config.eval_every >> k for k in range(1, EARLY + 1))
    return frozenset(step for step in steps if 0 < step < config.steps)


class _Measured(Trainer):
    """A trainer that also measures at some early steps, outside of the training time like all measurements."""

    early: frozenset[int] = frozenset()

    def evaluate_when_due(self) -> None:
        if self.steps_done in self.early:
            self.loop.wait_for_device()
            if not self.synchronize():
                self.early -= {self.steps_done}
                self.evaluate()
        super().evaluate_when_due()


def _trainer(
    config: TrainConfig, capture: Capture, folder: Path, device: torch.device, *, test: bool = True
) -> _Measured:
    trainer = _Measured(
        config,
        capture.train,
        capture.test if test else [],
        capture.points,
        folder,
        device,
        say=lambda text: print(f"  {text}", file=sys.stderr, flush=True) if test else None,
    )
    if test:
        trainer.early = early_steps(config)
    return trainer
