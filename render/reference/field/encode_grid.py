"""The grid encoding of positions in plain torch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

PRIMES = (
    1,
    2654435761,
    805459861,
    3674653429,
)  # Müller et al. 2022, equation 4, and one more for a fourth axis
# By dimensions, of blocks of 8 points: logarithms of their sides.
BLOCKS = {1: (3,), 2: (2, 1), 3: (1, 1, 1), 4: (1, 1, 1, 0)}
BLOCK = 3
Hashed = bool | Literal["blocks"]


def encode_grid_reference(
    x: Tensor, table: Tensor, offsets: Sequence[int], scales: Sequence[float], hashed: Hashed = True
) -> Tensor:
    """Features of positions by interpolation in grids of several resolutions (Müller et al. 2022, section 3).

    Level l has ceil(scale) + 1 points along an axis; a position times the scale plus 0.5 is split into a corner and a
    fraction, and the features of the 2^D corners around are weighted D-linearly. Differentiable any number of times.

    Args:
        x: positions, held to [0, 1], [N, D]. A row with a NaN gives features 0.
        table: [E, F].
        offsets: of each level's first entry, and E, [L + 1].
        scales: [L], rounded to float32.
        hashed: whether levels of more points than entries are hashed, otherwise they wrap around; "blocks": hashed,
            and all levels in blocks of 8 points.

    Returns:
        [N, L * F].
    """
    live = ~x.isnan().any(-1, keepdim=True)
    held = torch.where(live, x, 0.0).clamp(0, 1)
    levels = [
        _level(held, table[begin:end], scale, hashed)
        for begin, end, scale in zip(
            offsets[:-1], offsets[1:], torch.tensor(scales, dtype=torch.float32).tolist(), strict=True
        )
    ]
    return torch.where(live, torch.cat(levels, -1), 0.0)


def _level(x: Tensor, entries: Tensor, scale: float, hashed: Hashed) -> Tensor:
    position = x * scale + 0.5
    corner = position.detach().floor()
    fraction = position - corner
    out = torch.zeros_like(x[:, :1]) * entries[:1]
    for ends in itertools.product((0, 1), repeat=x.shape[1]):
        end = torch.tensor(ends, device=x.device)
        weight = torch.where(end == 1, fraction, 1 - fraction).prod(-1, keepdim=True)
        at = corner.long() + end
        out = out + weight * entries[grid_index(at, math.ceil(scale) + 1, len(entries), hashed)]
    return out


def level_points(resolution: int, dimensions: int, hashed: Hashed) -> int:
    """How many entries a level needs so that every point has its own: of "blocks", with those that fill blocks up."""
    if hashed != "blocks":
        return resolution**dimensions
    return math.prod(block_counts(resolution, dimensions)) << BLOCK


def block_counts(resolution: int, dimensions: int) -> list[int]:
    """Blocks along each axis: with one point more than the level has, which positions at the upper end reach."""
    return [(resolution >> side) + 1 for side in BLOCKS[dimensions]]


def grid_index(at: Tensor, resolution: int, size: int, hashed: Hashed) -> Tensor:
    """The entries of grid points within their level.

    Points in order, the first axis fastest, and around the end where there are more points than entries; or, if
    hashed, equation 4. The point beyond the last of an axis is the next one in order. In "blocks", those of 8
    neighbouring points (8 in 1D, 4 x 2, 2 x 2 x 2, 2 x 2 x 2 x 1) take the place of points, and their points follow
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
    place, within = torch.zeros_like(at[:, 0]), torch.zeros_like(at[:, 0])
    for d, side in enumerate(sides):
        block = at[:, d] >> side
        stride = math.prod(counts[:d]) % size
        place = place + block * stride if fits or not hashed else place ^ (block * PRIMES[d])
        within = within + ((at[:, d] & (2**side - 1)) << sum(sides[:d]))
    return ((place << sum(sides)) + within) % size
