"""Combines the results of one variant on one capture with several seeds: means, and half of the range.

Trainings that differ in the seed alone (order of views, random backgrounds, densification) end at different PSNR.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from luxel.viewer.bench.train import curves

Result = dict[str, Any]  # of one training, see `measure.train_once`


def mean_result(runs: Sequence[Result]) -> Result:
    """The results of one variant on one capture with different seeds as one result.

    Figures are means over the seeds, those of integers rounded, and `peak_bytes` is the largest. The curve is that of
    `mean_curve`; best_psnr and final_minus_best are read from it. Strings that differ are joined by commas.

    Args:
        runs: single results, each with its ``seed``; at least one.

    Returns:
        A result with the same names but ``seed``, and seeds: the single results without views_scores.
    """
    mean = {name: _mean([run[name] for run in runs]) for name in runs[0] if name not in ("seed", "curve")}
    peaks = [run["peak_bytes"] for run in runs if run["peak_bytes"] is not None]
    curve = mean_curve([run["curve"] for run in runs])
    best = curves.best_psnr(curve)
    return mean | {
        "peak_bytes": max(peaks, default=None),
        "curve": curve,
        "best_psnr": best,
        "final_minus_best": mean["psnr"] - best,
        "seeds": [{name: value for name, value in run.items() if name != "views_scores"} for run in runs],
    }


def mean_curve(of_seeds: Sequence[curves.Curve]) -> list[dict[str, Any]]:
    """Means of seconds and PSNR at the steps that all curves have.

    Curves that end at different steps (where a run ends at a PSNR or a time) also give the mean of their last points.
    """
    by_step = [{point["step"]: point for point in curve} for curve in of_seeds]
    common = [step for step in by_step[0] if all(step in points for points in by_step)]
    mean = [_mean([points[step] for points in by_step]) for step in common]
    last = [curve[-1] for curve in of_seeds if curve]
    if len(last) == len(of_seeds) and len({point["step"] for point in last}) > 1:
        mean.append(_mean(last))
    return mean


def half_range(result: Result, name: str) -> float | None:
    """Half of the highest less the lowest figure of a result's seeds; None with fewer than two numbers."""
    values = [run[name] for run in result.get("seeds", ())]
    if len(values) < 2 or not all(value is not None and math.isfinite(value) for value in values):
        return None
    return (max(values) - min(values)) / 2


def _mean(values: Sequence[Any]) -> Any:
    """The mean of numbers, of each entry of dictionaries and of lists; None where one is None."""
    first = values[0]
    if all(value == first for value in values):
        return first
    if any(value is None for value in values):
        return None
    if isinstance(first, dict):
        return {name: _mean([v[name] for v in values]) for name in first if all(name in v for v in values)}
    if isinstance(first, list):
        return [_mean(entries) for entries in zip(*values, strict=False)]
    if not all(isinstance(value, int | float) for value in values):
        return ", ".join(dict.fromkeys(str(value) for value in values))
    mean = sum(values) / len(values)
    return round(mean) if all(isinstance(value, int) for value in values) else mean
