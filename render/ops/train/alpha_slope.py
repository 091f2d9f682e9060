"""Stage: the gradient of an alpha loss by the transmittance."""

from __future__ import annotations

import torch
from torch import Tensor

from luxel.render.native import library_for
from luxel.render.ops.registry import define, register_implementation, require

define("alpha_slope(Tensor transmittance, Tensor target, Tensor? weight, float share) -> Tensor")


def alpha_slope(transmittance: Tensor, target: Tensor, weight: Tensor | None, share: float) -> Tensor:
    """The gradient of share * mean(weight |alpha - target|) by the transmittance 1 - alpha; no gradient of its own.

    Args:
        transmittance, target: float32 [H, W]; target is an alpha in [0, 1].
        weight: per pixel, float32 [H, W]; None: all 1.
        share: weight of the term in the loss.

    Raises:
        ValueError: shapes, types or devices do not fit.
    """
    return torch.ops.luxel.alpha_slope(transmittance, target, weight, share)


def _run(transmittance: Tensor, target: Tensor, weight: Tensor | None, share: float) -> Tensor:
    tensors = {"transmittance": transmittance, "target": target, "weight": weight}
    shape = tuple(transmittance.shape)
    require("alpha_slope", transmittance.device, {n: (t, torch.float32, shape) for n, t in tensors.items()})
    slope = torch.empty_like(transmittance, memory_format=torch.contiguous_format)
    library_for(transmittance.device).call(
        "alpha_slope",
        transmittance.device,
        torch.float32,
        transmittance=transmittance.contiguous(),
        target=target.contiguous(),
        weight=None if weight is None else weight.contiguous(),
        pixels=transmittance.numel(),
        scale=share / max(1, transmittance.numel()),
        g_transmittance=slope,
    )
    return slope


def _fake(transmittance: Tensor, *_: object) -> Tensor:
    return torch.empty_like(transmittance, memory_format=torch.contiguous_format)


register_implementation("alpha_slope", _run, _fake)
