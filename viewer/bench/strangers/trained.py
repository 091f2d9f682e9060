"""One training of the benchmark: the command as a user gives it, in a process of its own, and what it wrote."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median, median_low
from typing import Any

import torch

from luxel.render.train.config import TrainConfig
from luxel.scenes import open as open_capture
from luxel.viewer.bench.strangers.methods import GSPLAT, QUICK, Method
from luxel.viewer.bench.train.gsplat_settings import parse_settings
from luxel.viewer.bench.train.gsplat_trainer import train_gsplat
from luxel.viewer.bench.train.measure import WARM_UP_STEPS

COMMAND = (sys.executable, "-c", "from luxel.viewer.console import run; run()")
LINES = 12  # of the output of a command that failed


class OutOfTime(Exception):
    """A command was ended because the budget was spent."""


def luxel(words: list[str], log: Path, seconds: float) -> float:
    """Runs `luxel` in a process of its own; returns its wall time, from the start of the process.

    Args:
        words: of the command.
        log: file that its output is appended to.
        seconds: after which it is ended.

    Raises:
        OutOfTime: it was.
        RuntimeError: it failed; the message has the end of its output.
    """
    started = time.perf_counter()
    with log.open("ab") as file:
        begin = file.tell()
        try:
            done = subprocess.run(
                [*COMMAND, *words],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=seconds,
            )
        except subprocess.TimeoutExpired as error:
            raise OutOfTime(f"luxel {' '.join(words)}") from error
    wall = time.perf_counter() - started
    if done.returncode:
        output = log.read_bytes()[begin:].decode(errors="replace").strip().splitlines()
        raise RuntimeError(f"exit status {done.returncode}: " + "\n".join(output[-LINES:]))
    return wall


def train(
    method: Method,
    capture: Path,
    run: Path,
    device: torch.device,
    seconds: float,
    *,
    seed: int,
    quick: bool,
) -> dict[str, Any]:
    """Trains a capture by `luxel train` and returns the figures of the run.

    Args:
        method: what is trained, not gsplat's.
        capture: its folder.
        run: folder of the run; its output is put in a file of the same name with the suffix .log.
        device: to train on.
        seconds: after which the training is ended.
        seed: of the training.
        quick: a tiny training.

    Returns:
        psnr, ssim, lpips, seconds of training, wall_seconds of the process, steps and count; None for what a kind of
        scene does not have.

    Raises:
        OutOfTime, RuntimeError: see `luxel`.
    """
    words = ["train", str(capture), "--run", str(run), *method.words, "--device", device.type]
    words += ["--seed", str(seed)]
    wall = luxel([*words, *(QUICK[method.kind] if quick else ())], run.with_suffix(".log"), seconds)
    return {**figures(run), "wall_seconds": wall}


def medians(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The median of each figure over runs that differ in their seed; None where a run has none."""
    out: dict[str, Any] = {}
    for name in runs[0]:
        values = [run[name] for run in runs]
        if None in values:
            out[name] = None
        else:  # of numbers of elements and steps, one that occurred
            out[name] = median_low(values) if isinstance(values[0], int) else median(values)
    return out


def figures(run: Path) -> dict[str, Any]:
    """What a run folder says of the end of a training.

    Raises:
        RuntimeError: nothing was evaluated.
    """
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    scored = [line for line in lines if "test" in line]
    if not scored:
        raise RuntimeError(f"{run}: no view was evaluated")
    last, counts = scored[-1], [line["count"] for line in lines if "count" in line]
    scores = {name: last["test"].get(name) for name in ("psnr", "ssim", "lpips")}
    return {
        **scores,
        "steps": last["step"],
        "seconds": last["seconds"],
        "count": counts[-1] if counts else None,
    }


def train_peer(
    method: Method, capture: Path, device: torch.device, count: int | None, *, quick: bool
) -> dict[str, Any]:
    """Trains a capture by gsplat in this process and returns the same figures as `train`.

    Args:
        method: gsplat's training.
        capture: folder of the capture.
        device: a GPU.
        count: most Gaussians; None: the strategy's own bound.
        quick: a tiny training.
    """
    options = [*method.words, *(() if count is None else (f"count={count}",))]
    settings = parse_settings(f"{GSPLAT}-{method.preset}:" + ",".join(options))
    if quick:
        settings = parse_settings(f"{GSPLAT}-{method.preset}:steps={WARM_UP_STEPS['cuda']}")
    started = time.perf_counter()
    opened = open_capture(capture)
    opening = time.perf_counter() - started
    result = train_gsplat(settings, opened, TrainConfig(), device, evaluations=1, bound=settings.bound(None))
    names = ("psnr", "ssim", "lpips", "steps", "seconds", "count")
    return {**{name: result[name] for name in names}, "wall_seconds": opening + result["whole_seconds"]}
