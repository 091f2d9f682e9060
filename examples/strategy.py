"""A new densification strategy in one file: the number of Gaussians falls to a budget, the least opaque first.

`register_strategy` is the one line that registers it: it can then be chosen on the command line, has its options and
help text there, is written to config.json, and is resumed with the run.

    python examples/strategy.py CAPTURE [--opacity-budget.budget 5000] [options of `luxel train`]
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import ClassVar

from luxel.render.bounds import Count, OpenShare, Steps
from luxel.render.train.densify import Strategy, register_strategy
from luxel.render.train.densify.situation import Refinement, Situation
from luxel.render.train.step.schedules import Window
from luxel.render.train.store.protocol import ParameterStore


@dataclass
class OpacityBudget(Strategy):
    """Removes the least opaque primitives until ``budget`` are left; none are added."""

    budget: Count = 10_000
    """Primitives that are left at the end."""
    share: OpenShare = 0.1
    """Largest share of the primitives that is removed at once."""
    refine_every: Steps = 100
    """Steps between removals."""

    about: ClassVar[str] = "removes the least opaque down to a budget"

    def window(self, steps: int) -> Window:
        """The first half of a run, so that the second half repairs what is missing."""
        return Window.scaled(0, steps // 2, self.refine_every, steps, share=0.5)

    def after_step(self, store: ParameterStore, now: Situation) -> Refinement | None:
        """Removes rows of parameters, together with their first and second moments of Adam."""
        if not self.due(now.step, now.clock, now.steps) or store.count <= self.budget:
            return None
        left = max(self.budget, int((1 - self.share) * store.count))
        opaque = store.scene.opacity_logits.argsort(descending=True, stable=True)
        removed = store.count - left
        store.select(opaque[:left].sort().values)
        return Refinement(pruned=removed)


if __name__ == "__main__":
    from luxel.viewer.cli import main

    register_strategy("opacity_budget", OpacityBudget, "gaussians")
    sys.exit(main(["train", *sys.argv[1:], "--strategy", "opacity_budget"]))
