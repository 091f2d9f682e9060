"""Rendered against known depth, in plain torch."""

from __future__ import annotations

import torch
from torch import Tensor

LEAST_COVER = 1e-3


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
        if not counts.any():
            continue
        w = torch.where(counts, w, 0.0)
        inverse = 1 / torch.where(counts, k, 1.0)
        covered = counts & (cover > LEAST_COVER) & (z > 0)
        if fits:
            scale, shift = inverse_depth_fit(z.detach(), cover.detach(), inverse, w * covered)
            if not scale > 0:
                continue
            inverse = scale * inverse + shift
        covered = covered & (inverse > 0)
        ratio = torch.where(covered, inverse * z, 1.0)
        nearer, farther = cover - ratio, cover - cover.square() / ratio
        difference = torch.where(ratio <= cover, nearer, farther)
        share = w.sum().clamp_min(0.01 * w.numel())
        total = total + (w * torch.where(covered, difference, 0.0)).sum() / share
    return strength[0] * total / len(known)


def inverse_depth_fit(
    accumulated: Tensor, cover: Tensor, inverse: Tensor, weight: Tensor
) -> tuple[float, float]:
    """Scale and shift with which ``inverse`` is nearest to the inverse rendered depth; 0 and 0 without pixels.

    Least squares with weights ``weight`` cover^2; where ``inverse`` is the same everywhere, the shift is 0.
    """
    covered = weight > 0
    x, y = inverse[covered].double(), (cover[covered] / accumulated[covered]).double()
    w = (weight[covered] * cover[covered].square()).double()
    if not len(x):
        return 0.0, 0.0
    w = w / w.sum()
    x_mean, y_mean = (w * x).sum(), (w * y).sum()
    xx, xy = (w * (x - x_mean).square()).sum(), (w * (x - x_mean) * (y - y_mean)).sum()
    if xx <= 1e-6 * x_mean.square():
        return float(y_mean / x_mean), 0.0
    scale = xy / xx
    return float(scale), float(y_mean - scale * x_mean)
