"""What training minimises, and the number that people watch."""

from __future__ import annotations

from torch import Tensor

from luxel.render.ops.loss import photometric_loss
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.rasterize import Frame
from luxel.render.train.config import Loss
from luxel.render.train.dataset import Target


def objective(
    frame: Frame, target: Target, settings: Loss, gaussians: Gaussians, penalties: tuple[float, float]
) -> Tensor:
    """(1 - w) L1 + w (1 - SSIM), plus weighted |alpha - mask|, plus the strategy's penalties; a scalar.

    Pixels of weight 0 have no part in any of it. Penalties: weights of the mean opacity and of the mean scale.
    """
    loss = photometric_loss(frame.rgb, target.rgb, target.weight, settings.ssim_weight)
    loss = loss + alpha_term(frame.alpha, target, settings)
    opacity, scale = penalties
    if opacity > 0:
        loss = loss + opacity * gaussians.opacities.mean()
    return loss + scale * gaussians.scales.mean() if scale > 0 else loss


def alpha_term(alpha: Tensor, target: Target, settings: Loss) -> Tensor | float:
    """The alpha term of `objective` alone, a scalar."""
    if target.alpha is None or not settings.alpha_weight > 0:
        return 0.0
    off = (alpha - target.alpha).abs()
    return settings.alpha_weight * (off if target.weight is None else off * target.weight).mean()


def squared_error(rgb: Tensor, target: Target) -> Tensor:
    """Mean squared error of a render held to [0, 1], over the pixels that count; a scalar."""
    squares = (rgb.clamp(0, 1) - target.rgb).square().mean(-1)
    if target.weight is None:
        return squares.mean()
    return (squares * target.weight).sum() / target.weight.sum().clamp_min(1)
