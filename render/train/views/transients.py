"""What only single photographs show: people who pass, cars, shadows."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as nn
from torch import Tensor

BLOCK = 4  # pixels a side, over which differences are averaged
SAMPLES = 4096  # blocks that the usual difference of a step is taken from
USUAL = 0.8  # quantile of their differences that is the usual one
FACTOR = 4.0  # of the usual difference, above which a block is taken for transient
FLOOR = 0.1  # difference in [0, 1] below which none is
CONTRAST = 0.5  # of the photograph's own standard deviation around a block, by which it may differ more
START, FULL = 0.1, 0.3  # shares of the run at which the first blocks are left out, and by the factor above


def threshold(progress: float) -> float:
    """Multiple of the usual error above which a block is left out; infinity at the start, when nothing is known yet.

    Args:
        progress: share of the run that is done, in [0, 1].
    """
    if progress < START:
        return math.inf
    return FACTOR * (1 + 2 * max(0.0, (FULL - progress) / (FULL - START)))


@torch.no_grad()
def static_weight(image: Tensor, photograph: Tensor, weight: Tensor | None, factor: Tensor) -> Tensor:
    """Weights of pixels, 0 where a photograph differs from the render far more than it usually does.

    Compared are mean colours around blocks: detail that is not learnt yet differs in its pixels and hardly in their
    mean, and what stands before the scene has another colour. Where the photograph has strong contrast, small errors of
    pose move much colour, so more is allowed. What is left out grows by a block (errors of neighbours as in Sabour et
    al. 2023, RobustNeRF, sec. 4). Nothing here waits for the device.

    Args:
        image: rendered, [B, H, W, 3]. photograph: [B, H, W, 3].
        weight: of the pixels, [B, H, W]; None: 1.
        factor: see `threshold`, [1].

    Returns:
        [B, H, W].
    """
    difference = (image - photograph).movedim(-1, 1)
    if weight is None:
        away = _around(_blocks(difference))
    else:
        counted = _around(_blocks(weight[:, None]))
        away = _around(_blocks(difference * weight[:, None])) / counted.clamp_min(1e-6)
    away = away.abs().mean(1, keepdim=True)
    shades = photograph.mean(-1)[:, None]
    mean, square = (_around(_blocks(values)) for values in (shades, shades.square()))
    some = away.flatten()[:: max(1, away.numel() // SAMPLES)]
    usual = some.sort().values[int(USUAL * (some.numel() - 1))]
    allowed = (factor * usual).clamp_min(FLOOR) + CONTRAST * (square - mean.square()).clamp_min(0).sqrt()
    far = (away > allowed).to(away.dtype)
    transient = nn.max_pool2d(far, 3, 1, 1)
    height, width = image.shape[1:3]
    grown = transient[:, 0].repeat_interleave(BLOCK, 1).repeat_interleave(BLOCK, 2)[:, :height, :width]
    return 1 - grown if weight is None else weight * (1 - grown)


def _blocks(values: Tensor) -> Tensor:
    """Means of blocks of [B, C, H, W]."""
    return nn.avg_pool2d(values, BLOCK, ceil_mode=True, count_include_pad=False)


def _around(blocks: Tensor) -> Tensor:
    """Means of each block and its neighbours."""
    return nn.avg_pool2d(blocks, 3, 1, 1, count_include_pad=False)
