"""The levels of grid encodings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch

from luxel.render.ops.field.encode_grid import FEATURES, HASHED, MAX_LEVELS
from luxel.render.ops.field.grid_layout import Hashed, level_points

HASH_GROWTH = 1.51572  # from level to level, of radiance fields in the authors' settings
DENSE_GROWTH = 1.405


def growth_to(base: int, finest: float, levels: int) -> float:
    """The growth that takes ``levels`` levels from ``base`` to ``finest`` (Müller et al. 2022, equation 3)."""
    return math.exp(math.log(finest / base) / (levels - 1)) if levels > 1 else 1.0


@dataclass(frozen=True)
class Grid:
    """The levels of a grid encoding (Müller et al. 2022, "Instant Neural Graphics Primitives", section 3).

    Level l has the scale base growth^l - 1, rounded to float32 so that every float type has the same cells, and
    ceil(scale) + 1 points along each axis.

    Attributes:
        dimensions: D, of a position, 1 to 4.
        levels: L, 1 to 32.
        features: F, per level, 1, 2, 4 or 8.
        base: the coarsest level's points along an axis, 2 or more.
        growth: from level to level, 1 or more.
        log2_entries: logarithm to base 2 of the most entries of a level, up to 28; None: no limit. A level of fewer
            points has one entry for each, rounded up to a multiple of 8.
        hashed: True: levels of more points than entries are hashed. "blocks": likewise, and all levels store blocks of
            8 neighbouring points together, for fewer memory accesses. False: indices wrap around modulo the number of
            entries, which aliases the last axes first; an axis whose stride is a multiple of that has no effect.

    Raises:
        ValueError: out of these ranges, or more than 2^28 points in a level of unlimited size.
    """

    dimensions: int
    levels: int
    features: int
    base: int
    growth: float
    log2_entries: int | None
    hashed: Hashed

    def __post_init__(self) -> None:
        ranges: dict[str, tuple[float, float, float]] = {
            "dimensions": (self.dimensions, 1, 4),
            "levels": (self.levels, 1, MAX_LEVELS),
            "base": (self.base, 2, 2**20),
            "growth": (self.growth, 1, 2**20),
            "log2_entries": (3 if self.log2_entries is None else self.log2_entries, 3, 28),
        }
        for name, (value, low, high) in ranges.items():
            if not low <= value <= high:
                raise ValueError(f"Grid: {name} must be {low} to {high}, got {value}")
        if self.features not in FEATURES:
            raise ValueError(f"Grid: features must be one of {FEATURES}, got {self.features}")
        if self.hashed not in HASHED:
            raise ValueError(f"Grid: hashed must be one of {tuple(HASHED)}, got {self.hashed!r}")
        if self.base * self.growth ** (self.levels - 1) > 2**22 * (1 + 1e-12):  # growth is rounded
            raise ValueError(
                "Grid: base growth^(levels - 1), the points of the finest level, must be at most 2^22, "
                f"got {self.base * self.growth ** (self.levels - 1):.3g}"
            )
        if self.log2_entries is None and self.resolutions[-1] ** self.dimensions > 2**28:
            raise ValueError(
                f"Grid: log2_entries must be set where the finest level has more than 2^28 points, "
                f"got {self.resolutions[-1]}^{self.dimensions}"
            )

    @classmethod
    def multi_resolution_hash(
        cls,
        dimensions: int,
        growth: float = HASH_GROWTH,
        log2_entries: int = 19,
        hashed: Hashed = True,
    ) -> Grid:
        """16 levels of 2 features, from 16 points along an axis, hashed."""
        return cls(dimensions, 16, 2, 16, growth, log2_entries, hashed)

    @classmethod
    def multi_resolution_dense(
        cls, dimensions: int, growth: float = DENSE_GROWTH, log2_entries: int | None = 19
    ) -> Grid:
        """8 levels of 2 features, from 16 to 173 points along an axis, not hashed."""
        return cls(dimensions, 8, 2, 16, growth, log2_entries, hashed=False)

    @classmethod
    def low_resolution_dense(cls, dimensions: int, log2_entries: int | None = 19) -> Grid:
        """2 levels of 8 features, both of 128 points along an axis, not hashed."""
        return cls(dimensions, 2, 8, 128, 1.0, log2_entries, hashed=False)

    @cached_property
    def scales(self) -> tuple[float, ...]:
        """Cells along an axis, [L]."""
        exact = [self.base * self.growth**level - 1 for level in range(self.levels)]
        return tuple(torch.tensor(exact, dtype=torch.float32).tolist())

    @property
    def resolutions(self) -> tuple[int, ...]:
        """Points along an axis, [L]."""
        return tuple(math.ceil(scale) + 1 for scale in self.scales)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """The first entry of each level, and the number of all, [L + 1]."""
        offsets = [0]
        for resolution in self.resolutions:
            size = -(-level_points(resolution, self.dimensions, self.hashed) // 8) * 8
            offsets.append(
                offsets[-1] + (size if self.log2_entries is None else min(size, 2**self.log2_entries))
            )
        return tuple(offsets)

    @property
    def entries(self) -> int:
        """The number of entries of all levels, E."""
        return self.offsets[-1]

    @property
    def width(self) -> int:
        """L * F, how many numbers encode a position."""
        return self.levels * self.features
