"""Estimates the capacity for tile instances, (tile, splat) pairs, so that steps need not wait for their number."""

from __future__ import annotations

FIRST_MARGIN = 2.5  # after one exact number: other views may see more of the scene
MARGIN = 1.5  # after the numbers of some steps
MIN_MARGIN = 1.15  # over the largest number so far; grows if less is left
SPARE = 1 << 16


class InstanceCapacity:
    """Adapts the capacity to past steps.

    Attributes:
        limit: the capacity; None until a first number is known.
    """

    def __init__(self) -> None:
        self.limit: int | None = None

    def forget(self) -> None:
        """Drops the estimate after a change of the image size; the next step needs an exact number."""
        self.limit = None

    def begin(self, needed: int) -> int:
        """The first capacity, from the exact number of one step."""
        self.limit = int(FIRST_MARGIN * needed) + SPARE
        return self.limit

    def adapt(self, most: int, stalled: bool) -> None:
        """Adapts the capacity to the steps since the last call.

        Args:
            most: largest number of tile instances that a step needed; 0: there were no steps.
            stalled: whether the capacity was too small for a step.
        """
        if self.limit is None or most == 0:
            return
        if stalled or MIN_MARGIN * most > self.limit or 4 * most + SPARE < self.limit:
            self.limit = int(MARGIN * most) + SPARE
