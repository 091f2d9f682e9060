"""Images that are much less sharp than those taken alongside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from luxel.render.geometry.camera import View
from luxel.scenes.captures.checks.finding import Finding, about_views
from luxel.scenes.captures.checks.measures import Measures, measure
from luxel.scenes.captures.open_capture import Capture

LEAST = 0.3  # of the median sharpness of the neighbours; the unit of the values


def relative_sharpness(measures: Measures) -> np.ndarray:
    """Sharpness of each view over the median of that of its neighbours, [V]; 1 where they show nothing sharp."""
    if not measures.neighbours.shape[1]:
        return np.ones(len(measures.names))
    usual = np.median(measures.sharpness[measures.neighbours], axis=1)
    return np.where(usual > 1, measures.sharpness / np.maximum(usual, 1e-6), 1.0)


def with_sharpness(
    views: Sequence[View], on_progress: Callable[[float], None] = lambda _: None
) -> list[View]:
    """The views with their `relative_sharpness`; reads all images.

    Args:
        on_progress: called with the fraction done in [0, 1].
    """
    ratio = relative_sharpness(measure(views, np.zeros((0, 3)), on_progress))
    return [replace(view, sharpness=float(x)) for view, x in zip(views, ratio, strict=True)]


def check_blur(capture: Capture, measures: Measures) -> list[Finding]:
    """Views whose sharpness is below LEAST of that of their neighbours, which see nearly the same."""
    if not measures.neighbours.shape[1]:
        return []
    ratio = relative_sharpness(measures)
    rows = [int(row) for row in np.argsort(ratio) if ratio[row] < LEAST]
    problem = f"{len(rows)} of {len(ratio)} images are much less sharp than their neighbours"
    remedy = "Take them again with a steady camera, remove them, or train with --downweight-blur."
    return about_views("sharpness", measures.names, rows, ratio, problem, remedy)
