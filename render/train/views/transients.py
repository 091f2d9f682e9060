"""What only single images show: people who pass, cars, shadows."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as nn
from torch import Tensor

BLOCK = 4  # pixels a side, over which differences are averaged
SAMPLES = 4096  # blocks that the usual difference of a step is taken from
USUAL = 0.5  # quantile of their differences that is the usual one
FACTOR = 10.0  # of the usual difference, above which a block is taken for transient
FLOOR = 0.1  # difference in [0, 1] below which none is
CONTRAST = 0.5  # of the image's own standard deviation around a block, by which it may differ more
NEIGHBOUR_SHARE = 0.25  # of what is allowed, above which a pixel in or next to a transient block is transient
CLOSED = 5  # pixels a side of the square that closes holes in what is transient, odd
DOUBT = 0.1  # weight of transient pixels: details that were mistaken for an object are learnt nevertheless
START, FULL = 0.05, 0.15  # shares of the run at which the first blocks are found, and by the factor above


def threshold(progress: float) -> float:
    """Multiple of the usual error above which a block is transient; infinity at the start, when nothing is known yet.

    Args:
        progress: share of the run that is done, in [0, 1].
    """
    if progress < START:
        return math.inf
    return FACTOR * (1 + 2 * max(0.0, (FULL - progress) / (FULL - START)))


@torch.no_grad()
def without_transients(
    image: Tensor, truth: Tensor, weight: Tensor | None, factor: Tensor
) -> tuple[Tensor, Tensor]:
    """An image that hardly shows what it alone shows, and the weights of its pixels.

    Transient pixels are the render with a tenth of the difference to the image: windows of SSIM that reach into an
    object compare the scene behind it, not the object's contrast, and the L1 loss still points to the image.

    Args:
        image, truth, weight, factor: see `static_share`.

    Returns:
        [B, H, W, 3] and [B, H, W].
    """
    share = static_share(image, truth, weight, factor)
    shown = torch.where(share[..., None] < 1, torch.lerp(image, truth, DOUBT), truth)
    return shown, share if weight is None else weight * share


@torch.no_grad()
def static_share(image: Tensor, truth: Tensor, weight: Tensor | None, factor: Tensor) -> Tensor:
    """Shares of the weight that pixels retain: a tenth where an image differs from the render far more than usual.

    Blocks decide where something is transient, their pixels how far it reaches. Compared are mean colours around
    blocks: detail that is not learnt yet differs in its pixels and hardly in their mean, and what stands before the
    scene has another colour. Where the image has strong contrast, small errors of pose move much colour, so more
    is allowed. Of such blocks and those alongside them (as in Sabour et al. 2023, RobustNeRF, sec. 4) the pixels that
    differ themselves are transient, and the holes between them. The usual difference is a median: an object may cover a
    good part of an image. Transient pixels retain a tenth of their weight: without any, details that are learnt late
    would never be, and what does pass is observed by one view, which the others outweigh. Nothing here waits for the
    device.

    Args:
        image: rendered, [B, H, W, 3]. truth: [B, H, W, 3].
        weight: of the pixels, [B, H, W]; None: 1.
        factor: see `threshold`, [1].

    Returns:
        [B, H, W].
    """
    difference = (image - truth).movedim(-1, 1)
    if weight is None:
        away = _around(_blocks(difference))
    else:
        counted, weighted = _blocks(weight[:, None]), difference * weight[:, None]
        away = _around(_blocks(weighted)) / _around(counted).clamp_min(1e-6)
    away = away.abs().mean(1, keepdim=True)
    some = away.flatten()[:: max(1, away.numel() // SAMPLES)]
    usual = some.sort().values[int(USUAL * (some.numel() - 1))]
    allowed = (factor * usual).clamp_min(FLOOR) + CONTRAST * _contrast(truth)
    far = nn.max_pool2d((away > allowed).to(away.dtype), 3, 1, 1)
    limit = torch.where(far > 0, NEIGHBOUR_SHARE * allowed, math.inf)  # of the pixels of a block
    own = difference.abs().mean(1) if weight is None else difference.abs().mean(1) * (weight > 0)
    transient = (own > _pixels(limit, own)).to(own.dtype)
    transient = -_largest(-_largest(transient))
    return 1 - (1 - DOUBT) * transient


def _pixels(blocks: Tensor, like: Tensor) -> Tensor:
    """Values of blocks [B, 1, h, w] for each of their pixels, [B, H, W]."""
    height, width = like.shape[1:]
    return blocks[:, 0].repeat_interleave(BLOCK, 1).repeat_interleave(BLOCK, 2)[:, :height, :width]


def _largest(values: Tensor) -> Tensor:
    """The largest of [B, H, W] in a square around each pixel."""
    return nn.max_pool2d(values[:, None], CLOSED, 1, CLOSED // 2)[:, 0]


def _contrast(image: Tensor) -> Tensor:
    """Standard deviation of the brightness around each block."""
    shades = image.mean(-1)[:, None]
    mean, square = (_around(_blocks(values)) for values in (shades, shades.square()))
    return (square - mean.square()).clamp_min(0).sqrt()


def _blocks(values: Tensor) -> Tensor:
    """Means of blocks of [B, C, H, W]."""
    return nn.avg_pool2d(values, BLOCK, ceil_mode=True, count_include_pad=False)


def _around(blocks: Tensor) -> Tensor:
    """Means of each block and its neighbours."""
    return nn.avg_pool2d(blocks, 3, 1, 1, count_include_pad=False)
