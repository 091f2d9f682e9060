"""The limit on the pixels of an image that this process opens."""

from __future__ import annotations

import math
from pathlib import Path

from luxel.scenes.errors import CaptureError

MAX_MEGAPIXELS = 400.0  # of an image, unless `set_max_megapixels` changes it

_limit = [MAX_MEGAPIXELS]


def set_max_megapixels(megapixels: float | None) -> None:
    """Changes the limit of this process; None leaves it.

    Raises:
        CaptureError: the number is not positive or not finite.
    """
    if megapixels is None:
        return
    if not 0 < megapixels < math.inf:
        raise CaptureError(
            f"--max-megapixels {megapixels} is invalid.",
            f"Give a positive number, such as {MAX_MEGAPIXELS:.0f}.",
        )
    _limit[0] = float(megapixels)


def is_above_limit(pixels: int) -> bool:
    """Whether so many pixels are more than the limit."""
    return pixels > _limit[0] * 1e6


def check_megapixels(path: Path, width: int, height: int, factor: int = 1, reducible: bool = False) -> None:
    """Raises CaptureError for an image with more pixels than the limit.

    Args:
        path: of the file, for the message.
        width, height: of the image, pixels.
        factor: by which it is decoded smaller.
        reducible: whether a smaller --max-size would help.
    """
    megapixels = width * height / factor**2 / 1e6
    if megapixels > _limit[0]:
        smaller = " or give a smaller --max-size," if reducible else ""
        raise CaptureError(
            f"{path}: the image has {width}x{height} pixels, {megapixels:.0f} megapixels; the limit is {_limit[0]:g}.",
            f"Scale it down,{smaller} or raise the limit with --max-megapixels {math.ceil(megapixels)}.",
        )
