"""The layout of a grid encoding's table: how many entries a level needs, and which entry a grid point has."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

PRIMES = (
    1,
    2654435761,
    805459861,
    3674653429,
)  # Müller et al. 2022, equation 4, and one more for a fourth axis
BLOCKS = {1: (3,), 2: (2, 1), 3: (1, 1, 1), 4: (1, 1, 1, 0)}  # log2 of a block's sides, by dimensions
BLOCK = 3  # log2 of the points of a block
Hashed = bool | Literal["blocks"]


def level_points(resolution: int, dimensions: int, hashed: Hashed) -> int:
    """Entries that give every point of a level its own; of "blocks", including those that fill blocks up."""
    if hashed != "blocks":
        return resolution**dimensions
    return math.prod(block_counts(resolution, dimensions)) << BLOCK


def block_counts(resolution: int, dimensions: int) -> list[int]:
    """Blocks along each axis; the level has one point more there, which positions at the upper end reach."""
    return [(resolution >> side) + 1 for side in BLOCKS[dimensions]]


def grid_index(at: Tensor, resolution: int, size: int, hashed: Hashed) -> Tensor:
    """The entries of grid points within their level.

    Points in order, the first axis fastest, and around the end where there are more points than entries; or, if
    hashed, equation 4. The point beyond the last of an axis is the next one in order. In "blocks", those of 8
    neighbouring points (8 in 1D, 4 x 2, 2 x 2 x 2, 2 x 2 x 2 x 1) replace points, and their points follow
    each other.

    Args:
        at: points, integers [N, D].
        resolution: points along an axis.
        size: entries of the level; a power of two where there are more points.
        hashed: False, True or "blocks".
    """
    dimensions = at.shape[1]
    sides = BLOCKS[dimensions] if hashed == "blocks" else (0,) * dimensions
    fits = level_points(resolution, dimensions, hashed) <= size
    counts = block_counts(resolution, dimensions) if hashed == "blocks" else [resolution] * dimensions
    position, within = torch.zeros_like(at[:, 0]), torch.zeros_like(at[:, 0])
    for d, side in enumerate(sides):
        block = at[:, d] >> side
        stride = math.prod(counts[:d]) % size
        position = position + block * stride if fits or not hashed else position ^ (block * PRIMES[d])
        within = within + ((at[:, d] & (2**side - 1)) << sum(sides[:d]))
    return ((position << sum(sides)) + within) % size
