"""Estimates how much detail the training images show, from which the split strategy derives its cap."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from luxel.render.camera import Pixels, View, pixel_count

SAMPLED_VIEWS = 24
CONTRAST = 12.0  # of 255, between neighbours in an image of half the size, where noise is half as strong
READERS = 4


def detail_pixels(views: Sequence[View]) -> int:
    """Number of pixels of all views that differ from a neighbour, estimated from at most 24 of the views.

    A pixel counts where the root mean square over colours of the differences to its right and lower neighbours, in an
    image that is averaged down to half its size, is above 12/255. Flat areas, soft shadows and the noise of a sensor do
    not count; images with alpha are composited onto white.

    Args:
        views: with images of any size.
    """
    if not views:
        return 0
    chosen = np.unique(np.linspace(0, len(views) - 1, SAMPLED_VIEWS).round().astype(int))
    with ThreadPoolExecutor(READERS) as pool:
        shares = list(pool.map(lambda i: detail_share(views[i].read()), chosen))
    return round(float(np.mean(shares)) * pixel_count(views))


def detail_share(pixels: Pixels) -> float:
    """Share of the pixels of an image that show detail, see `detail_pixels`."""
    rgb = pixels.rgb.astype(np.float32)
    if pixels.alpha is not None:
        alpha = pixels.alpha[..., None].astype(np.float32) / 255
        rgb = rgb * alpha + 255 * (1 - alpha)
    height, width = (side // 2 * 2 for side in rgb.shape[:2])
    if min(height, width) < 4:
        return 1.0
    half = rgb[:height, :width].reshape(height // 2, 2, width // 2, 2, 3).mean((1, 3))
    across, down = half[:-1, 1:] - half[:-1, :-1], half[1:, :-1] - half[:-1, :-1]
    high = (across**2 + down**2).mean(-1) > CONTRAST**2
    if pixels.weight is not None:
        high &= pixels.weight[:height:2, :width:2][:-1, :-1] > 0
    return float(high.mean())
