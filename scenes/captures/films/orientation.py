"""How frames of films are turned and mirrored to be shown: their display matrix.

The matrix (ISO 14496-12, 6.2.2; FFmpeg's AV_FRAME_DATA_DISPLAYMATRIX) has the rows (a b u), (c d v), (x y w). The
stored pixel in column p and row q is shown in column a p + c q + x and row b p + d q + y.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Axes = tuple[int, int, int, int]  # signs of a, b, c, d
UPRIGHT: Axes = (1, 0, 0, 1)


def axes_of(frame: Any) -> Axes:
    """The display matrix of a frame (av.VideoFrame), taken to the nearest of the 8 that map axes to axes."""
    try:
        data = frame.side_data["DISPLAYMATRIX"]
    except KeyError:
        return UPRIGHT
    a, b, _, c, d = np.frombuffer(bytes(data), np.int32, 5).astype(float).tolist()
    if abs(a) + abs(d) >= abs(b) + abs(c):
        return (-1 if a < 0 else 1, 0, 0, -1 if d < 0 else 1)
    return (0, -1 if b < 0 else 1, -1 if c < 0 else 1, 0)


def shown(pixels: np.ndarray, axes: Axes) -> np.ndarray:
    """Stored pixels [H, W, C] as they are to be shown, [H, W, C] or [W, H, C]."""
    a, b, c, d = axes
    if not a:  # columns become rows
        pixels, a, d = pixels.swapaxes(0, 1), c, b
    return np.ascontiguousarray(pixels[::d, ::a])
