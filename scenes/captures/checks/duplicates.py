"""Images that show the same as another one."""

from __future__ import annotations

import numpy as np

from luxel.scenes.captures.checks.finding import Finding, about_views
from luxel.scenes.captures.checks.measures import Measures
from luxel.scenes.captures.open_capture import Capture

SAME = 0.6  # mean difference of two thumbnails where they count, of 255 levels, the unit of the values


def check_duplicates(capture: Capture, measures: Measures) -> list[Finding]:
    """Views that differ from an earlier one by less than SAME; those of other times are no duplicates."""
    times = np.array([view.time for view in capture.views])
    flat = measures.thumbnails.reshape(len(times), -1)
    least = np.full(len(flat), np.inf)
    for row, own in enumerate(flat):
        before = np.flatnonzero(times[:row] == times[row])
        if len(before):
            share = np.maximum(measures.shares[before], measures.shares[row])
            least[row] = (np.abs(flat[before] - own).mean(1) / np.maximum(share, 1e-3)).min()
    rows = [int(row) for row in np.argsort(least, kind="stable") if least[row] < SAME]
    problem = f"{len(rows)} of {len(flat)} images show the same as another one"
    remedy = "Remove them; copies of held-out images among the others make figures too good."
    return about_views("duplicates", measures.names, rows, least, problem, remedy)
