"""L1 + SSIM in plain torch."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as nn
from torch import Tensor

Padding = Literal["zero", "valid"]

RADIUS, SIGMA = 5, 1.5
C1, C2 = 0.01**2, 0.03**2


def ssim_map(a: Tensor, b: Tensor) -> Tensor:
    """Structural similarity per pixel and channel (Wang et al. 2004, eq. 13), zero padded.

    The window is a Gaussian of 11 x 11 taps with sigma 1.5; C1 = 0.01^2, C2 = 0.03^2 for values in [0, 1].

    Args:
        a, b: images, [C, H, W, 3].

    Returns:
        [C, H, W, 3]. The 5 pixels at each border have zeros in their window.
    """
    distance = torch.arange(-RADIUS, RADIUS + 1, dtype=a.dtype, device=a.device)
    taps = (-(distance**2) / (2 * SIGMA**2)).exp()
    taps = taps / taps.sum()
    stack = torch.cat([a, b, a * a + b * b, a * b], dim=-1).movedim(-1, 1)  # [C, 12, H, W]
    images, channels = stack.shape[:2]
    flat = stack.reshape(images * channels, 1, *stack.shape[2:])
    flat = nn.conv2d(flat, taps[None, None, :, None], padding=(RADIUS, 0))
    flat = nn.conv2d(flat, taps[None, None, None, :], padding=(0, RADIUS))
    mean_a, mean_b, square, product = flat.reshape(stack.shape).movedim(1, -1).split(3, dim=-1)
    mean_product, mean_square = mean_a * mean_b, mean_a * mean_a + mean_b * mean_b
    luminance = (2 * mean_product + C1) / (mean_square + C1)
    return luminance * (2 * (product - mean_product) + C2) / (square - mean_square + C2)


def photometric_loss(
    rgb: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ssim_weight: float = 0.2,
    padding: Padding = "zero",
) -> Tensor:
    """(1 - ssim_weight) L1 + ssim_weight (1 - SSIM), as `luxel.render.ops.train.loss.photometric_loss` states it.

    Args:
        rgb, target: [H, W, 3] or [C, H, W, 3].
        weight: [H, W] or [C, H, W], or None.
        ssim_weight: share of the SSIM term.
        padding: "zero" or "valid".

    Returns:
        Scalar.
    """
    if rgb.dim() == 3:
        rgb, target = rgb[None], target[None]
        weight = None if weight is None else weight[None]
    each = torch.ones_like(rgb[..., :1]) if weight is None else weight.clamp_min(0).nan_to_num(0)[..., None]
    rgb = torch.where(each > 0, rgb, target)
    inner = each.clone()
    if padding == "valid":
        inner[:, :RADIUS], inner[:, -RADIUS:], inner[:, :, :RADIUS], inner[:, :, -RADIUS:] = 0, 0, 0, 0
    tiny = torch.finfo(rgb.dtype).tiny
    l1 = (each * (rgb - target).abs()).sum() / (3 * each.sum()).clamp_min(tiny)
    similarity = (inner * ssim_map(rgb, target)).sum() / (3 * inner.sum()).clamp_min(tiny)
    return (1 - ssim_weight) * l1 + ssim_weight * ((inner.sum() > 0).to(rgb.dtype) - similarity)
