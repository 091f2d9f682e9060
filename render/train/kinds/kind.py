"""What training has to know of a primitive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from luxel.render.camera import Points, View
from luxel.render.primitives.parameters import Parameters
from luxel.render.train.rates import Rates

if TYPE_CHECKING:
    from luxel.render.train.config import TrainConfig
    from luxel.render.train.optimizer import Optimizer
    from luxel.render.train.timeline import ScheduleValues


Term = tuple[float, Tensor]  # of the loss: a weight, and a scalar on the device


class AuxiliaryState(Protocol):
    """What a primitive keeps from step to step beside its rows, and the loss that it is kept for.

    It is renewed on the device, now and then, as the host plans; nothing waits for the device. What it holds must be
    a function of the steps that count, so that a run goes on after a checkpoint as if it had not stopped.
    """

    def plan(self, step: int, optimizer: Optimizer) -> bool:
        """Makes room for all rows, and says whether step number ``step`` renews; asked before every step."""
        ...

    def renew(self, scene: Any, status: Tensor) -> None:
        """Renews within a step, unless the steps have stalled: where ``status[1]`` (see `count_step_`) is not 0."""
        ...

    def term(self, scene: Any, visible: Tensor) -> Term:
        """What is added to the loss for the primitives and which of them a view of the step sees."""
        ...

    def tensors(self, optimizer: Optimizer) -> dict[str, Tensor]:
        """What a checkpoint has to hold, by name; nothing where the next step renews whatever comes."""
        ...

    def restore(self, tensors: dict[str, Tensor], optimizer: Optimizer) -> None:
        """Takes it out of all tensors of a checkpoint; where it is not there or does not fit, the next step renews."""
        ...


def nothing_kept(config: TrainConfig) -> None:
    """Nothing."""


def no_regulariser(
    scene: Any, visible: Tensor, inverse_count: Tensor, config: TrainConfig, moment: ScheduleValues
) -> list[Term]:
    """Nothing."""
    return []


@dataclass(frozen=True)
class Kind:
    """One primitive under the trainer.

    Args:
        parameters: its parameters.
        rates: its learning rates.
        strategies: names of those that can control its density; the first is the usual one.
        first: makes the primitives that training starts from, of points with finite coordinates.
        regularise: what is added to the loss: called with the primitives (spare rows of opacity 0
            included), which of them a view of the step sees (bool [N]), 1 / N without the spare rows ([1]), the
            configuration, and what the schedules say. Must not wait for the device.
        keeps: makes what a run keeps from step to step, where there is such a thing.
        penalties: weights of what is added to the loss by the backward of the projection itself, instead of
            `regularise` and the strategy's penalties, by the names of
            `luxel.render.ops.train.project_adam.project_adam_`; that divides by N. None: nothing is.
    """

    parameters: type[Parameters]
    rates: type[Rates]
    strategies: tuple[str, ...]
    first: Callable[[Points, TrainConfig, Sequence[View], torch.device], Parameters]
    regularise: Callable[[Any, Tensor, Tensor, TrainConfig, ScheduleValues], list[Term]] = no_regulariser
    keeps: Callable[[TrainConfig], AuxiliaryState | None] = nothing_kept
    penalties: Callable[[TrainConfig, ScheduleValues], dict[str, float]] | None = None
