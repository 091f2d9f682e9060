"""Resampling of equirectangular images: pinhole views without aliasing.

Column u of an image W wide has the longitude 2 pi (u / W - 1/2), row v the latitude pi (1/2 - v / H); the direction of
both is (cos lat sin lon, -sin lat, cos lat cos lon) in the camera's OpenCV axes.
"""

from __future__ import annotations

import cv2
import numpy as np

WIDEST_SOURCE = 30_000  # pixels: cv2.remap addresses less than 2^15
POLAR = 2.0  # 1 / cos(latitude) above which rows are smoothed, as they have more pixels than directions
SMOOTHEST = 1023  # pixels of the widest filter
PAD = 3  # pixels around the image for bicubic interpolation


def directions_to_pixels(directions: np.ndarray, width: int, height: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns and rows (0 at the image's border) of directions [..., 3] in an equirectangular image."""
    x, y, z = np.moveaxis(directions, -1, 0)
    column = (np.arctan2(x, z) / (2 * np.pi) + 0.5) * width
    row = (0.5 + np.arctan2(y, np.hypot(x, z)) / np.pi) * height
    return column, row


def view_directions(turn: np.ndarray, focal: float, size: int) -> np.ndarray:
    """Directions of the pixels of a square pinhole view in the axes of the panorama, [size, size, 3], of any length.

    Args:
        turn: rotation from the view's camera axes to those of the panorama, [3, 3].
        focal: in pixels; the principal point is the middle.
        size: pixels of a side.
    """
    across = (np.arange(size) + 0.5 - 0.5 * size) / focal
    x, y = np.meshgrid(across, across)
    return np.stack([x, y, np.ones_like(x)], axis=-1) @ turn.T


class Panorama:
    """An equirectangular image from which views are cut.

    Args:
        pixels: uint8 [H, W] or [H, W, C].
    """

    def __init__(self, pixels: np.ndarray) -> None:
        height, width = pixels.shape[:2]
        if max(width, height) > WIDEST_SOURCE:
            scale = WIDEST_SOURCE / max(width, height)
            width, height = max(1, round(width * scale)), max(1, round(height * scale))
            pixels = cv2.resize(pixels, (width, height), interpolation=cv2.INTER_AREA)
        self.width, self.height = width, height
        self._padded = _padded(_smoothed_poles(pixels))

    def view(self, turn: np.ndarray, focal: float, size: int) -> np.ndarray:
        """A square pinhole view, uint8 [size, size] or [size, size, C]: bicubic, averaged where it has fewer pixels.

        Args:
            turn, focal, size: as in `view_directions`.
        """
        finer = max(1, round(self.width / (2 * np.pi * focal)))
        rays = view_directions(turn, focal * finer, size * finer).astype(np.float32)
        column, row = directions_to_pixels(rays, self.width, self.height)
        # The first pixel has its centre at 0 for cv2, and stands behind PAD others.
        maps = [(position + (PAD - 0.5)).astype(np.float32) for position in (column, row)]
        out = cv2.remap(self._padded, maps[0], maps[1], cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
        return cv2.resize(out, (size, size), interpolation=cv2.INTER_AREA) if finer > 1 else out


def _padded(pixels: np.ndarray) -> np.ndarray:
    """The image continued over its left and right borders, and over the poles."""
    over = np.roll(pixels, pixels.shape[1] // 2, axis=1)
    rows = np.concatenate([over[:PAD][::-1], pixels, over[-PAD:][::-1]])
    return np.concatenate([rows[:, -PAD:], rows, rows[:, :PAD]], axis=1)


def _smoothed_poles(pixels: np.ndarray) -> np.ndarray:
    """The image with rows near the poles averaged over as many columns as one direction has there."""
    height, width = pixels.shape[:2]
    stretch = 1 / np.maximum(np.cos(np.pi * (0.5 - (np.arange(height) + 0.5) / height)), 1e-6)
    out = pixels.copy()
    for row in np.nonzero(stretch >= POLAR)[0]:
        across = int(min(stretch[row], SMOOTHEST, width // 2)) | 1
        line = np.concatenate([pixels[row, -across:], pixels[row], pixels[row, :across]])[None]
        out[row] = cv2.blur(line, (across, 1))[0, across:-across]
    return out
