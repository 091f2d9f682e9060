"""What only single photographs show: people who pass, cars, shadows."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as nn
from torch import Tensor

BLOCK = 4  # pixels a side, of which one error is taken
SAMPLES = 4096  # blocks that the usual error of a step is taken from
USUAL = 0.8  # quantile of their errors that is the usual one
FACTOR = 2.0  # of the usual error, above which a block is taken for transient
FLOOR = 0.05  # error in [0, 1] below which none is
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

    Errors are compared in blocks, and a block is left out only with most of its neighbours, so that fine detail which
    is not learnt yet stays; then with all of its neighbours, as the borders of an object differ less (after Sabour et
    al. 2023, RobustNeRF, sec. 4). Nothing here waits for the device.

    Args:
        image: rendered, [B, H, W, 3]. photograph: [B, H, W, 3].
        weight: of the pixels, [B, H, W]; None: 1.
        factor: see `threshold`, [1].

    Returns:
        [B, H, W].
    """
    error = (image - photograph).abs().mean(-1)[:, None]
    if weight is not None:
        error = error * weight[:, None]
    blocks = nn.avg_pool2d(error, BLOCK, ceil_mode=True, count_include_pad=False)
    some = blocks.flatten()[:: max(1, blocks.numel() // SAMPLES)]
    usual = some.sort().values[int(USUAL * (some.numel() - 1))]
    far = (blocks > (factor * usual).clamp_min(FLOOR)).to(error.dtype)
    most = (nn.avg_pool2d(far, 3, 1, 1, count_include_pad=False) > 0.5).to(error.dtype)
    transient = nn.max_pool2d(most, 3, 1, 1)
    height, width = image.shape[1:3]
    grown = transient[:, 0].repeat_interleave(BLOCK, 1).repeat_interleave(BLOCK, 2)[:, :height, :width]
    return 1 - grown if weight is None else weight * (1 - grown)
