"""Images of linear, unbounded colours: how they are stored, compared and shown."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from luxel.render.errors import LuxelError

OFFSET = 0.01  # added to the squared value in the denominator of the loss


@dataclass
class HdrImage:
    """An image of linear colours with the primaries of sRGB.

    Args:
        pixels: float, 0 or more, [H, W, 3]; 1 is white at an exposure of 0.

    Raises:
        LuxelError: shape or type do not fit, or values are negative or not finite.
    """

    pixels: np.ndarray

    def __post_init__(self) -> None:
        shape = list(self.pixels.shape)
        if len(shape) != 3 or shape[2] != 3 or 0 in shape or self.pixels.dtype.kind != "f":
            raise LuxelError(
                f"An HDR image must be [H, W, 3] of floats, got {shape} of {self.pixels.dtype}.",
                "Give an image in colour.",
            )
        if not (np.isfinite(self.pixels).all() and (self.pixels >= 0).all()):
            raise LuxelError("The HDR image has values that are negative or not finite.", "Replace them.")

    def content_digest(self) -> str:
        """SHA-256 of its size and values, in hexadecimal."""
        digest = hashlib.sha256(f"hdr {self.pixels.shape};".encode())
        digest.update(np.ascontiguousarray(self.pixels, np.float32).data)
        return digest.hexdigest()


def relative_squared_error(values: Tensor, targets: Tensor) -> Tensor:
    """Mean of (v - t)^2 / (v^2 + 0.01), without gradients of the denominator, a scalar.

    In expectation over noisy targets its minimum is their mean (Lehtinen et al. 2018, "Noise2Noise", section 3.3;
    Müller et al. 2022).
    """
    return ((values - targets).square() / (values.detach().square() + OFFSET)).mean()


def tone_mapped(linear: Tensor, exposure: float = 0.0) -> Tensor:
    """Linear colours times 2^exposure, clamped to [0, 1], in sRGB (IEC 61966-2-1), of the same shape."""
    value = (linear * 2.0**exposure).clamp(0, 1)
    curve = 1.055 * value.clamp_min(0.0031308).pow(1 / 2.4) - 0.055
    return torch.where(value <= 0.0031308, 12.92 * value, curve)
