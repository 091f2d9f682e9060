"""Changes of the set of primitives between steps: densification, reordering, removal of non-finite rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import View, pixel_count
from luxel.render.raster.rasterize import DensifyStatistics
from luxel.render.train.densify.situation import Refinement, Situation, finite
from luxel.render.train.step import schedules
from luxel.render.train.step.timeline import Timeline
from luxel.render.train.store.protocol import ParameterStore
from luxel.render.train.views.image_content import ImageContent

if TYPE_CHECKING:
    from luxel.render.train.config import TrainConfig


class Densifier:
    """Applies the densification strategy of a run when it is due; holds its statistics.

    Args:
        config: configuration of the run.
        store: the primitives, changed in place.
        generator: random numbers on the device.
        views: training views.
        content: of their images, measured if the strategy follows it.
        log: called with a step and values for metrics.jsonl.
    """

    def __init__(
        self,
        config: TrainConfig,
        store: ParameterStore,
        generator: torch.Generator,
        views: Sequence[View],
        content: ImageContent,
        log: Callable[[int, dict[str, Any]], None],
    ) -> None:
        self.config, self.store, self.generator, self._log = config, store, generator, log
        self._pixels = pixel_count(views)
        self._detail, self._coverage = content.detail, content.coverage
        times = [view.time for view in views]
        self._duration = (max(times) - min(times)) or 1.0
        self.rows = DensifyStatistics.zeros(0)
        self.reset()

    @property
    def statistics(self) -> DensifyStatistics:
        """Statistics of the present primitives; ``rows`` has the store's spare rows too."""
        return DensifyStatistics(self.rows.data[: self.store.count])

    def reset(self) -> None:
        """Zeroes the statistics, with a row for each row of the store."""
        capacity = self.store.capacity
        if self.rows.data.shape[0] == capacity:
            self.rows.reset()
        else:
            self.rows = DensifyStatistics.zeros(capacity, self.store.inverse_count.device)

    def select(self, index: Tensor) -> None:
        """Retains the primitives at ``index``, positions or a boolean mask, and resets the statistics."""
        self.store.select(index)
        self.reset()

    def due(self, step: int, timeline: Timeline) -> bool:
        """Whether `after_step` changes the primitives after ``step`` steps."""
        config = self.config
        clock = timeline.progress(step) * config.steps
        return config.strategy.due(step, clock, config.steps) or self._reorders(step)

    def after_step(self, step: int, timeline: Timeline, cap: int | None) -> Refinement | None:
        """Densifies and reorders as is due after ``step`` steps, all of which the device has finished.

        Args:
            step: completed steps.
            timeline: schedules.
            cap: largest number of primitives; None: no limit.

        Returns:
            What changed; None where the strategy did not change the set.
        """
        config, refinement = self.config, None
        clock = timeline.progress(step) * config.steps
        if config.strategy.due(step, clock, config.steps):
            refinement = self._refine(step, clock, timeline.extent, cap)
        gathers = config.strategy.needs_statistics(clock, config.steps)
        if self._reorders(step) and (refinement is not None or not gathers):
            self.select(schedules.morton_order(self.store.scene.centres))
        return refinement

    def remove_non_finite(self) -> None:
        """Removes the primitives of which a parameter is not finite."""
        self.select(finite(self.store.scene))

    def retain_most_opaque(self, count: int) -> None:
        """Removes all but the ``count`` primitives of highest opacity."""
        opacity = self.store.scene.opacity_logits
        self.select(opacity.argsort(descending=True, stable=True)[:count].sort().values)

    def _reorders(self, step: int) -> bool:
        return self.config.reorder_every > 0 and step % self.config.reorder_every == 0

    def _refine(self, step: int, clock: float, extent: float, cap: int | None) -> Refinement | None:
        config = self.config
        situation = Situation(
            step,
            clock,
            config.steps,
            extent,
            cap,
            self.generator,
            self._pixels,
            self._detail,
            self.statistics,
            config.seed,
            self._duration,
            self._coverage,
            config.batch,
        )
        refinement = config.strategy.after_step(self.store, situation)
        if refinement is None:
            return None
        self.reset()
        if self.store.count == 0:
            raise LuxelError(
                f"No {self.store.scene.noun} are left at step {step}.",
                "Check poses, masks and points of the capture (`luxel view` shows the cameras).",
            )
        self._log(step, refinement.as_dict())
        return refinement
