"""The grid encoding of positions in plain torch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from luxel.render.ops.field.grid_layout import Hashed, grid_index


def encode_grid_reference(
    x: Tensor, table: Tensor, offsets: Sequence[int], scales: Sequence[float], hashed: Hashed = True
) -> Tensor:
    """Features of positions by interpolation in grids of several resolutions (Müller et al. 2022, section 3).

    Level l has ceil(scale) + 1 points along an axis; a position times the scale plus 0.5 is split into a corner and a
    fraction, and the features of the 2^D corners around are weighted D-linearly. Differentiable any number of times.

    Args:
        x: positions, clamped to [0, 1], [N, D]. A row with a NaN gives features 0.
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
