"""Stage: the inputs of a radiance field's colour network, and their gradient (kernels of the same name)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from luxel.render.native import library_for
from luxel.render.ops.registry import aligned, define, register_implementation, require

HARMONICS = 16

define("colour_inputs(Tensor features, Tensor directions) -> (Tensor, Tensor)")
define("colour_inputs_live(Tensor live, Tensor features, Tensor directions) -> (Tensor, Tensor)")
define("colour_inputs_bwd(Tensor g_inputs, Tensor? g_density) -> Tensor")


def colour_inputs(features: Tensor, directions: Tensor, live: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Concatenates features of samples and spherical harmonics of their directions; also returns the first feature.

    Müller et al. 2022, "Instant Neural Graphics Primitives", section 5.4: the density network's first output is the
    density before its activation, and all of its outputs are inputs of the colour network. The harmonics are those of
    `luxel.render.ops.field.spherical_harmonics.sh_basis` up to degree 3.

    Args:
        features: [S, F] with F a multiple of 4, float32 or (CPU only) float64.
        directions: unit vectors, [S, 3]; they have no gradient.
        live: how many leading rows to compute, int32 [1] on the device, so that the host does not need the number; the
            other rows of the result are undefined. There are no gradients then.

    Returns:
        [S, F + 16], and the density before its activation, [S].

    Raises:
        ValueError: shapes, types or devices do not fit, or an input requires a gradient and ``live`` is given.
    """
    if live is not None:
        if torch.is_grad_enabled() and features.requires_grad:
            raise ValueError(
                "colour_inputs: live must be None where a gradient is required, as it leaves rows unwritten"
            )
        return torch.ops.luxel.colour_inputs_live(live, features, directions)
    return torch.ops.luxel.colour_inputs(features, directions)


def _forward(features: Tensor, directions: Tensor, live: Tensor | None = None) -> tuple[Tensor, Tensor]:
    if (
        features.dim() != 2
        or features.shape[1] % 4
        or not 4 <= features.shape[1] <= 112
        or features.dtype not in (torch.float32, torch.float64)
    ):
        raise ValueError(
            "colour_inputs: features must be [S, a multiple of 4 up to 112], float32 or float64, "
            f"got {list(features.shape)} {features.dtype}"
        )
    shape = features.shape[0], 3
    expected = {"directions": (directions, features.dtype, shape), "live": (live, torch.int32, (1,))}
    require("colour_inputs", features.device, expected)
    inputs, density = outputs = _fake_forward(features)
    library_for(features.device).call(
        "colour_inputs_fwd",
        features.device,
        features.dtype,
        features=aligned(features),
        directions=directions.contiguous(),
        count=features.shape[0],
        width=features.shape[1],
        inputs=inputs,
        density=density,
        live=live,
    )
    return outputs


def _live(live: Tensor, features: Tensor, directions: Tensor) -> tuple[Tensor, Tensor]:
    return _forward(features, directions, live)


def _fake_live(live: Tensor, *given: Tensor) -> tuple[Tensor, Tensor]:
    return _fake_forward(*given)


def _backward(g_inputs: Tensor, g_density: Tensor | None) -> Tensor:
    rows, width = g_inputs.shape
    require("colour_inputs_bwd", g_inputs.device, {"g_density": (g_density, g_inputs.dtype, (rows,))})
    grad = _fake_backward(g_inputs)
    library_for(grad.device).call(
        "colour_inputs_bwd",
        grad.device,
        grad.dtype,
        g_inputs=aligned(g_inputs),
        g_density=None if g_density is None else g_density.contiguous(),
        count=rows,
        width=width - HARMONICS,
        g_features=grad,
    )
    return grad


def _fake_forward(features: Tensor, *_: object) -> tuple[Tensor, Tensor]:
    rows, width = features.shape
    return features.new_empty(rows, width + HARMONICS), features.new_empty(rows)


def _fake_backward(g_inputs: Tensor, *_: object) -> Tensor:
    return g_inputs.new_empty(g_inputs.shape[0], g_inputs.shape[1] - HARMONICS)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.shape = output[0].shape
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, g_inputs: Tensor | None, g_density: Tensor | None) -> tuple[Tensor | None, None]:
    if g_inputs is None:
        if g_density is None:
            return None, None
        g_inputs = g_density.new_zeros(ctx.shape)
    return torch.ops.luxel.colour_inputs_bwd(g_inputs, g_density), None


register_implementation("colour_inputs", _forward, _fake_forward, _differentiate, _save)
register_implementation("colour_inputs_live", _live, _fake_live)
register_implementation("colour_inputs_bwd", _backward, _fake_backward)
