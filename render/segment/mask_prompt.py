"""A prompt from a mask: its box, trimmed against stray pixels, its innermost point, or several points."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from luxel.render.segment.segmenter import Box, Point

TRIM = 0.01  # fraction of the pixels beyond each side of the box
APART = 0.35  # of the root of the area of a mask, between points in it
SIDE = 128  # pixels, to which a mask is sampled before its innermost point is searched


def trimmed_box(mask: Tensor, trim: float = TRIM) -> Box:
    """The box around a mask without the outermost pixels.

    Args:
        mask: bool [H, W] with at least one pixel.
        trim: fraction of the pixels that may lie beyond each side.

    Returns:
        x0, y0, x1, y1 in pixels; the right and the lower edge are those of the last pixel.
    """
    rows, columns = _profiles(mask)
    last = int(rows.sum()) - 1
    trimmed = torch.tensor([int(trim * last), last - int(trim * last)])
    top, bottom = torch.searchsorted(rows.cumsum(0), trimmed, right=True).tolist()
    left, right = torch.searchsorted(columns.cumsum(0), trimmed, right=True).tolist()
    return (float(left), float(top), right + 1.0, bottom + 1.0)


def innermost_point(mask: Tensor) -> Point:
    """The pixel of a mask farthest from its border, by erosion with crosses and squares in turn.

    Args:
        mask: bool [H, W] with at least one pixel.

    Returns:
        x, y of the pixel's centre, and True.
    """
    rows, columns = (profile.nonzero()[:, 0] for profile in _profiles(mask))
    top, left = int(rows[0]), int(columns[0])
    crop = mask[top : int(rows[-1]) + 1, left : int(columns[-1]) + 1]
    stride = -(-max(crop.shape) // SIDE)
    sampled = crop[::stride, ::stride].cpu()
    if not bool(sampled.any()):  # thinner than the stride
        sampled, stride = crop.cpu(), 1
    inside = np.pad(sampled.numpy(), 1)
    square = True
    while (smaller := _eroded(inside, square)).any():
        inside, square = smaller, not square
    left_over = np.argwhere(inside).astype(np.float32)
    middle = left_over.mean(0)
    y, x = left_over[np.square(left_over - middle).sum(1).argmin()].tolist()
    return (left + (x - 1) * stride + 0.5, top + (y - 1) * stride + 0.5, True)


def spread_points(mask: Tensor, count: int) -> list[Point]:
    """Points inside a mask, apart from each other: the innermost one of what is left around those before.

    Args:
        mask: bool [H, W].
        count: of points, at most; fewer where the mask has no pixels left.

    Returns:
        As `innermost_point`.
    """
    left, radius = mask.clone(), APART * float(mask.sum()) ** 0.5
    rows = torch.arange(mask.shape[0], device=mask.device)[:, None] + 0.5
    columns = torch.arange(mask.shape[1], device=mask.device)[None] + 0.5
    points: list[Point] = []
    while len(points) < count and bool(left.any()):
        points.append(innermost_point(left))
        x, y, _ = points[-1]
        left &= (rows - y).square() + (columns - x).square() > radius**2
    return points


def _profiles(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Pixels of a mask [H, W] in each row, and in each column, on the CPU."""
    return tuple(torch.cat([mask.sum(1), mask.sum(0)]).cpu().split(list(mask.shape)))  # type: ignore[return-value]


def _eroded(inside: np.ndarray, square: bool) -> np.ndarray:
    """A mask [H, W], without pixels at the edge, less the pixels at its border; by 8 neighbours or by 4."""
    smaller = np.zeros_like(inside)
    across = inside[:, :-2] & inside[:, 1:-1] & inside[:, 2:]
    if square:
        smaller[1:-1, 1:-1] = across[:-2] & across[1:-1] & across[2:]
    else:
        smaller[1:-1, 1:-1] = across[1:-1] & inside[:-2, 1:-1] & inside[2:, 1:-1]
    return smaller
