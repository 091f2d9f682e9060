"""Stage: alpha of splats at one point of the image (kernels of the same name)."""

from __future__ import annotations

import torch
from torch import Tensor

from luxel.render.native import library_for
from luxel.render.ops.raster.policies import policy, policy_number
from luxel.render.ops.registry import define, register_implementation

define("probe(Tensor splats, float x, float y, str policy) -> Tensor")


def _fake(splats: Tensor, x: float, y: float, name: str) -> Tensor:
    return splats.new_empty(splats.shape[0])


def _run(splats: Tensor, x: float, y: float, name: str) -> Tensor:
    row = policy(name, "probe").row
    if splats.dim() != 2 or splats.shape[1] != row:
        raise ValueError(f"probe: splats of {name} must be [M, {row}], got {list(splats.shape)}")
    alpha, library = _fake(splats, x, y, name), library_for(splats.device)
    if alpha.numel():
        library.call(
            "probe",
            splats.device,
            splats.dtype,
            splats=splats.contiguous(),
            count=splats.shape[0],
            policy=policy_number(name, library, "probe"),
            x=x,
            y=y,
            alpha=alpha,
        )
    return alpha


register_implementation("probe", _run, _fake)


def probe(splats: Tensor, x: float, y: float, *, primitive: str) -> Tensor:
    """Alpha of splats at one point of the image, before the cap, as blending computes it.

    Args:
        splats: rows on the screen, [M, R].
        x, y: the point, px; centres of pixels are at halves.
        primitive: name of a policy, see `bin_splats`.

    Returns:
        alpha [M], 0 where the policy gives none. Nothing has a gradient.

    Raises:
        ValueError: the shape is not that of the policy's rows.
    """
    return torch.ops.luxel.probe(splats.detach(), x, y, primitive)


__all__ = ["probe"]
