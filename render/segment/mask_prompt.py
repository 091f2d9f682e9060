"""A prompt from a mask: its box, trimmed against stray pixels, and its innermost point."""

from __future__ import annotations

import torch
from torch import Tensor

from luxel.render.segment.segmenter import Box, Point

TRIM = 0.01  # fraction of the pixels beyond each side of the box
SIDE = 128  # pixels, to which a mask is sampled before its innermost point is searched


def trimmed_box(mask: Tensor, trim: float = TRIM) -> Box:
    """The box around a mask without the outermost pixels.

    Args:
        mask: bool [H, W] with at least one pixel.
        trim: fraction of the pixels that may lie beyond each side.

    Returns:
        x0, y0, x1, y1 in pixels; the right and the lower edge are those of the last pixel.
    """
    rows, columns = mask.nonzero().sort(dim=0).values.unbind(1)
    last = len(rows) - 1
    low, high = int(trim * last), last - int(trim * last)
    return (float(columns[low]), float(rows[low]), float(columns[high]) + 1, float(rows[high]) + 1)


def innermost_point(mask: Tensor) -> Point:
    """The pixel of a mask farthest from its border, by erosion with crosses and squares in turn.

    Args:
        mask: bool [H, W] with at least one pixel.

    Returns:
        x, y of the pixel's centre, and True.
    """
    rows, columns = mask.nonzero().unbind(1)
    top, left = int(rows.min()), int(columns.min())
    crop = mask[top : int(rows.max()) + 1, left : int(columns.max()) + 1]
    stride = -(-max(crop.shape) // SIDE)
    sampled = crop[::stride, ::stride]
    if not bool(sampled.any()):  # thinner than the stride
        sampled, stride = crop, 1
    inside = torch.nn.functional.pad(sampled, (1, 1, 1, 1)).float()[None, None]
    square = True
    while True:
        smaller = _eroded(inside, square)
        if not bool((smaller > 0).any()):
            break
        inside, square = smaller, not square
    left_over = inside[0, 0].nonzero().float()
    middle = left_over.mean(0)
    y, x = left_over[(left_over - middle).square().sum(1).argmin()].tolist()
    return (left + (x - 1) * stride + 0.5, top + (y - 1) * stride + 0.5, True)


def _eroded(inside: Tensor, square: bool) -> Tensor:
    """A mask [1, 1, H, W] of 0 and 1 without the pixels at its border; by 8 neighbours or by 4."""
    pool = torch.nn.functional.max_pool2d
    if square:
        return -pool(-inside, 3, 1, 1)
    return torch.minimum(-pool(-inside, (3, 1), 1, (1, 0)), -pool(-inside, (1, 3), 1, (0, 1)))
