"""Trains captures to the end with each variant and measures quality over time."""

from __future__ import annotations

import gc
import json
import math
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import torch

from luxel.render.geometry.camera import pixel_count
from luxel.render.metrics.evaluate import Evaluation
from luxel.render.primitives import Parameters
from luxel.render.raster import Backend
from luxel.render.replay import release_memory
from luxel.render.storage.journal import scratch_folder
from luxel.render.train import TrainConfig, Trainer
from luxel.render.train.config import Checkpoints
from luxel.scenes import Capture
from luxel.viewer.bench.machine import gpu_state, machine_facts
from luxel.viewer.bench.raster.measure import FORMAT
from luxel.viewer.bench.train import curves
from luxel.viewer.bench.train.seeds import mean_result

WARM_UP_STEPS = {
    "cpu": 12,
    "cuda": 60,
}  # a GPU loads kernels at first use: both image sizes, and a refinement
EARLY = 4  # measurements before the first regular one, each at half the step of the next

Keep = Callable[[Path, str, Backend], None]


class Variant(Protocol):
    """A training that the benchmark compares with others.

    Attributes:
        name: in tables and plots, with its own settings.
        backend: the rasterizer.
        config: luxel's configuration; for another trainer, that of the run it is compared with.
    """

    @property
    def name(self) -> str: ...

    @property
    def backend(self) -> Backend: ...

    @property
    def config(self) -> TrainConfig: ...

    def with_seed(self, seed: int) -> Variant:
        """The same with another seed."""
        ...

    def require(self, device: torch.device) -> None:
        """Raises LuxelError where the variant cannot train on a device."""
        ...

    def differences(self, first: TrainConfig) -> dict[str, tuple[Any, Any]]:
        """By name, the first's value and its own where they are not the same; None: there is none."""
        ...

    def settings(self) -> dict[str, Any]:
        """All settings of the training, as plain values."""
        ...

    def train(
        self, capture: Capture, device: torch.device, first: dict[str, Any] | None, keep: Keep | None
    ) -> dict[str, Any]:
        """Trains a capture; see `train_once`, for the results and ``keep``.

        Args:
            first: results of the first variant on the capture; None: it failed, or this is the first.
        """
        ...


def run(
    captures: Sequence[Capture],
    variants: Sequence[Variant],
    device: torch.device,
    on_row: Callable[[dict[str, Any]], None] = lambda report: None,
    *,
    seeds: int = 1,
    keep: Keep | None = None,
) -> dict[str, Any]:
    """Trains every capture with every variant: the same data and hold-out.

    With several seeds all variants train with one seed before the next, so that drift of the machine affects all alike.

    Args:
        captures: data sets to train on.
        variants: what to train with; the first is compared with the others.
        on_row: called with the report so far after each run.
        seeds: how many runs each variant has on each capture, the first with the seed of its configuration, each
            further one with the next number. With more than one, results are those of `mean_result`.
        keep: called with the run folder, the capture's name and the backend before the folder is deleted; not for
            gsplat's own trainings, which have no run folder.

    Returns:
        The report: plain values for JSON.
    """
    report = _empty_report(variants, device, seeds)
    for capture in captures:
        row: dict[str, Any] = {**describe_capture(capture), "results": {}, "failures": {}}
        report["rows"].append(row)
        runs: dict[str, list[dict[str, Any]]] = {one.name: [] for one in variants}
        for offset in range(seeds):
            first: dict[str, Any] | None = None
            for one in variants:
                seeded = one.with_seed(one.config.seed + offset)
                label = f"{one.name}, seed {seeded.config.seed}" if seeds > 1 else one.name
                result = _try(seeded, label, capture, device, first, keep, row["failures"])
                if result is not None:
                    runs[one.name].append({"seed": seeded.config.seed, **result})
                if one is variants[0]:
                    first = result
                row["results"] = _summarised(runs, seeds)
                on_row(report)
    return report


def _empty_report(variants: Sequence[Variant], device: torch.device, seeds: int) -> dict[str, Any]:
    """A report without rows; ``seeds`` is in it where there is more than one."""
    first = variants[0]
    return {
        "kind": "train",
        "format": FORMAT,
        "machine": machine_facts(device),
        **({"seeds": seeds} if seeds > 1 else {}),
        "variants": [
            {
                "name": one.name,
                "backend": one.backend,
                "differences": one.differences(first.config),
                "config": one.settings(),
            }
            for one in variants
        ],
        "definitions": {"ahead_from": curves.AHEAD_FROM.format(first=first.name)},
        "rows": [],
    }


def _try(
    variant: Variant,
    label: str,
    capture: Capture,
    device: torch.device,
    first: dict[str, Any] | None,
    keep: Keep | None,
    failures: dict[str, str],
) -> dict[str, Any] | None:
    """Trains once and prints the result; None: it failed, and ``failures`` has the error under the label."""
    try:
        result = variant.train(capture, device, first, keep)
    except Exception:
        failures[label] = traceback.format_exc()
        print(f"{capture.name}, {label}:\n{failures[label]}", file=sys.stderr)
        return None
    figures = f"{result['psnr']:.2f} dB in {result['seconds']:.1f} s"
    print(f"{capture.name}, {label}: {figures}", file=sys.stderr, flush=True)
    return result


def _summarised(runs: dict[str, list[dict[str, Any]]], seeds: int) -> dict[str, dict[str, Any]]:
    """The results of a row, in the order of the variants, from the runs so far (see `run`)."""
    results: dict[str, dict[str, Any]] = {}
    for name, singles in runs.items():
        if singles:
            single = {key: value for key, value in singles[0].items() if key != "seed"}
            results[name] = mean_result(singles) if seeds > 1 else single
    first = next(iter(runs))
    for name in results:
        if name != first and first in results:
            ours, others = results[first]["curve"], results[name]["curve"]
            results[name]["ahead_from"] = curves.ahead_from(ours, others)
    return results


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
    keep: Keep | None = None,
) -> dict[str, Any]:
    """Trains in a folder of its own, which is deleted afterwards, and returns what was measured.

    Evaluations do not count as training time, nor does the one-time work of a backend (loading, compiling): a few steps
    of another run come first.

    Returns:
        psnr, ssim, lpips at the end; best_psnr during training and final_minus_best (0 or less); seconds of training,
        steps_per_s, step_ms (see `curves.step_milliseconds`), count, scene_mb (parameters as float32), peak_bytes (None
        on a CPU), curve: step, seconds and psnr on held-out views; and the entries of `outcome` and `facts`.
    """
    config = config.sized(pixel_count(capture.train))
    quiet = Checkpoints(every=0, minutes=0)
    with scratch_folder() as scratch:
        warm = replace(
            config,
            steps=min(WARM_UP_STEPS[device.type], config.steps),
            checkpoints=quiet,
            eval_every=0,
            target_psnr=None,
            save_renders=0,
            lpips=False,
        )
        _trainer(warm, capture, scratch / "warm", device, test=False).run(progress=False)
        before = quiet_device(device)
        folder = scratch / "run"
        started = time.perf_counter()
        trainer = _trainer(replace(config, checkpoints=quiet), capture, folder, device)
        prepared = time.perf_counter() - started
        result = trainer.run(progress=False)
        if result.reason == "interrupted":
            raise KeyboardInterrupt
        ended = facts(device, started, prepared, before)
        log = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        if keep is not None:
            keep(folder, capture.name, config.backend)
    curve = [
        {"step": line["step"], "seconds": line["seconds"], "psnr": line["test"]["psnr"]}
        for line in log
        if "test" in line
    ]
    measured = outcome(
        result.evaluation, curve, trainer.scene, result.step, result.train_seconds, result.reason
    )
    return measured | ended


def quiet_device(device: torch.device) -> dict[str, Any]:
    """Waits for a GPU, frees unused memory and resets its peak; returns `gpu_state` (empty on a CPU)."""
    gc.collect()  # what holds itself in a circle: memory of the last run would count
    if device.type != "cuda":
        return {}
    torch.cuda.synchronize(device)
    release_memory()
    torch.cuda.reset_peak_memory_stats(device)
    return gpu_state(device)


def outcome(
    evaluation: Evaluation | None,
    curve: list[dict[str, Any]],
    scene: Parameters,
    steps: int,
    seconds: float,
    reason: str,
) -> dict[str, Any]:
    """The entries of `train_once`'s results that describe the training.

    Args:
        evaluation: at the end; None: nothing is held out.
        curve: measurements during training, see `curves`.
        scene: at the end.
        steps, seconds: of training.
        reason: why it ended.
    """
    mean = evaluation.mean if evaluation else None
    best = curves.best_psnr(curve)
    return {
        "psnr": mean.psnr if mean else math.nan,
        "best_psnr": best,
        "final_minus_best": mean.psnr - best if mean else math.nan,
        "ssim": mean.ssim if mean else math.nan,
        "lpips": mean.lpips if mean else math.nan,
        "seconds": seconds,
        "steps": steps,
        "steps_per_s": steps / seconds if seconds > 0 else math.nan,
        "step_ms": curves.step_milliseconds(curve, steps, seconds),
        "reason": reason,
        "count": scene.count,
        "scene_mb": sum(4 * t.numel() for t in scene.tensors().values()) / 1e6,
        "curve": curve,
        "views_scores": evaluation.as_dict()["views"] if evaluation else [],
    }


def facts(device: torch.device, started: float, prepared: float, before: dict[str, Any]) -> dict[str, Any]:
    """The entries of `train_once`'s results that describe the machine, at the end of a run.

    Args:
        started: `time.perf_counter` at the start of the run.
        prepared: seconds until the first step.
        before: `quiet_device` before the start.
    """
    on_gpu = device.type == "cuda"
    return {
        "peak_bytes": torch.cuda.max_memory_allocated(device) if on_gpu else None,
        "prepare_seconds": prepared,
        "whole_seconds": time.perf_counter() - started,
        "gpu_state_before": before,
        "gpu_state": gpu_state(device) if on_gpu else {},
    }


def early_steps(config: TrainConfig) -> frozenset[int]:
    """Steps of the measurements before the first regular one (`TrainConfig.eval_every`)."""
    return _early(config.eval_every, config.steps)


def measured_steps(every: int, steps: int) -> list[int]:
    """Steps after which a run is measured: every ``every`` steps, some early ones, and the last."""
    return sorted(_early(every, steps) | {*range(every, steps, every), steps})


def _early(every: int, steps: int) -> frozenset[int]:
    return frozenset(step for k in range(1, EARLY + 1) if 0 < (step := every >> k) < steps)


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
