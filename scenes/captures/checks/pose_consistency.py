"""Images whose pose does not fit: points do not look there as they do in the other images."""

from __future__ import annotations

import numpy as np

from luxel.scenes.captures.checks.exposure import MIN_POINTS
from luxel.scenes.captures.checks.finding import Finding, about_views
from luxel.scenes.captures.checks.measures import Measures
from luxel.scenes.captures.open_capture import Capture

LEAST = 0.15  # correlation with the other views, the unit of the values, below which a pose may be wrong
BELOW = 0.35  # of the median correlation of all views, below which it must be, too
MIN_VIEWS = 3  # of the nearest ones that must see a point
CONTRAST = 2.0  # standard deviation of details, of 255, that points must have in a view


def correlations(measures: Measures) -> np.ndarray:
    """Correlation of the details at points in each view with their median in the nearest views, [V]; NaN: unknown."""
    details = measures.details
    visible = np.isfinite(details)
    out = np.full(len(details), np.nan)
    for row, around in enumerate(measures.neighbours):
        shared = visible[row] & (visible[around].sum(0) >= MIN_VIEWS)
        if shared.sum() < MIN_POINTS:
            continue
        own, others = details[row, shared], np.nanmedian(details[around][:, shared], axis=0)
        if others.std() >= CONTRAST:
            out[row] = float(np.corrcoef(own, others)[0, 1]) if own.std() > 0 else 0.0
    return out


def check_poses(capture: Capture, measures: Measures) -> list[Finding]:
    """Views that agree with the others far less than usual."""
    agreement = correlations(measures)
    known = np.isfinite(agreement)
    if known.sum() < 4:
        return []
    usual = float(np.median(agreement[known]))
    limit = min(LEAST, BELOW * usual)
    rows = [int(row) for row in np.argsort(np.where(known, agreement, np.inf)) if agreement[row] < limit]
    problem = (
        f"The poses of {len(rows)} of {int(known.sum())} images do not fit: points look different there than in "
        "the other images"
    )
    remedy = "Correct these poses, remove the images, or train with --refine-poses."
    return about_views("poses", measures.names, rows, agreement, problem, remedy)
