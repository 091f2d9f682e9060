"""Rendered against known depth, in plain torch."""

from __future__ import annotations

import torch
from torch import Tensor

MIN_COVER = 1e-3


def depth_loss_reference(
    accumulated: Tensor,
    transmittance: Tensor,
    known: Tensor,
    weight: Tensor | None,
    strength: Tensor,
    fits: bool = False,
) -> Tensor:
    """See `luxel.render.ops.train.depth_loss.depth_loss`; arguments [B, H, W], ``strength`` [1]; a scalar."""
    total = accumulated.new_zeros(())
    weights = torch.ones_like(known) if weight is None else weight
    for z, t, k, w in zip(accumulated, transmittance, known, weights, strict=True):
        cover = 1 - t
        counts = (k > 0) & (w > 0)
        covered = counts & (cover > MIN_COVER) & (z > 0)
        if not covered.any():
            continue
        all_weights, least = w[counts].sum(), 0.01 * w.numel()
        cover, z, k, w = cover[covered], z[covered], k[covered], w[covered]
        if fits:
            share = (all_weights / least).clamp_max(1)
            total = total + share * (1 - correlation(1 / k, cover / z, w * cover.detach().square()))
        else:
            difference = torch.where(z / k <= cover, cover - z / k, cover - cover.square() * k / z)
            total = total + (w * difference).sum() / all_weights.clamp_min(least)
    return strength[0] * total / len(known)


def correlation(x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """Pearson's correlation of x and y [P] with weights; 1 where x or y is the same everywhere."""
    w = weight / weight.sum()
    x_mean, y_mean = (w * x).sum(), (w * y).sum()
    xx, yy = (w * (x - x_mean).square()).sum(), (w * (y - y_mean).square()).sum()
    if not (xx > 1e-6 * x_mean.square() and yy > 1e-6 * y_mean.square()):
        return torch.ones_like(xx)
    return (w * (x - x_mean) * (y - y_mean)).sum() / (xx * yy).sqrt()
