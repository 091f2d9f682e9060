"""What training has to know of a primitive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from luxel.render.camera import Points, View
from luxel.render.primitives.parameters import Parameters
from luxel.render.train.rates import Rates

if TYPE_CHECKING:
    from luxel.render.train.config import TrainConfig


def no_regulariser(scene: Any, visible: Tensor, inverse_count: Tensor, config: TrainConfig) -> float:
    """0."""
    return 0.0


@dataclass(frozen=True)
class Kind:
    """One primitive under the trainer.

    Args:
        parameters: its parameters.
        rates: its learning rates.
        strategies: names of those that can control its density; the first is the usual one.
        first: makes the primitives that training starts from, of points with finite coordinates.
        regularise: what is added to the loss, a scalar: called with the primitives (spare rows of opacity 0
            included), which of them a view of the step sees (bool [N]), 1 / N without the spare rows ([1]), and the
            configuration. Must not wait for the device.
        step_of_its_own: whether there is a fused step.
    """

    parameters: type[Parameters]
    rates: type[Rates]
    strategies: tuple[str, ...]
    first: Callable[[Points, TrainConfig, Sequence[View], torch.device], Parameters]
    regularise: Callable[[Any, Tensor, Tensor, TrainConfig], Tensor | float] = no_regulariser
    step_of_its_own: bool = False
