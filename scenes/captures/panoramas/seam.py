"""Whether images without metadata are equirectangular panoramas: by their borders, which meet in a panorama.

The first and the last column of a panorama are neighbours, and its first and last row are each one direction. In images
of other projections the detail of the borders has nothing in common, and rows are as varied there as elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np

from luxel.scenes.captures.images.images import decode

SAMPLE = 12  # images that are judged
SIZE = (512, 256)  # pixels at which they are
SMOOTH = 6.0  # standard deviation in pixels of what is subtracted from columns: their detail is what remains
DETAIL = 1.0  # of 255 levels: standard deviation of the detail of a border below which nothing is said of it
CONTINUED = (
    0.6  # of the correlation of neighbouring columns, which that of the borders has at least in half of them
)
UNIFORM = 0.3  # of the deviation of other rows, which that of a pole has at most
POLAR = 16  # rows at the poles that are left out of columns


def borders_meet(files: Sequence[Path]) -> tuple[bool, bool]:
    """Whether the left and right borders of images continue each other, and whether one of their poles is uniform.

    Args:
        files: images; up to `SAMPLE` of them, evenly spread, are judged.

    Raises:
        CaptureError: one cannot be read.
    """
    chosen = [files[row] for row in np.unique(np.linspace(0, len(files) - 1, SAMPLE).astype(int))]
    greys = np.stack([_small_grey(file) for file in chosen])
    rows = greys.std(axis=2)  # [N, H]
    poles = np.median(rows[:, [0, -1]], axis=0).min()
    uniform = bool(poles <= UNIFORM * np.median(rows))
    shares = [share for share in map(_continued, greys) if share is not None]
    return bool(shares) and float(np.median(shares)) >= CONTINUED, uniform


def _continued(grey: np.ndarray) -> float | None:
    """The correlation of the detail of the borders, in that of neighbouring columns; None: they have no detail."""
    middle = grey[POLAR:-POLAR]
    detail = (middle - cv2.GaussianBlur(middle, (0, 0), SMOOTH)).T
    detail = detail - detail.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(detail, axis=1)
    if min(norms[0], norms[-1]) < DETAIL * np.sqrt(detail.shape[1]):
        return None
    correlation = (detail * np.roll(detail, 1, axis=0)).sum(1) / np.maximum(norms * np.roll(norms, 1), 1e-6)
    return float(correlation[0] / max(float(np.median(correlation[1:])), 1e-6))


def _small_grey(file: Path) -> np.ndarray:
    pixels = decode(file, least=SIZE[0])[..., :3]
    small = cv2.resize(np.ascontiguousarray(pixels), SIZE, interpolation=cv2.INTER_AREA)
    return cv2.cvtColor(small, cv2.COLOR_RGB2GRAY).astype(np.float32)
