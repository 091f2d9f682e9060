"""What a file format cannot hold of the values of Gaussians: those outside of its ranges, which writers clip."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np

log = logging.getLogger(__name__)


class Clipping:
    """Counts the Gaussians with values outside of the ranges of a format while it is written.

    Args:
        count: of Gaussians.
    """

    def __init__(self, count: int) -> None:
        self._any = np.zeros(count, bool)
        self._counts: dict[str, int] = {}

    def add(self, what: str, rows: slice | np.ndarray, values: np.ndarray, low: float, high: float) -> None:
        """Counts the rows that have a value outside of a range; one that is not finite is, too.

        Args:
            what: name of the values with their range, for the message.
            rows: of the Gaussians.
            values: [rows, ...].
            low, high: that the format holds, with the half step that is rounded away.
        """
        with np.errstate(invalid="ignore"):
            inside = (values >= low) & (values <= high)
        outside = ~inside.reshape(len(values), -1).all(axis=1)
        self._counts[what] = self._counts.get(what, 0) + int(outside.sum())
        self._any[rows] |= outside

    @property
    def count(self) -> int:
        """Of Gaussians with a value that is clipped."""
        return int(self._any.sum())

    def report(self, path: Path) -> None:
        """Logs how many Gaussians were clipped, and by what; nothing where none was."""
        if self.count:
            counts = ", ".join(f"{what} {count:,}" for what, count in self._counts.items() if count)
            log.warning(
                "%s: %s of %s Gaussians were clipped to what the format holds: %s. Write .ply, which holds them.",
                path,
                f"{self.count:,}",
                f"{len(self._any):,}",
                counts,
            )
