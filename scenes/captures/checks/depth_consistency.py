"""Depth maps that do not fit the poses and the points."""

from __future__ import annotations

import numpy as np

from luxel.scenes.captures.checks.finding import Finding, about_views
from luxel.scenes.captures.checks.measures import Measures
from luxel.scenes.captures.depth.depth_maps import against_points
from luxel.scenes.captures.open_capture import Capture

MAX_VIEWS = 100  # that are compared
OFF = 0.15  # relative difference from the others, the unit of the values
UNIT = 0.05  # relative difference of all from the points, by which the unit differs
REMEDY = (
    "Correct depth_unit_scale_factor, or scale the poses: depth is in units of the poses. To train with depth of "
    "unknown scale: --depth-scale align."
)


def depth_ratios(capture: Capture) -> dict[str, float]:
    """Depth of the maps of views over that of the points, medians by name of the view; only where they are known."""
    views = [view for view in capture.views if view.name in capture.depths]
    views = views[:: -(-len(views) // MAX_VIEWS) or 1]
    out = {
        view.name: against_points(view, capture.depths[view.name](), capture.surface_points) for view in views
    }
    return {name: ratio for name, ratio in out.items() if np.isfinite(ratio)}


def check_depth(capture: Capture, measures: Measures) -> list[Finding]:
    """A unit of all depth maps that is not that of the poses, and views whose maps differ from the others."""
    ratios = depth_ratios(capture)
    if len(ratios) < 3:
        return []
    usual = float(np.median(list(ratios.values())))
    findings = []
    if abs(usual - 1) > UNIT:
        problem = f"The depth maps have {usual:.3g} times the distances of the points."
        findings.append(Finding("depth", problem, REMEDY))
    off = np.array([ratios.get(name, usual) / usual - 1 for name in measures.names])
    rows = [int(row) for row in np.argsort(-np.abs(off)) if abs(off[row]) > OFF]
    problem = f"The depth maps of {len(rows)} of {len(ratios)} images do not fit their poses and the points"
    remedy = "Correct these poses, or leave these depth maps out."
    return findings + about_views("depth", measures.names, rows, off, problem, remedy)
