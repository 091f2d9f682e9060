"""The colour network of a radiance field with its inputs, for rendering: a part of the stage mlp."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from luxel.render.native import library_for
from luxel.render.ops.field.colour_inputs import HARMONICS, colour_inputs
from luxel.render.ops.field.mlp import ACTIVATIONS, Activation, Network, computed_anew, mlp
from luxel.render.ops.registry import define, register_implementation, require

define(
    "colour_network(Tensor? live, Tensor features, Tensor directions, Tensor weights, int inputs, int width, "
    "int hidden_layers, int outputs, int activation, int output_activation) -> (Tensor, Tensor)"
)


def colour_network(
    features: Tensor,
    directions: Tensor,
    weights: Tensor,
    width: int,
    hidden_layers: int,
    outputs: int,
    activation: Activation = "relu",
    output_activation: Activation = "none",
    *,
    precise: bool = False,
    live: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """`luxel.render.ops.field.mlp.mlp` of `luxel.render.ops.field.colour_inputs.colour_inputs`; no gradients.

    In one kernel where the network's hidden layers are not retained for a backward pass either: what it takes is not
    written to memory.

    Args:
        features: [S, F] with F a multiple of 4, float32 or (CPU only) float64.
        directions: unit vectors, [S, 3].
        weights, width, hidden_layers, outputs, activation, output_activation, precise: as of `mlp`, of F + 16 inputs.
        live: how many leading rows to compute, int32 [1] on the device; the other rows of the result are undefined.

    Returns:
        [S, O], and the first feature, [S].

    Raises:
        ValueError: sizes are out of range, or shapes, types or devices do not fit them.
    """
    with torch.no_grad():
        inputs = features.shape[-1] + HARMONICS
        codes = ACTIVATIONS[activation], ACTIVATIONS[output_activation]
        network = Network(inputs, width, hidden_layers, outputs, *codes, precise)
        if features.device.type == "cuda" and not computed_anew(features.device, network):
            joined, first = colour_inputs(features, directions, live)
            chosen = activation, output_activation
            return mlp(joined, weights, *network[:4], *chosen, precise=precise, live=live), first
        return torch.ops.luxel.colour_network(live, features, directions, weights, *network[:6])


def _run(
    live: Tensor | None, features: Tensor, directions: Tensor, weights: Tensor, *sizes: Any
) -> tuple[Tensor, Tensor]:
    network = Network(*sizes)
    network.check()
    rows, dtype, device = features.shape[0], features.dtype, features.device
    if dtype not in (torch.float32, torch.float64):
        raise ValueError(f"colour_network: features must be float32 or float64, got {dtype}")
    expected: dict[str, tuple[Tensor | None, torch.dtype, tuple[int, ...]]] = {
        "features": (features, dtype, (rows, network.inputs - HARMONICS)),
        "directions": (directions, dtype, (rows, 3)),
        "weights": (weights, dtype, (network.parameter_count(),)),
        "live": (live, torch.int32, (1,)),
    }
    require("colour_network", device, expected)
    out, first = _fake(live, features, directions, weights, *sizes)
    arguments: dict[str, Any] = network._asdict() | {"precise": 0, "count": rows}
    library = library_for(device)
    needed = library.call("mlp_fwd_workspace", device, dtype, **arguments)
    library.call(
        "mlp_fwd",
        device,
        dtype,
        **arguments,
        x=features.contiguous(),
        directions=directions.contiguous(),
        weights=weights.contiguous(),
        live=live,
        out=out,
        first=first,
        workspace=torch.empty(needed, dtype=torch.uint8, device=device),
        workspace_bytes=needed,
    )
    return out, first


def _fake(
    live: Tensor | None, features: Tensor, directions: Tensor, weights: Tensor, *sizes: Any
) -> tuple[Tensor, Tensor]:
    rows = features.shape[0]
    return features.new_empty(rows, Network(*sizes).outputs), features.new_empty(rows)


register_implementation("colour_network", _run, _fake)
