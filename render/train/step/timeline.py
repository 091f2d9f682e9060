"""Schedule values of each step, and the table that holds them on the device ahead of time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from luxel.render.ops.train.adam import adam_schedule
from luxel.render.ops.train.gather_view import ADAM, BACKGROUND, DEPTH, OF_VIEW, ROW, SLOT, STEP, TIME, VIEW
from luxel.render.train.config import TrainConfig
from luxel.render.train.step import schedules
from luxel.render.train.step.terms.depth import depth_weight
from luxel.render.train.store.protocol import BETAS

ROWS = 256  # of the table: a step has one for each of its views


@dataclass(frozen=True)
class ScheduleValues:
    """The values of all schedules at one step.

    Args:
        halvings: how often the images are halved.
        sh_degree: highest degree of the spherical harmonics.
        counts: whether statistics for density control are gathered.
        moves_sh_rest: whether the step moves the coefficients above degree 0.
        rates: learning rate by parameter; that of the means includes the scene's extent.
        progress: share of the run that is done, in [0, 1].
    """

    halvings: int
    sh_degree: int
    counts: bool
    moves_sh_rest: bool
    rates: dict[str, float]
    progress: float = 0.0


class Timeline:
    """The schedules of a run as a function of the step.

    Args:
        config: of the run.
        extent: of the scene, capture units.
        halvings: largest number of times that the images can be halved.
        background: "white", "black" or "random".
        time_share: gives the fraction of the time limit that has passed, in runs paced by time.
        reached_sh_degree: that the run has reached, below which the degree does not fall where it gets longer.
    """

    def __init__(
        self,
        config: TrainConfig,
        extent: float,
        halvings: int,
        background: str,
        time_share: Callable[[], float],
        reached_sh_degree: int = 0,
    ) -> None:
        self.config, self.extent, self.background = config, extent, background
        self._halvings, self._time_share = halvings, time_share
        self._reached = min(reached_sh_degree, config.init.sh_degree)

    @property
    def ahead(self) -> int:
        """Number of steps whose schedule values are known in advance."""
        return 1 if self.config.pace_by_time else max(1, ROWS // self.config.batch)

    def progress(self, step: int) -> float:
        """Fraction of the run that is done before a step, in [0, 1]."""
        share = step / self.config.steps
        if self.config.pace_by_time and self.config.target_minutes:
            share = max(share, self._time_share())
        return min(share, 1.0)

    def at(self, step: int) -> ScheduleValues:
        """The schedule values of step number ``step``."""
        config, now = self.config, self.progress(step)
        clock, coarse = now * config.steps, config.resolution
        return ScheduleValues(
            min(schedules.halvings(now, coarse.halvings, coarse.until), self._halvings),
            max(
                self._reached,
                schedules.sh_degree(clock, config.steps, config.sh_every, config.init.sh_degree),
            ),
            config.strategy.needs_statistics(clock, config.steps),
            step % config.sh_rest_every == 0,
            self.rates(now),
            now,
        )

    def rates(self, progress: float) -> dict[str, float]:
        """Learning rate by parameter."""
        return self.config.rates.at(progress, self.extent)

    def depth_weight(self, step: int) -> float:
        """Weight of the depth in the loss of a step; 0 without depth."""
        return depth_weight(self.config, self.progress(step))

    def background_at(self, step: int) -> tuple[float, float, float]:
        """The background colour of a step, RGB in [0, 1]; a random one is a function of seed and step."""
        if self.background == "random":
            red, green, blue = np.random.default_rng([self.config.seed, 1, step]).random(3)
            return float(red), float(green), float(blue)
        return (1.0, 1.0, 1.0) if self.background == "white" else (0.0, 0.0, 0.0)


class StepTable:
    """The rows that `gather_view` reads, uploaded for many steps at once."""

    def __init__(self, device: torch.device, batch: int = 1) -> None:
        self.batch = batch
        self.tensor = torch.zeros(1 + max(ROWS, batch), ROW, dtype=torch.int32, device=device)
        self._first = self._end = 0

    def forget(self) -> None:
        """Discards the rows, so that the next `reach` uploads them again."""
        self._first = self._end = 0

    def reach(
        self,
        step: int,
        timeline: Timeline,
        sample: Callable[[int], tuple[int, int, float]],
        visit: Callable[[int, int], tuple[float, ...]] | None = None,
    ) -> None:
        """Makes the cursor point at ``step``, uploading rows where it is not among those present.

        Args:
            sample: slot of the image, index of the view and time of a camera sample, of which each step has ``batch``.
            visit: see `luxel.render.train.views.models.ViewModels.visit`.
        """
        if self._first < step < self._end:
            return  # the device moved the cursor here
        rows = np.zeros((1 + timeline.ahead * self.batch, ROW), np.float32)
        for k in range(timeline.ahead):
            number = step + k
            rates = timeline.rates(timeline.progress(number))
            schedule = adam_schedule(list(rates.values()), number + 1, BETAS)
            for j in range(self.batch):
                row = rows[1 + k * self.batch + j]
                slot, view, row[TIME] = sample(number * self.batch + j)
                row.view(np.int32)[[SLOT, VIEW, STEP]] = slot, view, number
                row[ADAM][: len(schedule)] = schedule
                row[BACKGROUND] = timeline.background_at(number)
                row[DEPTH] = timeline.depth_weight(number)
                if visit is not None:
                    row[OF_VIEW] = visit(number * self.batch + j, timeline.config.steps * self.batch)
        values = torch.from_numpy(rows.view(np.int32))
        if self.tensor.is_cuda:
            values = values.pin_memory()
        self.tensor[: values.shape[0]].copy_(values, non_blocking=True)
        self._first, self._end = step, step + timeline.ahead
