"""First and last time of a dynamic scene."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from luxel.render.geometry.camera import View


def time_range(scene: Any, views: Sequence[View] = ()) -> tuple[float, float] | None:
    """First and last time of a dynamic scene.

    Args:
        scene: `Parameters`, or anything else with ``moves`` and perhaps ``times`` [N].
        views: its posed images; if their times differ, these give the range. Otherwise the 1st and 99th percentile
            of the ``times`` of the primitives do.

    Returns:
        Start and end, start < end, in the unit of the capture's times; None for a static scene.
    """
    if not scene.moves:
        return None
    times = torch.tensor([view.time for view in views], dtype=torch.float64)
    own = getattr(scene, "times", None)
    if not _spread(times) and own is not None:
        own = own.detach().flatten()
        own = own[:: max(1, own.numel() // 100_000)].cpu().double()
        own = own[own.isfinite()]
        if own.numel():
            times = torch.quantile(own, torch.tensor([0.01, 0.99], dtype=torch.float64))
    if _spread(times):
        return float(times.min()), float(times.max())
    middle = float(times[0]) if times.numel() and math.isfinite(times[0]) else 0.5
    return middle - 0.5, middle + 0.5


def _spread(times: torch.Tensor) -> bool:
    return times.numel() > 1 and bool(times.isfinite().all()) and float(times.max()) > float(times.min())
