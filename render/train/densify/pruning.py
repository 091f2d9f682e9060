"""Importance pruning: at a few points of a run the primitives that contribute least to the images are removed."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from luxel.render.errors import LuxelError


@dataclass
class Pruning:
    """Experimental. Removes the Gaussians with the smallest blending weights, summed over pixels of training views.

    The sums are the importance of Mini-Splatting (Fang and Wang 2024); RadSplat (Niemeyer et al. 2024) takes the
    largest weight instead. What is pruned while the strategy still grows is soon replaced elsewhere.
    """

    share: float = 0.0
    """Share of the Gaussians that is removed each time; 0: off."""
    start: float = 0.85
    """Share of the run at which it begins."""
    stop: float = 0.9
    """Share of the run at which it ends."""
    every: float = 0.05
    """Share of the run between two prunings."""
    views: int = 0
    """Training views that are drawn each time; 0: all."""

    def check(self) -> None:
        """Raises LuxelError for invalid options."""
        shares = (self.start, self.stop, self.every)
        if not (
            0 <= self.share < 1 and all(0 <= x <= 1 for x in shares) and self.every > 0 and self.views >= 0
        ):
            raise LuxelError(
                "Pruning options: share must lie in 0 to 1, below 1; start, stop and every in 0 to 1, every above 0; "
                "views must not be negative.",
                "Correct them.",
            )

    def due(self, step: int, clock: float, steps: int) -> bool:
        """Whether to prune after ``step`` steps; ``clock`` is the step that a run paced by time would be at."""
        interval = max(1, round(self.every * steps))
        now = clock / steps
        return self.share > 0 and step % interval == 0 and self.start - 1e-9 <= now <= self.stop + 1e-9

    def keep(self, importance: Tensor) -> Tensor:
        """Positions of those that stay, in their order, int64 [M]; of equals the first go.

        Args:
            importance: [N]; what is not finite counts as 0.
        """
        count = importance.shape[0]
        order = importance.nan_to_num(0.0, 0.0, 0.0).argsort(stable=True)
        return order[min(int(self.share * count), count - 1) :].sort().values
