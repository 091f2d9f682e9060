"""Changes of the set of primitives between steps: densification, pruning, reordering, removal of non-finite rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from luxel.render.camera import View
from luxel.render.errors import LuxelError
from luxel.render.rasterize import DensifyStatistics
from luxel.render.train import schedules
from luxel.render.train.config import TrainConfig
from luxel.render.train.dataset import Dataset
from luxel.render.train.densify.scores import blending_scores, sampled
from luxel.render.train.densify.situation import Refinement, Situation, finite
from luxel.render.train.optimizer import Optimizer
from luxel.render.train.timeline import Timeline

Scores = Callable[[int], Tensor]  # number of training views -> `blending_scores`, [N, 3]


class Densifier:
    """Applies the densification strategy and pruning of a run when they are due; holds their statistics.

    Args:
        config: of the run.
        optimizer: the primitives, changed in place.
        generator: random numbers on the device.
        views: training views.
        log: called with a step and values for metrics.jsonl.
    """

    def __init__(
        self,
        config: TrainConfig,
        optimizer: Optimizer,
        generator: torch.Generator,
        views: Sequence[View],
        log: Callable[[int, dict[str, Any]], None],
    ) -> None:
        self.config, self.optimizer, self.generator, self._log = config, optimizer, generator, log
        self._views = len(views)
        self._pixels = sum(view.camera.width * view.camera.height for view in views)
        times = [view.time for view in views]
        self._duration = (max(times) - min(times)) or 1.0
        self.rows = DensifyStatistics.zeros(0)
        self.reset()

    @property
    def statistics(self) -> DensifyStatistics:
        """Statistics of the present primitives; ``rows`` has the optimizer's spare rows too."""
        return DensifyStatistics(self.rows.data[: self.optimizer.count])

    def reset(self) -> None:
        """Zeroes the statistics, with a row for each row of the optimizer."""
        capacity = self.optimizer.capacity
        if self.rows.data.shape[0] == capacity:
            self.rows.reset()
        else:
            self.rows = DensifyStatistics.zeros(capacity, self.optimizer.inverse_count.device)

    def select(self, index: Tensor) -> None:
        """Keeps the primitives at ``index``, positions or a boolean mask, and resets the statistics."""
        self.optimizer.select(index)
        self.reset()

    def due(self, step: int, timeline: Timeline) -> bool:
        """Whether `after_step` changes the primitives after ``step`` steps."""
        config = self.config
        clock = timeline.progress(step) * config.steps
        return (
            config.strategy.due(step, clock, config.steps)
            or config.pruning.due(step, clock, config.steps)
            or self._reorders(step)
        )

    def after_step(
        self, step: int, timeline: Timeline, dataset: Dataset, cap: int | None
    ) -> Refinement | None:
        """Densifies, prunes and reorders as is due after ``step`` steps, all of which the device has finished.

        Args:
            step: completed steps.
            timeline: schedules.
            dataset: training images.
            cap: largest number of primitives; None: no limit.

        Returns:
            What changed; None where neither strategy nor pruning changed the set.
        """
        config, refinement = self.config, None
        clock = timeline.progress(step) * config.steps

        def scores(views: int) -> Tensor:
            return self._scores(step, views, timeline, dataset)

        if config.strategy.due(step, clock, config.steps):
            refinement = self._refine(step, clock, timeline.extent, cap, scores)
        if config.pruning.due(step, clock, config.steps):
            refinement = self._prune(step, scores, refinement or Refinement())
        gathers = config.strategy.needs_statistics(clock, config.steps)
        if self._reorders(step) and (refinement is not None or not gathers):
            self.select(schedules.morton_order(self.optimizer.scene.centres))
        return refinement

    def remove_non_finite(self) -> None:
        """Removes the primitives of which a parameter is not finite."""
        self.select(finite(self.optimizer.scene))

    def keep_most_opaque(self, count: int) -> None:
        """Removes all but the ``count`` primitives of highest opacity."""
        opacity = self.optimizer.scene.opacity_logits
        self.select(opacity.argsort(descending=True, stable=True)[:count].sort().values)

    def _reorders(self, step: int) -> bool:
        return self.config.reorder_every > 0 and step % self.config.reorder_every == 0

    def _refine(
        self, step: int, clock: float, extent: float, cap: int | None, scores: Scores
    ) -> Refinement | None:
        config = self.config
        situation = Situation(
            step,
            clock,
            config.steps,
            extent,
            cap,
            self.generator,
            self._pixels,
            self.statistics,
            scores,
            config.seed,
            self._duration,
        )
        refinement = config.strategy.after_step(self.optimizer, situation)
        if refinement is None:
            return None
        self.reset()
        if self.optimizer.count == 0:
            raise LuxelError(
                f"No {self.optimizer.scene.noun} are left at step {step}.",
                "Check poses, masks and points of the capture (`luxel view` shows the cameras).",
            )
        self._log(step, refinement.as_dict())
        return refinement

    def _prune(self, step: int, scores: Scores, refinement: Refinement) -> Refinement:
        """Removes the primitives of lowest score; counted in ``refinement``."""
        before = self.optimizer.count
        views = self.config.pruning.views or self._views
        self.select(self.config.pruning.keep(scores(views)[:, 0]))
        pruned = before - self.optimizer.count
        self._log(step, {"unimportant": pruned})
        refinement.pruned += pruned
        return refinement

    def _scores(self, step: int, views: int, timeline: Timeline, dataset: Dataset) -> Tensor:
        """`blending_scores` of the present primitives over training views drawn for this step, [N, 3]."""
        config = self.config
        schedule, background = timeline.at(step), timeline.background_at(step)
        chosen = sampled(self._views, views, config.seed, step)
        scene = self.optimizer.scene
        return blending_scores(
            scene,
            dataset.targets(chosen, schedule.halvings, background),
            background=torch.tensor(background, device=scene.opacity_logits.device),
            sh_degree=schedule.sh_degree,
            antialiased=config.antialiased,
            deterministic=config.deterministic,
        )
