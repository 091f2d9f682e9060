"""Estimates what the training images show: how much detail, and how much of them the scene covers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from luxel.render.geometry.camera import Pixels, View, pixel_count

SAMPLED_VIEWS = 24
CONTRAST = 12.0  # of 255, between neighbours in an image of half the size, where noise is half as strong
READERS = 8  # at most; each holds an image in floats


@dataclass(frozen=True)
class ImageContent:
    """What the training images show, estimated from at most 24 of them.

    Args:
        detail: number of pixels of all images that show detail, see `detail_share`.
        coverage: share of the pixels that show the scene: the mean of alpha, without pixels that do not count.
    """

    detail: int = 0
    coverage: float = 1.0


def image_content(views: Sequence[View]) -> ImageContent:
    """Measures the images of some views, evenly spread.

    Args:
        views: with images of any size.
    """
    if not views:
        return ImageContent()
    chosen = np.unique(np.linspace(0, len(views) - 1, SAMPLED_VIEWS).round().astype(int))

    def shares(index: int) -> tuple[float, float]:
        pixels = views[index].read()
        return detail_share(pixels), covered_share(pixels)

    with ThreadPoolExecutor(min(READERS, os.cpu_count() or 1)) as pool:
        detail, coverage = np.mean(list(pool.map(shares, chosen)), axis=0)
    return ImageContent(round(float(detail) * pixel_count(views)), float(coverage))


def covered_share(pixels: Pixels) -> float:
    """Mean of alpha over an image, 1 without alpha; pixels of weight 0 count as uncovered."""
    if pixels.alpha is None and pixels.weight is None:
        return 1.0
    alpha = 1.0 if pixels.alpha is None else pixels.alpha.astype(np.float32) / 255
    return float(np.mean(alpha if pixels.weight is None else alpha * (pixels.weight > 0)))


def detail_share(pixels: Pixels) -> float:
    """Share of the pixels of an image that show detail.

    A pixel counts where the root mean square over colours of the differences to its right and lower neighbours, in an
    image that is averaged down to half its size, is above 12/255. Flat areas, soft shadows and the noise of a sensor do
    not count; images with alpha are composited onto white.
    """
    height, width = (side // 2 * 2 for side in pixels.rgb.shape[:2])
    if min(height, width) < 4:
        return 1.0
    alpha = None if pixels.alpha is None else pixels.alpha[:height, :width]
    white = 0 if alpha is None else 255 - _halved(alpha)
    squares = np.zeros((height // 2 - 1, width // 2 - 1), np.float32)
    for colour in range(3):  # each by itself: numpy works along the last axis, which would have three values
        plane = pixels.rgb[:height, :width, colour]
        if alpha is None:
            half = _halved(plane)
        else:
            half = _halved(np.multiply(plane, alpha, dtype=np.uint16)) / np.float32(255) + white
        squares += (half[:-1, 1:] - half[:-1, :-1]) ** 2
        squares += (half[1:, :-1] - half[:-1, :-1]) ** 2
    high = squares > 3 * CONTRAST**2
    if pixels.weight is not None:
        high &= pixels.weight[:height:2, :width:2][:-1, :-1] > 0
    return float(high.mean())


def _halved(plane: np.ndarray) -> np.ndarray:
    """Means of squares of 2x2 values, float32 [H / 2, W / 2], of bytes or their products, uint16 [H, W]."""
    rows = np.add(plane[0::2], plane[1::2], dtype=np.uint32)
    return (rows[:, 0::2] + rows[:, 1::2]).astype(np.float32) / 4
