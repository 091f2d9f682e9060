"""Large coordinates, such as UTM and ECEF: what is subtracted from them inside luxel, so that float32 holds them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from luxel.render.geometry.camera import Points
from luxel.render.primitives import Parameters
from luxel.render.primitives.similarity import Similarity

Shift = tuple[float, float, float]
# Extents between 0 and the cameras beyond which coordinates are shifted. There float32 rounds to 3e-6 of the extent,
# about the last steps of training (a learning rate of 1.6e-6 of the extent).
MAX_OFFSET = 50.0


def choose_shift(positions: np.ndarray, extent: float) -> np.ndarray:
    """What is subtracted from large coordinates: their median, rounded to the power of ten above the extent.

    Args:
        positions: of cameras or points, world coordinates, float64 [V, 3].
        extent: of the scene, capture units.

    Returns:
        float64 [3]; 0 where coordinates are at most `MAX_OFFSET` extents.
    """
    middle = np.median(positions, axis=0)
    if not (extent > 0 and np.abs(middle).max() > MAX_OFFSET * extent):
        return np.zeros(3)
    digits = -math.ceil(math.log10(extent))
    return np.array([round(float(x), digits) for x in middle]) + 0.0  # no -0


def shifted_pose(world_to_cam: np.ndarray, shift: Sequence[float] | np.ndarray) -> np.ndarray:
    """The pose among coordinates from which ``shift`` was subtracted, float64 [4, 4]; of a pose there, and -shift, that
    of the world."""
    out = world_to_cam.astype(np.float64)
    out[:3, 3] += out[:3, :3] @ np.asarray(shift, np.float64)
    return out


def shifted_points(points: Points, shift: np.ndarray) -> Points:
    """Points from which ``shift`` was subtracted in float64, float32."""
    xyz = points.xyz.astype(np.float64) - shift if shift.any() else points.xyz
    return replace(points, xyz=np.ascontiguousarray(xyz, np.float32))


def with_shift(
    parameters: Parameters, own: Shift | None, shift: Sequence[float] | np.ndarray | None
) -> Parameters:
    """Primitives whose shift is ``own``, moved to where their shift is ``shift``; None: 0."""
    by = np.array(own or (0.0, 0.0, 0.0)) - np.array((0.0, 0.0, 0.0) if shift is None else shift)
    if not by.any():
        return parameters
    x, y, z = by.tolist()
    return parameters.transformed(Similarity(translation=(x, y, z)))


def shift_in_words(shift: np.ndarray) -> str:
    """The sentence for the user."""
    given = " ".join(f"{x:.10g}" for x in shift)
    return (
        f"The coordinates are large: inside, they are shifted by subtracting {given}. Distances stay; cameras are "
        "exported with their own coordinates, and exported scenes state the shift (--world writes their own)."
    )
