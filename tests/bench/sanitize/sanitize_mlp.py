"""The cases of `sanitize.py` of the multilayer perceptron: every width, ragged sizes, deep ones, both precisions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from luxel.render.ops.field.mlp import ACTIVATIONS, Network, mlp

# inputs, width, hidden layers, outputs, activation, output activation
NETWORKS = [
    (32, 64, 2, 16, "softplus", "none"),
    (1, 16, 1, 1, "softplus", "sigmoid"),
    (32, 16, 2, 16, "softplus", "none"),
    (3, 32, 3, 5, "sigmoid", "softplus"),
    (128, 128, 8, 128, "none", "none"),
    (17, 128, 2, 33, "sigmoid", "none"),
    (33, 64, 4, 37, "softplus", "sigmoid"),
    (31, 16, 8, 127, "sigmoid", "none"),
    (19, 32, 0, 23, "relu", "softplus"),
    (128, 64, 0, 1, "none", "none"),
]


def both_ways(
    network: tuple[Any, ...], count: int, precise: bool, needs_grad: tuple[bool, bool], device: torch.device
) -> dict[str, Tensor]:
    """The output, and the gradients by x and the weights that are wanted, from a random one of the output."""
    generator = torch.Generator().manual_seed(count)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    shapes = Network(*network[:4]).shapes()
    weights = torch.cat([(normal(*shape) * math.sqrt(2 / sum(shape))).flatten() for shape in shapes])
    given = [t.half().float().to(device) for t in (normal(count, network[0]), weights)]
    g_out = normal(count, network[3]).half().float().to(device)
    for tensor, want in zip(given, needs_grad, strict=True):
        tensor.requires_grad_(want)
    out = mlp(given[0], given[1], *network, precise=precise)
    leaves = [tensor for tensor in given if tensor.requires_grad]
    gradients = torch.autograd.grad(out, leaves, g_out) if leaves else ()
    named = {"out": out} | {f"gradient {i}": gradient for i, gradient in enumerate(gradients)}
    return {name: tensor.detach().cpu() for name, tensor in named.items()}


def mlp_cases() -> dict[str, Callable[..., Any]]:
    """Every case by name, as a function of the device. Hidden ReLUs are left out: a sign may differ in half."""
    assert {a for network in NETWORKS for a in network[4:]} == set(ACTIVATIONS)
    out: dict[str, Callable[..., Any]] = {}
    for network, count in itertools.product(NETWORKS, (0, 1, 129, 1000)):
        out[f"mlp {network}, {count} rows"] = partial(both_ways, network, count, True, (True, True))
        out[f"half mlp {network}, {count} rows"] = partial(both_ways, network, count, False, (True, True))
    for needs_grad in ((False, False), (True, False), (False, True)):
        for precise in (False, True):
            kind = "mlp" if precise else "half mlp"
            out[f"{kind}, gradient by x {needs_grad[0]}, by weights {needs_grad[1]}"] = partial(
                both_ways, NETWORKS[0], 300, precise, needs_grad
            )
    out["half mlp, many runs of rows"] = partial(both_ways, NETWORKS[0], 40_000, False, (True, True))
    return out
