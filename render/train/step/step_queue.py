"""Submits training steps to the device without waiting, and reads their results some steps later."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from luxel.render.primitives import PRIMITIVES
from luxel.render.primitives.spec import AuxiliaryState
from luxel.render.raster.rasterize import DensifyStatistics, rasterize
from luxel.render.replay import Replay
from luxel.render.runs.readback import PULSE, Readback, ReadbackQueue
from luxel.render.train.config import TrainConfig
from luxel.render.train.memory.instance_capacity import InstanceCapacity
from luxel.render.train.step.fused_step import StepContext, StepOutput, fused_step, instances_needed
from luxel.render.train.step.general_step import general_step
from luxel.render.train.step.objective import loss_context, squared_error
from luxel.render.train.step.terms.active import TermWeights
from luxel.render.train.step.terms.alpha import alpha_difference
from luxel.render.train.step.terms.registry import step_terms
from luxel.render.train.step.timeline import ScheduleValues, StepTable, Timeline
from luxel.render.train.store.protocol import ParameterStore, StepRows
from luxel.render.train.views.dataset import Dataset, ImageStack
from luxel.render.train.views.models import ViewModels


class StepQueue:
    """Submits steps one after another without waiting for the device.

    If the capacity for tile instances is too small for a step, that step and all after it change nothing until
    `synchronize` has raised the capacity; the caller then submits them again. So the result does not depend on the
    capacity.

    Args:
        config: of the run.
        dataset: training images.
        timeline: schedules.
        render: renders with gradients by autograd; with luxel's own `rasterize` steps do not wait for the device.
        on_stats: called with (step, loss, squared error) of the steps that were submitted with ``report``.
        auxiliary: auxiliary state of the primitive, if any.
        coverage: share of the pixels of the training images that show the scene.
        models: what is learnt of the training views; updated in place.

    Attributes:
        estimates: whether the capacity is estimated from earlier steps; else each step reads it back from the device.
    """

    def __init__(
        self,
        config: TrainConfig,
        dataset: Dataset,
        timeline: Timeline,
        render: Callable[..., Any],
        on_stats: Callable[[int, float, float], None],
        auxiliary: AuxiliaryState | None = None,
        coverage: float = 1.0,
        models: ViewModels | None = None,
    ) -> None:
        self.config, self.dataset, self.timeline = config, dataset, timeline
        self.device = dataset.device
        self._render, self._waits = render, render is not rasterize
        self._fused = not self._waits and PRIMITIVES[config.primitive].engine.projection is not None
        self._on_stats, self._auxiliary, self._coverage = on_stats, auxiliary, coverage
        self._models = models or ViewModels()
        self._table = StepTable(self.device, config.batch)
        self._status = torch.zeros(4, dtype=torch.int32, device=self.device)
        self.estimates = self.device.type == "cuda"
        self._scalars = {
            x: torch.full((), x, device=self.device) for x in {1.0, 1 / config.batch}
        }  # of the loss; steps that are captured read them
        self._weights = TermWeights(step_terms(config), self.device, config.batch)
        self._instance_capacity = InstanceCapacity()
        self._replay: Replay[StepOutput] = Replay(self.device)
        self._counted_from = 0  # the step at which the status was last cleared
        self._readbacks = ReadbackQueue(self.device)
        self._halvings = 0

    @property
    def captures(self) -> int:
        """How many CUDA graphs have been captured."""
        return self._replay.captures

    def start(self, step: int) -> None:
        """Drops pending readbacks and clears the status; the next step is number ``step``."""
        self._readbacks.clear()
        self._table.forget()
        self._status.zero_()
        self._counted_from = step

    def forget(self) -> None:
        """Drops captured steps and their memory."""
        self._replay.forget()

    def submit(self, step: int, store: ParameterStore, statistics: DensifyStatistics, report: bool) -> None:
        """Submits step number ``step``, the one after the last submitted step.

        Args:
            store: parameters and Adam's moments, updated in place.
            statistics: for density control, a row for each row of the store; updated in place.
            report: whether to read back loss and squared error.
        """
        schedule, batch = self.timeline.at(step), self.config.batch
        samples = range(step * batch, (step + 1) * batch)
        self._table.reach(step, self.timeline, self.dataset.sample, self._models.visit)
        if schedule.halvings != self._halvings:
            self._halvings = schedule.halvings
            self._instance_capacity.forget()
        estimated = self.estimates and not self._waits
        context = StepContext(
            self.config,
            store,
            StepRows({}, {}, {}),  # `_run` takes them
            statistics,
            self._table.tensor,
            self._status,
            self._scalars,
            self._weights.at(
                loss_context(
                    self.config, schedule.counts, self.timeline.extent, self._coverage, schedule.progress
                )
            ),
            self.timeline.extent,
            self._instance_capacity.limit if estimated else None,
            self._auxiliary,
            self._auxiliary is not None and self._auxiliary.plan(step, store),
            self._models,
        )
        if estimated and context.capacity is None:
            stack = self.dataset.image_stack(samples[0], schedule.halvings)
            context.capacity = self._instance_capacity.begin(instances_needed(context, stack))
        output = self._run(context, samples, schedule)
        store.steps = step + 1
        if report or (self.estimates and (step + 1) % PULSE == 0):
            self._read_back(step + 1, output if report else None)

    def poll(self) -> bool:
        """Handles the readbacks that have arrived; waits only when too many are in flight.

        Returns:
            Whether steps have stalled because the capacity was too small, so that `synchronize` must be called.
        """
        for readback in self._readbacks.arrived():
            if _stalled(readback):
                return True
            self._report(readback)
        return False

    def synchronize(self) -> int:
        """Waits for the device; returns the number of steps that took effect, and raises the capacity where needed.

        Steps above that number have changed nothing and must be submitted again.
        """
        done, stalled, max_instances, _ = self._status.tolist()
        for readback in self._readbacks.arrived(wait=True):
            if not _stalled(readback):
                self._report(readback)
        step = self._counted_from + done
        self._instance_capacity.adapt(max_instances, stalled != 0)
        if stalled:
            self.start(step)
        else:  # the table continues where it is
            self._status[2] = 0
        return step

    def _run(self, context: StepContext, samples: range, schedule: ScheduleValues) -> StepOutput:
        def stack(sample: int) -> ImageStack:
            return self.dataset.image_stack(sample, schedule.halvings)

        # A captured step cannot wait for the device; streamed images share one stack.
        shared = len(samples) > 1 and self.dataset.streaming
        captured = context.capacity is not None and not shared
        stacks = (
            {sample: stack(sample) for sample in samples} if captured or (self._fused and not shared) else {}
        )
        first = next(iter(stacks.values()), None)
        fused = self._fused and all(one is first for one in stacks.values())

        def work() -> StepOutput:
            if fused and first is not None:
                return fused_step(context, first, schedule, len(samples))
            take = [partial(stacks.__getitem__ if stacks else stack, sample) for sample in samples]
            return general_step(self._render, context, take, schedule)

        store = context.store
        context.rows = store.begin(spare=(fused and first is not None) or context.capacity is not None)
        if captured:
            epoch = (
                store.key,
                context.capacity,
                context.statistics.data.data_ptr(),
                schedule.halvings,
                schedule.sh_degree,
                schedule.counts,
                context.terms.key,
            )
            images = (one.images.rgb.data_ptr() for one in stacks.values())
            output = self._replay.run(epoch, (*images, schedule.moves_sh_rest, context.renews), work)
        else:
            output = work()
        store.commit(context.rows)
        return output

    def _read_back(self, step: int, output: StepOutput | None) -> None:
        """Starts copying the status, and loss and squared error of a step, to the host."""
        stats = None
        if output is not None:
            loss, target, weight = output.loss, output.target, self.config.loss.alpha_weight
            if target.alpha is not None and weight > 0:
                alpha = alpha_difference(1 - output.transmittance, target.alpha, target.weight)
                loss = loss + weight * alpha
            loss = loss if output.depth is None else loss + output.depth
            stats = torch.stack([loss, squared_error(output.rgb, output.target)])
        self._readbacks.push(step, self._status, stats)

    def _report(self, readback: Readback) -> None:
        stats = readback.tensors[1]
        if stats is not None:
            loss, error = stats.tolist()
            self._on_stats(readback.step, loss, error)


def _stalled(readback: Readback) -> bool:
    """Whether the capacity was too small for this step or one before it, see `count_step_`."""
    status = readback.tensors[0]
    return status is not None and int(status[1]) != 0
