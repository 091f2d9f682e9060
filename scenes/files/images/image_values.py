"""Greys of more than 8 bits, and of floats, as bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from luxel.scenes.errors import CaptureError

MAX_FLOAT = 2.0  # floats from 0 to 1 may be a little brighter than white, but not this bright
RESCALE = (
    "Scale the values of all images alike, floats to 0 to 1, integers to 0 to 65535 (or to 255, in 8 bits)."
)


def is_deep(mode: str) -> bool:
    """Whether an image of one of Pillow's modes has grey values of more than 8 bits."""
    return mode.startswith("I") or mode == "F"


def grey_bytes(path: Path, values: np.ndarray) -> np.ndarray:
    """Grey values as bytes: floats from 0 to 1, integers from 0 to 65535, of which the upper 8 bits remain.

    Args:
        path: of the image, for messages.
        values: uint16, int32 or float32 [H, W]; what is not a number counts as 0.

    Returns:
        uint8 [H, W].

    Raises:
        CaptureError: floats beyond 1, integers beyond 65535, or values so low that the image would be black.
    """
    if values.dtype.kind == "f":
        values = np.where(np.isfinite(values), values, np.float32(0))
        low, high = float(values.min()), float(values.max())
        if high >= MAX_FLOAT or low <= -MAX_FLOAT or 0 < high < 0.5 / 255:
            raise CaptureError(
                f"{path}: its values are floats from {low:.4g} to {high:.4g}; in images 0 is black and 1 is white.",
                RESCALE,
            )
        return (np.clip(values, 0, 1) * 255 + 0.5).astype(np.uint8)
    high = int(values.max())
    if high > 65535 or 0 < high < 256:
        raise CaptureError(
            f"{path}: its integers go up to {high}; in images of more than 8 bits 65535 is white.", RESCALE
        )
    return (np.clip(values, 0, 65535).astype(np.uint16) >> 8).astype(np.uint8)
