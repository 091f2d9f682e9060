"""What a check finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Finding:
    """Something about a capture that training will suffer from.

    Args:
        check: name of the check.
        problem: a sentence.
        remedy: what to do.
        views: names of the views that it concerns, worst first; empty: the complete capture.
        values: what was measured of each of these views, in the unit that the check names.
    """

    check: str
    problem: str
    remedy: str
    views: tuple[str, ...] = ()
    values: tuple[float, ...] = ()


MAX_NAMED = 8


def named(views: tuple[str, ...]) -> str:
    """Names of views in a sentence."""
    rest = f" and {len(views) - MAX_NAMED} more" if len(views) > MAX_NAMED else ""
    return ", ".join(views[:MAX_NAMED]) + rest


def about_views(
    check: str, names: Sequence[str], rows: Sequence[int], values: np.ndarray, problem: str, remedy: str
) -> list[Finding]:
    """A finding about views, worst first; none where there are no views.

    Args:
        check, remedy: as in Finding.
        names: of all V views.
        rows: of those that it concerns.
        values: what was measured of all views, [V].
        problem: the sentence without its end, which names the views.
    """
    if not len(rows):
        return []
    views = tuple(names[row] for row in rows)
    return [
        Finding(
            check, f"{problem}: {named(views)}.", remedy, views, tuple(float(values[row]) for row in rows)
        )
    ]
