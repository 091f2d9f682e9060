"""How many (tile, splat) pairs a step gets room for, so that training on a GPU need not ask for the exact number."""

from __future__ import annotations

FIRST_MARGIN = 2.5  # after one exact number: other views may see more of the scene
MARGIN = 1.5  # after some steps have been seen
LITTLE_LEFT = 1.15  # grows early where less than this is left above the largest number seen
SPARE = 1 << 16


class InstanceRoom:
    """Learns from past steps how much room to give; ``limit`` is None until a first number is known."""

    def __init__(self) -> None:
        self.limit: int | None = None

    def forget(self) -> None:
        """The image size has changed: the next step asks the device."""
        self.limit = None

    def begin(self, needed: int) -> int:
        """The first limit, from the exact number of one step."""
        self.limit = int(FIRST_MARGIN * needed) + SPARE
        return self.limit

    def adapt(self, most: int, stalled: bool) -> None:
        """Adapts to the largest number that steps have asked for since the last call.

        Args:
            most: that number; 0: there were none.
            stalled: whether a step had too little room.
        """
        if self.limit is None or most == 0:
            return
        if stalled or LITTLE_LEFT * most > self.limit or 4 * most + SPARE < self.limit:
            self.limit = int(MARGIN * most) + SPARE
