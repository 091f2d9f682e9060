"""Photographs that are much less sharp than those taken beside them."""

from __future__ import annotations

import numpy as np

from luxel.scenes.captures.checks.finding import Finding, about_views
from luxel.scenes.captures.checks.measures import Measures
from luxel.scenes.captures.open_capture import Capture

LEAST = 0.3  # of the median sharpness of the neighbours; the unit of the values


def check_blur(capture: Capture, measures: Measures) -> list[Finding]:
    """Views whose sharpness is below LEAST of that of their neighbours, which see nearly the same."""
    if not measures.neighbours.shape[1]:
        return []
    usual = np.median(measures.sharpness[measures.neighbours], axis=1)
    ratio = measures.sharpness / np.maximum(usual, 1e-6)
    rows = [int(row) for row in np.argsort(ratio) if ratio[row] < LEAST and usual[row] > 1]
    problem = f"{len(rows)} of {len(ratio)} photographs are much less sharp than their neighbours"
    remedy = "Remove them, or take them again with a steady camera."
    return about_views("sharpness", measures.names, rows, ratio, problem, remedy)
