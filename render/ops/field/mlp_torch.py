"""The multilayer perceptron as torch operations, for the second derivatives of `luxel.render.ops.field.mlp`."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "relu": torch.relu,
    "softplus": lambda x: torch.logaddexp(x, torch.zeros_like(x)),
    "sigmoid": torch.sigmoid,
}


def mlp_torch(
    x: Tensor,
    weights: Tensor,
    inputs: int,
    width: int,
    hidden_layers: int,
    outputs: int,
    activation: str,
    output_activation: str,
) -> Tensor:
    """out = a_out(W_H h_H) with h_{l+1} = a(W_l h_l), h_0 = x; differentiable any number of times.

    Args:
        x: [N, I].
        weights: the matrices one after another, each row major [its outputs, its inputs], [P].
        inputs, width, hidden_layers, outputs: I, W, H, O; H = 0 is one linear layer.
        activation, output_activation: none, relu, softplus (log(1 + e^x)) or sigmoid.

    Returns:
        [N, O].
    """
    widths = [inputs, *[width] * hidden_layers, outputs]
    shapes = [(after, before) for before, after in pairwise(widths)]
    matrices = weights.split([after * before for after, before in shapes])
    h = x
    for layer, (matrix, shape) in enumerate(zip(matrices, shapes, strict=True)):
        h = _ACTIVATIONS[activation if layer < hidden_layers else output_activation](h @ matrix.view(shape).T)
    return h
