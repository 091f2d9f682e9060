"""Which samples along rays can be seen, in plain torch: one operation after another."""

from __future__ import annotations

import torch
from torch import Tensor


def visible_samples_reference(
    density: Tensor,
    dt: Tensor,
    ranges: Tensor,
    *,
    scale: float = 1.0,
    min_transmittance: float = 1e-4,
    min_alpha: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Those of a transmittance of at least ``min_transmittance`` that absorb at least ``min_alpha`` of the light.

    Args:
        density: of samples before exp, [M].
        dt: lengths of the samples, [M].
        ranges: first sample and number of them of each ray, integers [R, 2].
        scale: factor on lengths.
        min_transmittance: of the light before a sample.
        min_alpha: of that light.

    Returns:
        Which positions of each ray are visible, bool [R, K], the sample at position k being ranges[r, 0] + k; and how
        near any transmittance or alpha of a ray comes to the least, as a ratio less 1, [R].
    """
    first, count = ranges.long().unbind(-1)
    most = int(count.max().item()) if len(count) else 0
    position = torch.arange(most, device=density.device)
    inside = position < count[:, None]
    index = torch.where(inside, first[:, None] + position, 0)
    depths = torch.where(inside, scale * density.clamp(-15, 15).exp()[index] * dt[index], 0)
    reached = (depths - depths.cumsum(-1)).exp()
    alpha = -torch.expm1(-depths)
    visible = inside & (reached >= min_transmittance) & (alpha >= min_alpha)
    near = (reached / min_transmittance - 1).abs()
    if min_alpha > 0:
        near = torch.minimum(near, (alpha / min_alpha - 1).abs())
    near = torch.where(inside, near, torch.inf)
    return visible, near.amin(-1) if most else near.new_full((len(count),), torch.inf)
