"""What training minimises, and the number that people watch."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from luxel.render.ops.loss import photometric_loss
from luxel.render.rasterize import Frame
from luxel.render.train.config import Loss
from luxel.render.train.dataset import Target


def objective(frame: Frame, target: Target, settings: Loss, penalty: Tensor | None) -> Tensor:
    """(1 - w) L1 + w (1 - SSIM), plus weighted |alpha - mask|, plus the strategy's penalty; a scalar.

    Pixels of weight 0 have no part in any of it.
    """
    loss = photometric_loss(frame.rgb, target.rgb, target.weight, settings.ssim_weight)
    if settings.alpha_weight > 0 and target.alpha is not None:
        off = (frame.alpha - target.alpha).abs()
        loss = loss + settings.alpha_weight * (off if target.weight is None else off * target.weight).mean()
    return loss if penalty is None else loss + penalty


def read_back(loss: Tensor, rgb: Tensor, target: Target) -> tuple[float, float]:
    """Waits for the device; loss and PSNR (dB, at most 100) of one step, NaN where they are not finite."""
    squares = (rgb.clamp(0, 1) - target.rgb).square().mean(-1)
    if target.weight is None:
        error = squares.mean()
    else:
        error = (squares * target.weight).sum() / target.weight.sum().clamp_min(1)
    value, mse = torch.stack([loss, error]).tolist()
    return value, -10 * math.log10(max(mse, 1e-10)) if math.isfinite(mse) else math.nan
