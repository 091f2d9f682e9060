"""Bounds on the weights of networks that train for long at a high rate, without a change of what they compute."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

from luxel.render.fields.nets.mlp import Mlp

EVERY = 50  # steps between checks
# Bounds of the norms of layers, as multiples of what `first_norm` gives. The last one takes the growth of all; its
# bound is far beyond where activations saturate.
MAX_GROWTH, MAX_LAST = 2.0, 64.0
HOMOGENEOUS = ("relu", "none")  # activations with a(c x) = c a(x) for c > 0


class State(NamedTuple):
    """The tensors of one parameter in an optimizer, all of its shape.

    Attributes:
        weights: those that Adam updates.
        mean: their running mean; the same tensor where there is none.
        first, second: Adam's moments.
    """

    weights: Tensor
    mean: Tensor
    first: Tensor
    second: Tensor


class WeightBalance:
    """Retains the scale of hidden layers by handing what they have grown to the layer after them.

    Networks whose activations are homogeneous compute the same if a layer is divided by a factor and the next one is
    multiplied by it (Neyshabur et al. 2015, "Path-SGD"). Noise of gradients lets the weights of all layers grow without
    a change of the result, until activations leave the range of half precision (65,504). A hidden layer whose Frobenius
    norm is above `MAX_GROWTH` times that of its first weights is divided by the excess f, the next layer is multiplied
    by it. Gradients change by the inverse factors, so Adam's first moment of the layer is multiplied by f and its
    second by f^2, and those of the next one are divided by them; the running mean changes as the weights.

    The last layer, which takes the growth of all, is scaled down to `MAX_LAST` times that of its first weights, a
    constraint of its norm (Srivastava et al. 2014, "Dropout", section 5.1).

    Everything is on the device and in place, so that captured steps remain valid.

    Args:
        networks: those with homogeneous activations are balanced.
        parameters: of the application.
        states: of each parameter.
    """

    def __init__(
        self, networks: Sequence[Mlp], parameters: Sequence[nn.Parameter], states: Sequence[State]
    ) -> None:
        of_parameter = {id(parameter): state for parameter, state in zip(parameters, states, strict=True)}
        self._networks = [
            [
                State(*layer)
                for layer in zip(
                    *(network.matrices(t) for t in of_parameter[id(network.weights)]), strict=True
                )
            ]
            for network in networks
            if network.activation in HOMOGENEOUS
        ]

    @staticmethod
    def due(step: int) -> bool:
        """Whether weights are checked after step number ``step`` (0 is the first)."""
        return step % EVERY == EVERY - 1

    @torch.no_grad()
    def apply(self) -> None:
        """Balances all networks; nothing waits for the device."""
        for layers in self._networks:
            for layer, after in pairwise(layers):
                excess = _excess(layer.weights, MAX_GROWTH)
                _scale(layer, 1 / excess)
                _scale(after, excess)
                for moments, factor in ((layer, excess), (after, 1 / excess)):
                    moments.first.mul_(factor)
                    moments.second.mul_(factor.square())
            _scale(layers[-1], 1 / _excess(layers[-1].weights, MAX_LAST))


def first_norm(matrix: Tensor) -> float:
    """The root mean square of the Frobenius norm of a matrix whose elements are those of a new `Mlp`."""
    after, before = matrix.shape
    return math.sqrt(2 * after * before / (after + before))


def _excess(matrix: Tensor, limit: float) -> Tensor:
    """By what the norm of a matrix exceeds a multiple of the first norm, at least 1, a scalar."""
    return (matrix.norm() / (limit * first_norm(matrix))).clamp_min(1)


def _scale(layer: State, factor: Tensor) -> None:
    """Multiplies weights and their running mean."""
    layer.weights.mul_(factor)
    if layer.mean.data_ptr() != layer.weights.data_ptr():
        layer.mean.mul_(factor)
