"""Steps that an optimizer skipped: how many there are, and an error before training stands still."""

from __future__ import annotations

from collections import deque

from luxel.render.errors import LuxelError

WINDOW = 500  # steps, of which at most the share MAX_SHARE may be skipped
MAX_SHARE = 0.5


class SkippedSteps:
    """Counts skipped steps by the totals that arrive from the device.

    Args:
        step: after which counting begins, with a total of 0.
    """

    def __init__(self, step: int = 0) -> None:
        self._totals = deque([(step, 0)])

    def since_last(self, step: int, total: int) -> int:
        """Takes the total of skipped steps up to a step.

        Args:
            step: number of completed steps, more than at the last call.
            total: skipped steps among those since counting began.

        Returns:
            How many were skipped since the last call.

        Raises:
            LuxelError: more than half of the last 500 steps or more were skipped.
        """
        lost = total - self._totals[-1][1]
        self._totals.append((step, total))
        while self._totals[1][0] <= step - WINDOW:
            self._totals.popleft()
        first, before = self._totals[0]
        if step - first >= WINDOW and total - before > MAX_SHARE * (step - first):
            raise LuxelError(
                f"Training diverged by step {step}: {total - before} of the last {step - first} steps were skipped, "
                "as their gradients were not finite.",
                "Lower --rate, or train with --precise.",
            )
        return lost
