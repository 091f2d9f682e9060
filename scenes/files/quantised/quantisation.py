"""What formats of quantised Gaussians share: levels, opacities, three components of rotations, an order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

ROWS = 1 << 17  # that are converted at a time, so that intermediate results stay small
# The components of a quaternion alongside each one.
OTHERS = np.array([[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]])
SMALLEST = 0.5**0.5  # no component but the largest exceeds it
FAR = np.float32(1e18)  # values beyond are moved here: differences of float32 stay finite
AXIS_BITS = 21  # of Morton codes
STRAYS, MARGIN, SAMPLE = (
    0.5,
    4.0,
    1 << 20,
)  # percent on either side, extents around the rest; Gaussians that are looked at

# Levels 0 and 255 are read as half a step from 0 and 1, so that logits stay finite.
_OPACITIES = np.clip(np.arange(256) / 255, 0.5 / 255, 1 - 0.5 / 255)
LOGITS = np.log(_OPACITIES / (1 - _OPACITIES)).astype(np.float32)  # by level of the opacity


def blocks(count: int, rows: int = ROWS) -> Iterator[slice]:
    """Slices of at most ``rows`` rows that cover ``count`` rows."""
    for start in range(0, count, rows):
        yield slice(start, min(start + rows, count))


def to_levels(values: np.ndarray, highest: int = 255) -> np.ndarray:
    """Values rounded to whole levels from 0 to ``highest``, uint8 or uint32; NaN becomes 0."""
    kind = np.uint8 if highest < 256 else np.uint32
    return np.clip(np.rint(np.nan_to_num(values)), 0, highest).astype(kind)


def opacity_levels(logits: np.ndarray) -> np.ndarray:
    """Opacities as levels of 1 / 255, uint8, from their logits; `LOGITS` leads back."""
    with np.errstate(over="ignore"):
        return to_levels(255 / (1 + np.exp(-logits)))


def unit_quats(quats: np.ndarray) -> np.ndarray:
    """Quaternions wxyz of length 1, float32 [N, 4]; those of length 0, or not finite, become the identity."""
    quats = quats.astype(np.float64)
    length = np.linalg.norm(quats, axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        unit = (quats / length).astype(np.float32)
    unit[~np.isfinite(unit).all(axis=1)] = (1, 0, 0, 0)
    return unit


def smallest_three(quats: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rotations by the three components that are not the largest.

    Args:
        quats: unit quaternions with their components in any order, [N, 4].

    Returns:
        The index of the largest component, uint32 [N], and the others in their order, of the quaternion or its
        negative, whose largest component is positive, [N, 3].
    """
    largest = np.abs(quats).argmax(axis=1)
    others = np.take_along_axis(quats, OTHERS[largest], axis=1)
    negative = np.take_along_axis(quats, largest[:, None], axis=1) < 0
    return largest.astype(np.uint32), np.where(negative, -others, others)


def from_smallest_three(largest: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The quaternions that `smallest_three` has taken apart, float32 [N, 4]."""
    largest = largest.astype(np.intp)
    quats = np.empty((len(largest), 4), np.float32)
    rest = np.sqrt(np.maximum(0, 1 - np.square(others).sum(axis=1)))
    np.put_along_axis(quats, OTHERS[largest], others.astype(np.float32), axis=1)
    np.put_along_axis(quats, largest[:, None], rest[:, None].astype(np.float32), axis=1)
    return quats


def morton_order(means: np.ndarray) -> np.ndarray:
    """Indices [N] that sort centres [N, 3] along the Z-order curve, near ones together.

    The curve runs through a box around nearly all of them. Strays far outside count as at its faces, so that a few of
    them do not make its cells too large for the others.
    """
    if not len(means):
        return np.zeros(0, np.int64)
    means = finite(means)
    low, high = np.percentile(means[:: -(-len(means) // SAMPLE)], [STRAYS, 100 - STRAYS], axis=0)
    side = float((high - low).max())
    low, high = low - MARGIN * side, high + MARGIN * side
    low, high = np.maximum(low, means.min(axis=0)), np.minimum(high, means.max(axis=0))
    scale = ((1 << AXIS_BITS) - 1) / np.maximum(high - low, 1e-30)
    codes = np.zeros(len(means), np.uint64)
    for rows in blocks(len(means)):
        cells = (np.clip(means[rows], low, high) - low) * scale
        codes[rows] = morton_codes(cells)
    return np.argsort(codes, kind="stable")


def morton_codes(cells: np.ndarray) -> np.ndarray:
    """The low 21 bits of three numbers in turns, uint64 [N]: near cells [N, 3] have near codes."""
    x, y, z = (_spread(axis.astype(np.uint64)) for axis in cells.T)
    return x | y << np.uint64(1) | z << np.uint64(2)


def finite(values: np.ndarray) -> np.ndarray:
    """Values within `FAR`; NaN becomes 0."""
    return np.clip(np.nan_to_num(values), -FAR, FAR)


def _spread(bits: np.ndarray) -> np.ndarray:
    """The low 21 bits of uint64 numbers with two zeros between neighbours."""
    for shift, mask in (
        (32, 0x1F00000000FFFF),
        (16, 0x1F0000FF0000FF),
        (8, 0x100F00F00F00F00F),
        (4, 0x10C30C30C30C30C3),
        (2, 0x1249249249249249),
    ):
        bits = (bits | (bits << np.uint64(shift))) & np.uint64(mask)
    return bits
