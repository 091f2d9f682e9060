"""No densification: the number of primitives stays as it was at the start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from luxel.render.bounds import ShareBelow1, Steps
from luxel.render.train.densify.strategy import Strategy
from luxel.render.train.step.schedules import Window

if TYPE_CHECKING:
    from luxel.render.train.densify.situation import Refinement, Situation
    from luxel.render.train.store.protocol import ParameterStore


@dataclass
class FixedCount(Strategy):
    """Retains the primitives of the start; those that have faded away are removed."""

    prune_opacity: ShareBelow1 = 0.005
    """Primitives less opaque than this are removed; 0 retains all."""
    refine_every: Steps = 500
    """Steps between removals."""

    about: ClassVar[str] = "no densification"

    def window(self, steps: int) -> Window:
        """Every ``refine_every`` steps of the complete run."""
        return Window(0, steps + 1, self.refine_every)

    def due(self, step: int, clock: float, steps: int) -> bool:
        """Whether `after_step` has something to do after ``step`` steps."""
        return self.prune_opacity > 0 and self.window(steps).acts(step)

    def after_step(self, store: ParameterStore, now: Situation) -> Refinement | None:
        """Removes what has faded, every ``refine_every`` steps."""
        from luxel.render.train.densify.situation import Refinement, finite

        if not self.due(now.step, now.clock, now.steps):
            return None
        scene = store.scene
        keep = (scene.opacities >= self.prune_opacity) & finite(scene)
        retained = int(keep.sum())
        if retained == scene.count:
            return None
        store.select(keep)
        return Refinement(pruned=scene.count - retained)
