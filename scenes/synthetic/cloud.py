"""A synthetic cloud: density and colour in the unit cube."""

from __future__ import annotations

import torch
from torch import Tensor, nn

LATTICE = 32  # random values along each axis, periodic
OCTAVES = 5
LUMPS = 4.0  # periods of the coarsest octave along the cube
DENSEST = 40.0  # maximum density, per unit of length


class Cloud(nn.Module):
    """A cumulus: a flattened ball modulated by fractal value noise (Perlin 1985).

    Args:
        seed: of the noise.
    """

    lattice: Tensor

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.register_buffer("lattice", torch.rand(LATTICE**3, 2, generator=generator))

    def forward(self, positions: Tensor) -> Tensor:
        """Density per unit of length and albedo (red, green, blue) at positions [S, 3] of the unit cube, [S, 4]."""
        noise = self._fractal(positions)
        height = positions[:, 2]
        position = (positions - 0.5) / 0.37
        position = torch.cat(
            [position[:, :2], position[:, 2:] * torch.where(height < 0.5, 1.9, 1.25)[:, None]], 1
        )
        solid = 1 - position.norm(dim=-1) + 2.2 * (noise[:, 0] - 0.5)
        density = DENSEST * _smooth((solid / 0.6).clamp(0, 1))
        light = _smooth(((height - 0.25) / 0.5).clamp(0, 1))[:, None]
        shade = torch.lerp(_colour(positions, 0.34, 0.38, 0.52), _colour(positions, 1.0, 0.93, 0.84), light)
        albedo = shade * (0.75 + 0.5 * (noise[:, 1:] - 0.5))
        return torch.cat([density[:, None], albedo.clamp(0, 1)], 1)

    def _fractal(self, positions: Tensor) -> Tensor:
        """Two fractal noises in [0, 1]; each octave has half the wavelength and amplitude of the one before, [S, 2]."""
        total = positions.new_zeros(len(positions), 2)
        weights = [0.5**octave for octave in range(OCTAVES)]
        for octave, weight in enumerate(weights):
            total += weight / sum(weights) * self._noise(positions * (LUMPS * 2**octave) + 7.31 * octave)
        return total

    def _noise(self, positions: Tensor) -> Tensor:
        """Value noise: random values at integer positions, smoothly interpolated, [S, 2]."""
        low = positions.floor()
        part = _smooth(positions - low)
        cells = torch.stack([low.long() % LATTICE, (low.long() + 1) % LATTICE], -1)  # [S, 3, 2]
        weights = torch.stack([1 - part, part], -1)
        x, y, z = (cells[:, axis] for axis in range(3))
        index = ((x[:, :, None] * LATTICE + y[:, None])[..., None] * LATTICE + z[:, None, None]).flatten(1)
        u, v, w = (weights[:, axis] for axis in range(3))
        weight = ((u[:, :, None] * v[:, None])[..., None] * w[:, None, None]).flatten(1)
        values = self.lattice.index_select(0, index.flatten()).view(*index.shape, 2)
        return (weight[..., None] * values).sum(1)


def _smooth(t: Tensor) -> Tensor:
    """3 t^2 - 2 t^3."""
    return t * t * (3 - 2 * t)


def _colour(like: Tensor, *rgb: float) -> Tensor:
    """A constant colour, created on the device without a copy (for CUDA graphs), [3]."""
    return torch.stack([like.new_full((), value) for value in rgb])
