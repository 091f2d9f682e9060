"""What learns: parameters, statistics and schedules, moved on step by step; density control; memory."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from luxel.render.camera import View
from luxel.render.errors import LuxelError
from luxel.render.native import keep_freed_memory
from luxel.render.primitives import PRIMITIVES
from luxel.render.primitives.parameters import Parameters
from luxel.render.rasterize import DensifyStatistics
from luxel.render.replay import release_memory
from luxel.render.runs.loop import TrainingLoop
from luxel.render.train import limits, schedules
from luxel.render.train.config import TrainConfig
from luxel.render.train.dataset import Dataset, ViewOrder, halvings_possible
from luxel.render.train.densify.scores import blending_scores, sampled
from luxel.render.train.densify.situation import Refinement, Situation, finite
from luxel.render.train.optimizer import Optimizer
from luxel.render.train.reports import StepReport, TrainResult
from luxel.render.train.start import scene_extent
from luxel.render.train.step_queue import StepQueue
from luxel.render.train.timeline import Timeline


class Learning(TrainingLoop[StepReport, TrainResult]):
    """The part of a `Trainer` that knows nothing of folders, checkpoints and displays.

    Args:
        config: what to do.
        train_views: what is fitted.
        device: where to train.
        say: gets sentences for the person; None: standard output.
    """

    optimizer: Optimizer
    dataset: Dataset
    timeline: Timeline
    queue: StepQueue

    def __init__(
        self,
        config: TrainConfig,
        train_views: Sequence[View],
        device: torch.device,
        say: Callable[[str], None] | None,
    ) -> None:
        super().__init__(device, say)
        self.config = config
        if device.type == "cpu":
            keep_freed_memory()
        self.train_views = list(train_views)
        self.extent = scene_extent(self.train_views)
        self.generator = torch.Generator(device).manual_seed(config.seed)
        self.cap = config.max_gaussians
        self.psnr: float | None = None
        self.loss: float | None = None
        self._loss_was_finite, self._went_wrong = True, False
        self._statistics = DensifyStatistics.zeros(0)
        self._halvings: int | None = (
            0  # of the images that the primitives are adapted to; None: of the last step
        )
        self._kept = PRIMITIVES[config.primitive].auxiliary(config.loss)
        self.background = config.background

    @property
    def scene(self) -> Any:
        """The present primitives, without gradients; hold ``lock`` while using them."""
        return self.optimizer.scene

    @property
    def statistics(self) -> DensifyStatistics:
        """What density control knows of the present Gaussians."""
        return DensifyStatistics(self._statistics.data[: self.optimizer.count])

    @property
    def progress(self) -> float:
        """Share of the run that is done, in [0, 1], as the schedules see it."""
        return self.timeline.progress(self.steps_done)

    def _begin(self, scene: Parameters) -> None:
        """Starts from these."""
        self.optimizer = Optimizer(scene)
        self._start_statistics()

    def _open(self, render: Callable[..., Any]) -> None:
        """Puts the photographs where steps find them; the Gaussians are there."""
        config = self.config
        stream = self._plan_memory()
        self.dataset = self._open_dataset(ViewOrder(len(self.train_views), config.seed), stream)
        if self.background == "auto":
            self.background = "white" if self.dataset.has_alpha else "black"
        coarse = halvings_possible(self.train_views, config.resolution.halvings, config.resolution.smallest)
        self.timeline = Timeline(config, self.extent, coarse, self.background, self._time_passed)
        self.queue = StepQueue(config, self.dataset, self.timeline, render, self._take_numbers, self._kept)
        self.queue.start(self.steps_done)
        if self._halvings is None:
            self._halvings = self.timeline.at(max(0, self.steps_done - 1)).halvings

    @abstractmethod
    def _log(self, step: int, values: dict[str, Any]) -> None:
        """Keeps numbers of a step."""

    @abstractmethod
    def _how_to_go_back(self) -> str:
        """What a person can do where training diverged."""

    def synchronize(self) -> bool:
        """Waits for the device; whether steps have to be repeated, because their lists did not fit into memory
        that was set aside for them.

        ``steps_done`` is then the number of those that count.
        """
        with self.lock:
            asked, self.steps_done = self.steps_done, self.queue.synchronize()
            return self.steps_done < asked

    def _one_step(self) -> StepReport:
        if self._adapt_to_resolution():
            return StepReport(self.steps_done, self.optimizer.count)
        config, step = self.config, self.steps_done
        report = (step + 1) % config.report_every == 0
        self.queue.submit(step, self.optimizer, self._statistics, report)
        self.steps_done = step + 1
        stalled = self.queue.poll()
        progress = self.timeline.progress(self.steps_done)
        clock = progress * config.steps
        refines = config.strategy.due(self.steps_done, clock, config.steps)
        prunes = config.pruning.due(self.steps_done, clock, config.steps)
        reorders = config.reorder_every > 0 and self.steps_done % config.reorder_every == 0
        if (stalled or refines or prunes or reorders or self._went_wrong) and self.synchronize():
            return StepReport(self.steps_done, self.optimizer.count)
        refinement = self._refine(clock) if refines else None
        if prunes:
            refinement = self._prune(refinement or Refinement())
        if reorders and (refinement is not None or not config.strategy.needs_statistics(clock, config.steps)):
            self.optimizer.select(schedules.morton_order(self.scene.centres))
            self._start_statistics()
        if self._went_wrong:
            self._remove_what_is_not_finite()
        return StepReport(self.steps_done, self.optimizer.count, refinement=refinement)

    def _adapt_to_resolution(self) -> bool:
        """Rescales what depends on the size of images where the next step has images of another size.

        Returns:
            Whether steps have to be repeated first.
        """
        halvings = self.timeline.at(self.steps_done).halvings
        before, self._halvings = self._halvings or 0, halvings
        rescale = PRIMITIVES[self.config.primitive].on_resolution_change
        if halvings == before or rescale is None:
            return False
        if self.synchronize():
            self._halvings = before
            return True
        rescale(self.scene, 2.0 ** (before - halvings))
        return False

    def _refine(self, clock: float) -> Refinement | None:
        """Density control after a step; the device has come to its end."""
        config = self.config
        situation = Situation(
            self.steps_done,
            clock,
            config.steps,
            self.extent,
            self.cap,
            self.generator,
            sum(view.camera.width * view.camera.height for view in self.train_views),
            self.statistics,
            self._scores,
            config.seed,
            self._duration(),
        )
        refinement = config.strategy.after_step(self.optimizer, situation)
        if refinement is None:
            return None
        self._start_statistics()
        if self.optimizer.count == 0:
            raise LuxelError(
                f"All {self.scene.noun} vanished at step {self.steps_done}.",
                "Check poses, masks and points of the capture (`luxel view` shows the cameras).",
            )
        self._log(self.steps_done, refinement.as_dict())
        return refinement

    def _prune(self, refinement: Refinement) -> Refinement:
        """Removes what matters least; counted in what was done after this step."""
        before = self.optimizer.count
        views = self.config.pruning.views or len(self.train_views)
        self.optimizer.select(self.config.pruning.keep(self._scores(views)[:, 0]))
        self._start_statistics()
        pruned = before - self.optimizer.count
        self._log(self.steps_done, {"unimportant": pruned})
        refinement.pruned += pruned
        return refinement

    def _scores(self, views: int) -> torch.Tensor:
        """`blending_scores` of the present Gaussians over training views drawn for this step, [N, 3]."""
        config, step = self.config, self.steps_done
        schedule, shade = self.timeline.at(step), self.timeline.shade(step)
        chosen = sampled(len(self.train_views), views, config.seed, step)
        return blending_scores(
            self.scene,
            self.dataset.targets(chosen, schedule.halvings, shade),
            background=torch.tensor(shade, device=self.device),
            sh_degree=schedule.sh_degree,
            antialiased=config.antialiased,
            deterministic=config.deterministic,
        )

    def _start_statistics(self) -> None:
        """Forgets what was learned for density control; a row for each of the optimizer's, spare ones too."""
        if self._statistics.data.shape[0] == self.optimizer.capacity:
            self._statistics.reset()
        else:
            self._statistics = DensifyStatistics.zeros(self.optimizer.capacity, self.device)

    def _take_numbers(self, step: int, loss: float, squared_error: float) -> None:
        """Loss and error of a step have come from the device, some steps later."""
        psnr = -10 * math.log10(max(squared_error, 1e-10)) if math.isfinite(squared_error) else math.nan
        now = self.timeline.at(step)
        self._log(step, {"loss": loss, "psnr": psnr, "sh_degree": now.sh_degree, "halvings": now.halvings})
        self.loss = loss
        if math.isfinite(loss) and math.isfinite(psnr):
            self.psnr = psnr if self.psnr is None else 0.9 * self.psnr + 0.1 * psnr
            self._loss_was_finite = True
        else:
            self._went_wrong = True

    def _remove_what_is_not_finite(self) -> None:
        self._went_wrong = False
        if not self._loss_was_finite:
            raise LuxelError(
                f"Training diverged at step {self.steps_done}: the loss is {self.loss}.",
                self._how_to_go_back(),
            )
        self._loss_was_finite = False
        self.say(f"The loss is {self.loss} at step {self.steps_done}: what is not finite is removed.")
        self.optimizer.select(finite(self.scene))
        self._start_statistics()

    def _duration(self) -> float:
        """Time between the first and the last photograph, 1 where that is 0."""
        times = [view.time for view in self.train_views]
        return (max(times) - min(times)) or 1.0

    def _time_passed(self) -> float:
        return self.train_seconds / (60 * (self.config.target_minutes or math.inf))

    def _give_way(self) -> None:
        """Memory ran out: first the photographs leave the device, then growth ends, then the faintest go."""
        # The step that failed may have been counted.
        self.steps_done = min(self.steps_done, self.queue.synchronize())
        self.queue.start(self.steps_done)
        self.queue.forget()
        release_memory()
        count = self.optimizer.count
        if not self.dataset.streaming:
            self.dataset.start_streaming()
            change = "photographs are sent step by step from now on"
        elif self.cap is None or self.cap > count:
            self.cap = count
            change = f"the count is held at {count:,} {self.scene.noun} from now on"
        else:
            self.cap = max(1, int(0.9 * count))
            opacity = self.scene.opacity_logits
            self.optimizer.select(opacity.argsort(descending=True, stable=True)[: self.cap].sort().values)
            change = f"the faintest are removed, {self.cap:,} {self.scene.noun} stay"
        self.say(f"Memory of {self.device} ran out at step {self.steps_done}: {change}.")
        self._start_statistics()
        release_memory()

    def _plan_memory(self) -> bool:
        """Says what the estimate means for the run; returns whether photographs are streamed."""
        found = limits.plan(
            self.train_views,
            self.optimizer.count,
            each=limits.bytes_of_one(self.scene),
            noun=self.scene.noun,
            pyramid=self.config.resolution.halvings > 0,
            images=self.config.images,
            max_gaussians=self.cap,
            device=self.device,
        )
        for note in found.notes:
            self.say(note)
        self.cap = found.cap
        if self.cap is not None and self.optimizer.count > self.cap:
            draw = np.random.default_rng(self.config.seed).choice(
                self.optimizer.count, self.cap, replace=False
            )
            self.optimizer.select(torch.from_numpy(np.sort(draw)).to(self.device))
            self._start_statistics()
            self.say(f"Starting from {self.cap:,} of the points.")
        return found.images == "stream"

    def _open_dataset(self, order: ViewOrder, stream: bool) -> Dataset:
        """Puts the photographs on the device; where the estimate was wrong, they are streamed after all."""
        try:
            return Dataset(self.train_views, order, self.device, stream=stream)
        except (RuntimeError, MemoryError) as error:
            if stream or not limits.is_out_of_memory(error):
                raise
        self.say("The photographs do not fit into memory: they are sent step by step.")
        release_memory()
        return Dataset(self.train_views, order, self.device, stream=True)
