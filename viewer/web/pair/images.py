"""Images of two frames of one camera: side by side, and their difference."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from luxel.viewer.web.shading.legend import EMBER, SIGNED, Legend, false_colour, spread

FIELDS = ("rgb", "alpha", "depth", "normals", "count", "seen")  # of a frame, one value or row a pixel
DIVIDER = 2  # px, width of the line between two images


def joined(left: Any, right: Any, column: int) -> Any:
    """A frame whose pixels left of a column are those of one frame and the others those of another."""
    values: dict[str, Any] = {}
    for name in FIELDS:
        own, other = getattr(left, name, None), getattr(right, name, None)
        if isinstance(own, Tensor) and isinstance(other, Tensor):
            values[name] = torch.cat([own[:, :column], other[:, column:]], dim=1)
    if hasattr(left, "views"):
        values["views"] = min(left.views, right.views)
        values["expected"] = max(left.expected, right.expected)
    return SimpleNamespace(**values)


def _colour(left: Any, right: Any, scale: float) -> tuple[Tensor, Legend]:
    error = (right.rgb.clamp(0, 1) - left.rgb.clamp(0, 1)).abs().mean(-1)
    return false_colour(error / scale), Legend("0", f"{scale:.3g} absolute difference", EMBER)


def _alpha(left: Any, right: Any, scale: float) -> tuple[Tensor, Legend]:
    return _signed(right.alpha - left.alpha, scale, "alpha")


def _depth(left: Any, right: Any, scale: float) -> tuple[Tensor, Legend]:
    both = (left.alpha > 0.5) & (right.alpha > 0.5)
    apart = torch.where(both, right.depth - left.depth, torch.nan)
    return _signed(apart, None, "capture units farther")


def _normals(left: Any, right: Any, scale: float) -> tuple[Tensor, Legend]:
    units = [torch.nn.functional.normalize(frame.normals, dim=-1, eps=1e-8) for frame in (left, right)]
    angle = torch.rad2deg(torch.acos((units[0] * units[1]).sum(-1).clamp(-1, 1)))
    both = (left.alpha > 0.5) & (right.alpha > 0.5)
    high = 180 * scale
    return false_colour(torch.where(both, angle / high, 0.0)), Legend("0", f"{high:.3g} degrees", EMBER)


def _count(left: Any, right: Any, scale: float) -> tuple[Tensor, Legend]:
    return _signed((right.count - left.count).float(), None, "more primitives")


def _seen(left: Any, right: Any, scale: float) -> tuple[Tensor, Legend]:
    return _signed(right.seen - left.seen, None, "more views")


def _signed(values: Tensor, scale: float | None, unit: str) -> tuple[Tensor, Legend]:
    """Right minus left around zero, to ``scale`` or the 98th percentile of the absolute values; NaN is dark."""
    if scale is None:
        scale = max(spread(values.abs())[1], 1e-6)
    colours = false_colour((0.5 + 0.5 * values / scale).nan_to_num(0.5), SIGNED)
    return colours, Legend(f"-{scale:.3g}", f"+{scale:.3g} {unit}", SIGNED)


# By the output: (left frame, right frame, error scale) -> colours [H, W, 3] and a colour bar.
DIFFERENCES: dict[str, Callable[[Any, Any, float], tuple[Tensor, Legend]]] = {
    "colour": _colour,
    "alpha": _alpha,
    "depth": _depth,
    "normals": _normals,
    "count": _count,
    "overdraw": _count,
    "shaded": _colour,
    "ellipsoids": _colour,
    "points": _colour,
    "seen by": _seen,
}


def divide(image: Tensor, column: int) -> None:
    """Draws a white line into a uint8 image [H, W, 3], in place, unless the column is at its border."""
    if 0 < column < image.shape[1]:
        image[:, max(0, column - DIVIDER // 2) : column + DIVIDER // 2] = 255


@lru_cache(maxsize=64)
def _chip(text: str, size: int) -> np.ndarray:
    """White text on a dark box, uint8 [h, w, 3]."""
    font = ImageFont.load_default(size)
    left, top, right, bottom = font.getbbox(text)
    pad = max(2, size // 3)
    chip = Image.new("RGB", (int(right - left) + 2 * pad, int(bottom - top) + 2 * pad), (20, 20, 24))
    ImageDraw.Draw(chip).text((pad - left, pad - top), text, (240, 240, 240), font)
    return np.array(chip)


def write_name(image: Tensor, text: str, left: int, right: int, *, at_right: bool = False) -> None:
    """Writes a name at the bottom between two columns of a uint8 image [H, W, 3], in place; cut where it is wider.

    Args:
        image: on any device.
        text: short.
        left, right: columns.
        at_right: at the right end instead of the left one.
    """
    height = image.shape[0]
    size = max(9, min(18, height // 30))
    chip = torch.from_numpy(_chip(text, size)).to(image.device)
    margin = size // 2
    low, high = max(0, left + margin), min(image.shape[1], right - margin)
    chip = chip[: max(0, height - 2 * margin), : max(0, high - low)]
    rows, columns = chip.shape[:2]
    if rows and columns:
        start = high - columns if at_right else low
        image[height - margin - rows : height - margin, start : start + columns] = chip
