"""Emission and absorption along rays in plain torch: one operation after another."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

MIN_DERIVATIVE = 1 / 1024  # of a saturated colour that a step brings back


def distortion_reference(
    density: Tensor,
    dt: Tensor,
    t: Tensor,
    ranges: Tensor,
    step: float,
    growth: float,
    unit: float,
    scale: float = 1.0,
    min_transmittance: float = 1e-4,
) -> Tensor:
    """Distortion of rays (Barron et al. 2022, "Mip-NeRF 360", equation 15), pair by pair, [R]; differentiable
    by density.

    Args:
        density, dt, t, ranges, scale, min_transmittance: as in `composite_reference`.
        step, growth: steps are max(step, growth t) long; s counts them.
        unit: steps of a unit of s; every sample is 1 / unit wide.
    """
    edge = step / growth if growth > 0 else float("inf")
    s = torch.where(t <= edge, t / step, 0)
    if growth > 0:
        s = torch.where(t <= edge, s, (1 + (t / edge).log()) / growth)
    s = s / unit
    total = []
    for first, count in ranges.tolist():
        depths = scale * density[first : first + count].clamp(-15, 15).exp() * dt[first : first + count]
        reached = (-(depths.cumsum(0) - depths)).exp()
        weights = torch.where(reached >= min_transmittance, reached * -torch.expm1(-depths), 0)
        apart = (s[first : first + count, None] - s[None, first : first + count]).abs()
        total.append(weights @ apart @ weights + (weights**2).sum() / (3 * unit))
    return torch.stack(total)


def composite_reference(
    density: Tensor,
    colour: Tensor,
    dt: Tensor,
    t: Tensor,
    ranges: Tensor,
    background: Tensor,
    scale: float = 1.0,
    min_transmittance: float = 1e-4,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Colours of rays (Mildenhall et al. 2020, "NeRF", equation 3); differentiable by density and colour.

    In the gradient by ``colour`` the derivative of the sigmoid is at least `MIN_DERIVATIVE` where a step against it
    brings the colour nearer to 1/2.

    Args:
        density, colour: of samples before exp and sigmoid, [S], [S, 3].
        dt, t: lengths of the samples and their distances along the rays, [S].
        ranges: first sample and number of them of each ray, integers [R, 2].
        background: [R, 3].
        scale: factor on lengths.
        min_transmittance: samples with a smaller transmittance in front have no weight.

    Returns:
        rgb [R, 3], transmittance [R], depth [R]; and how near any transmittance of a ray comes to the least, as a ratio
        less 1, [R].
    """
    first, count = ranges.long().unbind(-1)
    most = int(count.max().item()) if len(count) else 0
    position = torch.arange(most, device=density.device)
    inside = position < count[:, None]
    index = torch.where(inside, first[:, None] + position, 0)
    depths = torch.where(inside, scale * density.clamp(-15, 15).exp()[index] * dt[index], 0)
    before = depths.cumsum(-1) - depths
    reached = (-before).exp()
    visible = inside & (reached >= min_transmittance)
    weights = torch.where(visible, reached * -torch.expm1(-depths), 0)
    transmittance = (-torch.where(visible, depths, 0).sum(-1)).exp()
    rgb = (weights[..., None] * _Returning.apply(colour)[index]).sum(1) + transmittance[:, None] * background
    near = torch.where(inside, (reached / min_transmittance - 1).abs(), torch.inf)
    margin = near.amin(-1) if most else torch.full_like(transmittance, torch.inf)
    return rgb, transmittance, (weights * t[index]).sum(-1), margin.detach()


class _Returning(torch.autograd.Function):
    """The sigmoid, out of whose ends gradients lead back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = x.sigmoid()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        derivative = y * (1 - y)
        back = torch.where(y < 0.5, g < 0, g > 0)
        return g * torch.where(back, derivative.clamp_min(MIN_DERIVATIVE), derivative)
