"""Grids that tiny-cuda-nn and luxel evaluate alike."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch

from luxel.render.fields.encodings.grid import Grid

ROUNDING = 4e-6  # share of a level's points by which rounding may change its scale


@dataclass(frozen=True)
class PeerGrid(Grid):
    """A grid with the scales of tiny-cuda-nn, 2^(l log2 growth) base - 1 in float32; see `matching_grid`."""

    @cached_property
    def scales(self) -> tuple[float, ...]:
        """Cells along an axis, [L]."""
        step = _single(math.log2(self.growth))
        grown = [_single(self.base * _single(2 ** _single(level * step))) for level in range(self.levels)]
        return tuple(_single(points - 1) for points in grown)

    @property
    def stable(self) -> bool:
        """Whether rounding cannot change the number of points of any level that is small enough not to be hashed."""
        if self.growth == 1:
            return True
        for level in range(1, self.levels):
            scale = self.base * self.growth**level - 1
            in_order = self.log2_entries is None or round(scale) ** self.dimensions <= 2**self.log2_entries
            if in_order and abs(scale - round(scale)) <= ROUNDING * (scale + 1):
                return False
        return True


def matching_grid(grid: Grid) -> PeerGrid:
    """The grid nearest to one of luxel's that both evaluate alike: hashed, with sizes that rounding cannot change.

    A finest level of 512 points, say, has a scale of 511, which rounding could raise to 513 points; with a growth that
    is lower by a millionth or so it has 512 for both.
    """
    growth = _single(grid.growth)
    sizes = grid.dimensions, grid.levels, grid.features, grid.base
    while True:
        candidate = PeerGrid(*sizes, growth, grid.log2_entries, hashed=True)
        lower = _single(growth * (1 - 2**-20))
        if candidate.stable or lower < 1 or grid.growth - lower > 1e-3:
            return candidate
        growth = lower


def _single(number: float) -> float:
    """Rounded to float32, as tiny-cuda-nn stores it."""
    return torch.tensor(number, dtype=torch.float32).item()
