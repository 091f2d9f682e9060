"""What every strategy of density control says of itself; one overrides what differs."""

from __future__ import annotations

from typing import ClassVar


class Strategy:
    """Base of the dataclasses of the strategies.

    Attributes:
        first_opacity: opacity that training starts best from.
        noise: strength of random moves of Gaussians, times the learning rate of the centres.
    """

    first_opacity: ClassVar[float] = 0.1
    noise = 0.0

    @property
    def penalties(self) -> tuple[float, float]:
        """Weights of mean opacity and mean scale in the loss."""
        return 0.0, 0.0

    def wants_statistics(self, clock: float, steps: int) -> bool:
        """Whether a step gathers `DensifyStatistics`: never."""
        return False
