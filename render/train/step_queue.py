"""Keeps the device busy with training steps, and learns some steps later how they went."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from luxel.render.primitives import PRIMITIVES
from luxel.render.primitives.spec import AuxiliaryState
from luxel.render.rasterize import DensifyStatistics, rasterize
from luxel.render.replay import Replay, sent_to_host
from luxel.render.train.config import TrainConfig
from luxel.render.train.dataset import Dataset, ImageStack
from luxel.render.train.general_step import general_step
from luxel.render.train.instance_room import InstanceRoom
from luxel.render.train.objective import alpha_term, squared_error
from luxel.render.train.optimizer import Optimizer
from luxel.render.train.step import StepContext, StepOutput, fused_step, instances_needed
from luxel.render.train.timeline import ScheduleValues, StepTable, Timeline

PULSE = 8  # steps between looks at the device's status
RUN_AHEAD = 4  # pulses that may be under way: bounds how long a viewer waits for its turn


@dataclass
class Reading:
    """Numbers on their way from the device, in page-locked memory; there once ``arrived``."""

    step: int  # steps that were asked for when it was taken
    status: Tensor
    numbers: Tensor | None  # loss and squared error of the last step
    event: torch.cuda.Event | None

    @property
    def arrived(self) -> bool:
        """Whether the numbers can be read without waiting."""
        return self.event is None or self.event.query()

    def wait(self) -> None:
        """Waits until the numbers are there."""
        if self.event is not None:
            self.event.synchronize()


class StepQueue:
    """Asks for steps one after another without waiting for them.

    A step whose lists did not fit changes nothing, nor do those after it, until `synchronize` has made more room; the
    caller then repeats them. So nothing is lost and the result does not depend on the room.

    Args:
        config: of the run.
        dataset: photographs.
        timeline: schedules.
        render: draws with gradients by autograd; with luxel's own `rasterize` steps do not wait for the device.
        on_numbers: told (step, loss, squared error) of the steps that were asked for with ``report``.
        kept: what the primitive keeps from step to step, if anything.
    """

    def __init__(
        self,
        config: TrainConfig,
        dataset: Dataset,
        timeline: Timeline,
        render: Callable[..., Any],
        on_numbers: Callable[[int, float, float], None],
        kept: AuxiliaryState | None = None,
    ) -> None:
        self.config, self.dataset, self.timeline = config, dataset, timeline
        self.device = dataset.device
        self._render, self._waits = render, render is not rasterize
        self._fused = not self._waits and PRIMITIVES[config.primitive].projection is not None
        self._on_numbers, self._kept = on_numbers, kept
        self._table = StepTable(self.device, config.batch)
        self._status = torch.zeros(4, dtype=torch.int32, device=self.device)
        # Whether lists get room by estimate; else the number is asked for.
        self.estimates = self.device.type == "cuda"
        self._scalars: dict[float, Tensor] = {}
        self._room = InstanceRoom()
        self._replay: Replay[StepOutput] = Replay(self.device)
        self._counted_from = 0  # the step at which the status was last cleared
        self._under_way: deque[Reading] = deque()
        self._level = 0

    @property
    def captures(self) -> int:
        """How many CUDA graphs have been captured."""
        return self._replay.captures

    def start(self, step: int) -> None:
        """The next step is number ``step``; what went before is forgotten."""
        self._under_way.clear()
        self._table.forget()
        self._status.zero_()
        self._counted_from = step

    def forget(self) -> None:
        """Drops what was captured and the memory that belongs to it."""
        self._replay.forget()

    def submit(self, step: int, optimizer: Optimizer, statistics: DensifyStatistics, report: bool) -> None:
        """Asks for step number ``step``, the one after the last that was asked for.

        Args:
            optimizer, statistics: what the step changes; statistics with a row for each of the optimizer's.
            report: whether its loss and error are to be told.
        """
        schedule, batch = self.timeline.at(step), self.config.batch
        looks = range(step * batch, (step + 1) * batch)
        self._table.reach(step, self.timeline, self.dataset.place)
        if schedule.halvings != self._level:
            self._level = schedule.halvings
            self._room.forget()
        self._send_scalars()
        guesses = self.estimates and not self._waits
        context = StepContext(
            self.config,
            optimizer,
            statistics,
            self._table.tensor,
            self._status,
            self._scalars,
            self._room.limit if guesses else None,
            self._kept,
            self._kept is not None and self._kept.plan(step, optimizer),
        )
        if guesses and context.capacity is None:
            stack = self.dataset.image_stack(looks[0], schedule.halvings)
            context.capacity = self._room.begin(instances_needed(context, stack))
        seen = self._run(context, looks, schedule)
        optimizer.steps = step + 1
        if report or (self.estimates and (step + 1) % PULSE == 0):
            self._read(step + 1, seen if report else None)

    def poll(self) -> bool:
        """Takes what has arrived from the device, and waits where too much is under way.

        Returns:
            Whether steps have stalled for lack of room, so that `synchronize` must be called.
        """
        while self._under_way:
            oldest = self._under_way[0]
            if not oldest.arrived:
                if len(self._under_way) <= RUN_AHEAD:
                    return False
                oldest.wait()
            if int(oldest.status[1]) != 0:
                return True
            self._under_way.popleft()
            self._tell(oldest)
        return False

    def synchronize(self) -> int:
        """Waits for the device; returns how many steps count, and makes room where it was lacking.

        Steps above that number have changed nothing and are to be asked for again.
        """
        done, stalled, most, _ = self._status.tolist()
        for reading in self._under_way:
            if int(reading.status[1]) == 0:
                self._tell(reading)
        self._under_way.clear()
        step = self._counted_from + done
        self._room.adapt(most, stalled != 0)
        if stalled:
            self.start(step)
        else:  # the table goes on where it is
            self._status[2] = 0
        return step

    def _run(self, context: StepContext, looks: range, schedule: ScheduleValues) -> StepOutput:
        def work(stack: Callable[[int], ImageStack]) -> StepOutput:
            if self._fused and (len(looks) == 1 or not self.dataset.streaming):
                stacks = [stack(look) for look in looks]
                if all(one is stacks[0] for one in stacks):
                    return fused_step(context, stacks[0], schedule, len(looks))
            return general_step(self._render, context, [partial(stack, look) for look in looks], schedule)

        def stack(look: int) -> ImageStack:
            return self.dataset.image_stack(look, schedule.halvings)

        # Asking the device is nothing that a captured step can do; streamed photographs take turns on a stack.
        if context.capacity is None or (len(looks) > 1 and self.dataset.streaming):
            return work(stack)
        stacks = {look: stack(look) for look in looks}
        optimizer = context.optimizer
        epoch = (
            optimizer.generation,
            context.capacity,
            context.statistics.data.data_ptr(),
            schedule.halvings,
            schedule.sh_degree,
            schedule.counts,
        )
        photos = (held.images.rgb.data_ptr() for held in stacks.values())
        key = (*photos, schedule.moves_sh_rest, context.renews)
        return self._replay.run(epoch, key, lambda: work(stacks.__getitem__))

    def _send_scalars(self) -> None:
        """Puts the weights of the loss on the device, before a step that may be captured looks for them."""
        weights = map(float, vars(self.config.loss).values())
        for weight in {1.0, 1 / self.config.batch, *weights} - self._scalars.keys():
            self._scalars[weight] = torch.full((), weight, device=self.device)

    def _read(self, step: int, seen: StepOutput | None) -> None:
        """Sends the status, and the numbers of a step, on their way to the host."""
        numbers = None
        if seen is not None:
            loss = seen.loss + alpha_term(1 - seen.transmittance, seen.target, self.config.loss)
            numbers = torch.stack([loss, squared_error(seen.rgb, seen.target)])
        status, event = self._status, None
        if self.device.type == "cuda":
            status, numbers = sent_to_host(status), None if numbers is None else sent_to_host(numbers)
            event = torch.cuda.Event()
            event.record()
        self._under_way.append(Reading(step, status, numbers, event))

    def _tell(self, reading: Reading) -> None:
        if reading.numbers is not None:
            loss, error = reading.numbers.tolist()
            self._on_numbers(reading.step, loss, error)
