"""Sines and cosines of positions: the encoding frequency."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from luxel.render.fields.config import FieldConfig
from luxel.render.fields.encodings.encoding import Encoding


class FrequencyEncoding(Encoding):
    """sin and cos of 2^k pi x for k from 0 to K - 1 (Mildenhall et al. 2020, "NeRF", equation 4).

    Args:
        dimensions: D, of a position.
        frequencies: K.

    ``width`` is D * 2 K.

    Raises:
        ValueError: either is below 1.
    """

    def __init__(self, dimensions: int, frequencies: int) -> None:
        super().__init__()
        if dimensions < 1 or frequencies < 1:
            raise ValueError(
                "FrequencyEncoding: dimensions and frequencies must be at least 1, "
                f"got {dimensions} and {frequencies}"
            )
        self.dimensions, self.frequencies = dimensions, frequencies
        self.width = 2 * dimensions * frequencies

    def forward(self, x: Tensor) -> Tensor:
        """Encodes positions.

        Args:
            x: [..., D].

        Returns:
            sin, cos of each frequency, lowest first, of each coordinate in turn, [..., D * 2 K].

        Raises:
            ValueError: x is not [..., D].
        """
        if x.shape[-1] != self.dimensions:
            raise ValueError(f"FrequencyEncoding: x must be [..., {self.dimensions}], got {list(x.shape)}")
        powers = 2.0 ** torch.arange(self.frequencies, dtype=x.dtype, device=x.device)
        angles = math.pi * (x[..., None] * powers)
        return torch.stack([angles.sin(), angles.cos()], -1).flatten(-3)


def frequency_encoding(config: FieldConfig, dimensions: int) -> FrequencyEncoding:
    """`FieldConfig.frequencies` of them along each axis."""
    return FrequencyEncoding(dimensions, config.frequencies)
