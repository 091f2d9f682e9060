"""The area in which images of a still camera differ: where the object on a turntable is at some time."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np

from luxel.scenes.captures.contents import SourceImage
from luxel.scenes.captures.images.images import decode, for_each

SIDE = 192  # pixels of the square to which images are shrunk
MAX_IMAGES = 96  # evenly chosen, that are compared
BORDER = 0.06  # of the side: width of the border by which a still camera is known
QUIET = 10.0  # levels of 255: differences below are noise
MOVED = 20.0  # levels from which something moved
STILL_SHARE = 0.6  # of the border that must be quiet
OFTEN = 95  # percentile over the images at which differences are taken
LEAST, MOST = 0.01, 0.85  # fractions of the image that the area may cover
GAP = 5  # pixels of SIDE: gaps between moved places that are closed


def moving_area(sources: Sequence[SourceImage]) -> np.ndarray | None:
    """Where the images differ from their median, bool [SIDE, SIDE].

    Args:
        sources: images of the same size.

    Returns:
        None: the camera moved, the sizes differ, or nothing moves.
    """
    if len({(source.lens.width, source.lens.height) for source in sources}) != 1 or len(sources) < 3:
        return None
    chosen = np.unique(np.linspace(0, len(sources) - 1, MAX_IMAGES).astype(int))
    images = np.zeros((len(chosen), SIDE, SIDE, 3), np.float32)

    def read(row: int) -> None:
        pixels = decode(sources[chosen[row]].path, oriented=True, least=2 * SIDE)[..., :3]
        images[row] = cv2.resize(np.ascontiguousarray(pixels), (SIDE, SIDE), interpolation=cv2.INTER_AREA)

    for_each(read, len(chosen))
    return area_of(images)


def area_of(images: np.ndarray) -> np.ndarray | None:
    """`moving_area` of images.

    Args:
        images: float32 [V, S, S, 3] in levels of 255; their exposure may differ.
    """
    side = images.shape[1]
    width = max(1, round(BORDER * side))
    border = np.ones((side, side), bool)
    border[width:-width, width:-width] = False
    typical = np.median(images, axis=0)
    change = np.zeros(images.shape[:3], np.float32)
    for row, image in enumerate(images):
        gain = np.median((typical[border] + 1) / (image[border] + 1))  # of the exposure
        change[row] = cv2.blur(np.abs(gain * image - typical).max(-1), (3, 3))
    often = np.percentile(change, OFTEN, axis=0)
    if (often[border] < QUIET).mean() < STILL_SHARE:
        return None
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (GAP, GAP))
    moved = cv2.morphologyEx((often >= MOVED).astype(np.uint8), cv2.MORPH_OPEN, np.ones((2, 2), np.uint8))
    moved = cv2.morphologyEx(moved, cv2.MORPH_CLOSE, kernel)
    outlines, _ = cv2.findContours(moved, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    if not outlines:
        return None
    area = np.zeros((side, side), np.uint8)
    cv2.drawContours(area, [max(outlines, key=cv2.contourArea)], -1, 1, cv2.FILLED)
    return area > 0 if LEAST <= area.mean() <= MOST else None
