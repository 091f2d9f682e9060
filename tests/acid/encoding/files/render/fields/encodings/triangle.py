"""Triangle waves of positions: the encoding triangle."""

from __future__ import annotations

import torch
from torch import Tensor

from luxel.render.fields.config import FieldConfig
from luxel.render.fields.encodings.encoding import Encoding


class TriangleEncoding(Encoding):
    """Triangle waves of periods 2, 1, 1/2 and so on, and the same a quarter of a period later.

    Müller 2021, "Tiny CUDA neural networks", has such waves as its encoding TriangleWave.

    Args:
        dimensions: D, of a position.
        frequencies: K.
    """

    twice = False

    def __init__(self, dimensions: int, frequencies: int) -> None:
        super().__init__()
        self.dimensions, self.frequencies = dimensions, frequencies
        self.width = 2 * dimensions * frequencies

    def forward(self, x: Tensor) -> Tensor:
        """Positions [..., D] to waves in [-1, 1], [..., D * 2 K]."""
        powers = 2.0 ** torch.arange(-1, self.frequencies - 1, dtype=x.dtype, device=x.device)
        phases = x[..., None] * powers
        both = torch.stack([phases, phases + 0.25], -1)
        return (4 * (both - (both + 0.5).floor()).abs() - 1).flatten(-3)


def triangle_encoding(config: FieldConfig, dimensions: int) -> TriangleEncoding:
    """As many frequencies as the frequency encoding has."""
    return TriangleEncoding(dimensions, config.frequencies)
