"""A multilayer perceptron in plain torch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "relu": torch.relu,
    "softplus": lambda x: torch.logaddexp(x, torch.zeros_like(x)),
    "sigmoid": torch.sigmoid,
}


def mlp_reference(
    x: Tensor,
    weights: Tensor,
    inputs: int,
    width: int,
    hidden_layers: int,
    outputs: int,
    activation: str = "relu",
    output_activation: str = "none",
) -> Tensor:
    """A multilayer perceptron without biases (Müller 2021, "Tiny CUDA neural networks").

    Args:
        x: [N, I].
        weights: the matrices one after another, each row major [its outputs, its inputs], [P].
        inputs, width, hidden_layers, outputs: I, W, H, O; H = 0 is one linear layer.
        activation: of hidden layers: none, relu, softplus (log(1 + e^x)) or sigmoid.
        output_activation: of the result, likewise.

    Returns:
        [N, O].
    """
    widths = [inputs, *[width] * hidden_layers, outputs]
    shapes = list(zip(widths[1:], widths, strict=False))
    h = x
    for layer, matrix in enumerate(weights.split([after * before for after, before in shapes])):
        h = h @ matrix.view(shapes[layer]).T
        h = _ACTIVATIONS[activation if layer < hidden_layers else output_activation](h)
    return h
