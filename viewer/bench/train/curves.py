"""Curves of held-out PSNR over training time: sequences of points {"step", "seconds", "psnr"}."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

Curve = Sequence[dict[str, Any]]

AHEAD_FROM = (
    "{first} ahead from: the earliest training time from which on its best held-out PSNR so far is at least the "
    "variant's best so far, at every later time at which either was measured (a run that has ended keeps its best); "
    "never: there is no such time."
)
SHORTEST_WINDOW = 0.01  # of a run: shorter intervals measure the clock's resolution


def best_psnr(curve: Curve) -> float:
    """The highest PSNR of a curve; NaN where there is none."""
    return max((point["psnr"] for point in _measured(curve)), default=math.nan)


def ahead_from(first: Curve, other: Curve) -> float | Literal["never"] | None:
    """Seconds from which on the first curve is ahead of the other, see `AHEAD_FROM`; None where one has no points."""
    if not _measured(first) or not _measured(other):
        return None
    points = [
        (p["seconds"], k, p["psnr"]) for k, curve in enumerate((first, other)) for p in _measured(curve)
    ]
    best, since = [-math.inf, -math.inf], math.inf
    for seconds in sorted({seconds for seconds, _, _ in points}):
        for _, k, psnr in (point for point in points if point[0] == seconds):
            best[k] = max(best[k], psnr)
        since = min(since, seconds) if best[0] >= best[1] else math.inf
    return since if math.isfinite(since) else "never"


def seconds_to(curve: Curve, psnr: float) -> float:
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


def step_milliseconds(curve: Curve, steps: int, seconds: float) -> dict[str, Any] | None:
    """Milliseconds per step: the mean of a run, and of its fastest and slowest interval.

    An interval lies between two measurements, at which the device is synchronized, and is at least `SHORTEST_WINDOW`
    of the run long.

    Returns:
        mean, low, high, samples (number of intervals; without any, low and high are the mean); None without a step.
    """
    if steps < 1:
        return None
    mean = 1e3 * seconds / steps
    times, last_step, last_seconds = [], 0, 0.0
    for point in curve:
        if (length := point["step"] - last_step) >= max(1.0, SHORTEST_WINDOW * steps):
            times.append(1e3 * (point["seconds"] - last_seconds) / length)
            last_step, last_seconds = point["step"], point["seconds"]
    stretches = times or [mean]
    return {"mean": mean, "low": min(stretches), "high": max(stretches), "samples": len(times)}


def _measured(curve: Curve) -> list[dict[str, Any]]:
    return [point for point in curve if point["psnr"] is not None and math.isfinite(point["psnr"])]
