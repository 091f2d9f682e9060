"""Masks of an object that leave out what the masks of all other images keep.

A cell of space that nearly all masks keep belongs to the visual hull of the object (Laurentini 1994); a mask that
leaves it out has a hole, or another error, as the object cannot be absent in one image.
"""

from __future__ import annotations

import numpy as np

from luxel.scenes.captures.checks.finding import Finding, about_views
from luxel.scenes.captures.checks.measures import Measures, projected
from luxel.scenes.captures.open_capture import Capture

CELLS = 48  # along each side of the box of the points
SHARE = (0.02, 0.98)  # of the points along an axis that the box holds
WIDER = 0.1  # of the box, by which it is widened on each side
VIEWS = 400  # at most, evenly chosen
MIN_MASKS = 0.95  # of the masks that must keep a cell of the hull
MIN_VIEWS = 0.6  # of the views in whose images a cell of the hull must lie
NEARLY_ALL, TIMES = 0.9, 3.0  # quantile of what masks leave out, and its multiple that a wrong one exceeds
LEFT_OUT = 0.04  # of the hull that a mask may leave out; the unit of the values


def left_out(capture: Capture, measures: Measures) -> np.ndarray:
    """Fraction of the hull's cells in each view's image that its mask leaves out, [V]; NaN: not looked at."""
    views = capture.views
    out = np.full(len(views), np.nan)
    rows = [row for row, mask in enumerate(measures.masks) if mask is not None]
    rows = rows[:: -(-len(rows) // VIEWS)] if rows else rows
    if not capture.cutout or len(rows) < 4 or not len(capture.points.xyz):
        return out
    cells = _cells(capture.points.xyz)
    known = np.zeros((len(rows), len(cells)), bool)
    inside = np.zeros((len(rows), len(cells)), bool)
    for index, row in enumerate(rows):
        mask, camera = measures.masks[row], views[row].camera
        assert mask is not None
        height, width = mask.shape
        column, line, depth = projected(views[row], cells, width / camera.width, height / camera.height)
        known[index] = (depth > 0) & (column >= 0) & (column < width) & (line >= 0) & (line < height)
        x, y = column[known[index]].astype(int), line[known[index]].astype(int)
        inside[index, known[index]] = mask[y, x]
    visible = known.sum(0)
    hull = (visible >= MIN_VIEWS * len(rows)) & (inside.sum(0) >= MIN_MASKS * visible)
    if hull.any():
        missing = (known & ~inside)[:, hull].sum(1) / np.maximum(known[:, hull].sum(1), 1)
        out[rows] = missing
    return out


def _cells(points: np.ndarray) -> np.ndarray:
    """Centres of the cells of the box around most points, float64 [CELLS^3, 3]."""
    low, high = np.quantile(np.asarray(points, np.float64), SHARE, axis=0)
    low, high = low - WIDER * (high - low), high + WIDER * (high - low)
    axes = [np.linspace(a, b, CELLS) for a, b in zip(low, high, strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 3)


def check_masks(capture: Capture, measures: Measures) -> list[Finding]:
    """Views whose mask leaves out more than LEFT_OUT of the object's hull, and more than nearly all others do.

    Gaps that few views look through, as below the arms of a chair, belong to the hull.
    """
    missing = left_out(capture, measures)
    known = np.isfinite(missing)
    if known.sum() < 4:
        return []
    limit = max(LEFT_OUT, TIMES * float(np.quantile(missing[known], NEARLY_ALL)))
    order = np.argsort(-np.where(known, missing, -1))
    rows = [int(row) for row in order if known[row] and missing[row] > limit]
    problem = f"The masks of {len(rows)} of {int(known.sum())} images leave out what the other masks keep"
    remedy = "Correct these masks, or remove the images."
    return about_views("masks", measures.names, rows, missing, problem, remedy)
