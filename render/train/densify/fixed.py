"""No density control: the number of Gaussians stays as it was at the start."""

from __future__ import annotations

from dataclasses import dataclass

from luxel.render.errors import LuxelError
from luxel.render.train.densify.situation import Refinement, Situation, finite
from luxel.render.train.densify.strategy import Strategy
from luxel.render.train.optimizer import Optimizer


@dataclass
class FixedCount(Strategy):
    """Keeps the starting Gaussians; those that have faded away are removed."""

    prune_opacity: float = 0.005
    """Gaussians less opaque than this are removed; 0 keeps all."""
    refine_every: int = 500
    """Steps between removals."""

    def check(self) -> None:
        """Raises LuxelError for options that make no sense."""
        if not 0 <= self.prune_opacity < 1 or self.refine_every < 1:
            raise LuxelError(
                "Strategy options: prune_opacity must lie in 0 to 1, refine_every must be at least 1.",
                "Correct them.",
            )

    def due(self, step: int, clock: float, steps: int) -> bool:
        """Whether `after_step` has something to do after ``step`` steps."""
        return step % self.refine_every == 0 and self.prune_opacity > 0

    def after_step(self, optimiser: Optimizer, now: Situation) -> Refinement | None:
        """Removes what has faded, every ``refine_every`` steps."""
        if not self.due(now.step, now.clock, now.steps):
            return None
        gaussians = optimiser.scene
        keep = (gaussians.opacities >= self.prune_opacity) & finite(gaussians)
        kept = int(keep.sum())
        if kept == gaussians.count:
            return None
        optimiser.select(keep)
        return Refinement(pruned=gaussians.count - kept)
