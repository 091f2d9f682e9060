"""Emission and absorption along rays in plain torch: one operation after another."""

from __future__ import annotations

import torch
from torch import Tensor


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
    place = torch.arange(most, device=density.device)
    inside = place < count[:, None]
    index = torch.where(inside, first[:, None] + place, 0)
    depths = torch.where(inside, scale * density.clamp(-15, 15).exp()[index] * dt[index], 0)
    before = depths.cumsum(-1) - depths
    reached = (-before).exp()
    seen = inside & (reached >= min_transmittance)
    weights = torch.where(seen, reached * -torch.expm1(-depths), 0)
    transmittance = (-torch.where(seen, depths, 0).sum(-1)).exp()
    rgb = (weights[..., None] * colour.sigmoid()[index]).sum(1) + transmittance[:, None] * background
    near = torch.where(inside, (reached / min_transmittance - 1).abs(), torch.inf)
    margin = near.amin(-1) if most else torch.full_like(transmittance, torch.inf)
    return rgb, transmittance, (weights * t[index]).sum(-1), margin.detach()
