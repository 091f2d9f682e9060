"""Large coordinates, such as UTM and ECEF: inside luxel they are shifted towards 0, where float32 holds them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from luxel.render.geometry.camera import Points
from luxel.scenes.captures.contents import CaptureContents
from luxel.scenes.geometry import estimate_centre, invert_rigid

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


def shift_of(contents: CaptureContents) -> np.ndarray:
    """`choose_shift` of the cameras of a capture."""
    poses = np.stack([invert_rigid(image.world_to_cam) for image in contents.images])
    positions, middle = poses[:, :3, 3].copy(), np.median(poses[:, :3, 3], axis=0)
    poses[:, :3, 3] -= middle
    points = np.zeros((0, 3)) if contents.points is None else contents.points.xyz[:: 1 + len(contents.points.xyz) // 100_000] - middle
    centre = estimate_centre(poses, points)
    return choose_shift(positions, float(np.median(np.linalg.norm(poses[:, :3, 3] - centre, axis=1))))


def shift_contents(contents: CaptureContents, shift: np.ndarray) -> None:
    """Subtracts a shift from the cameras and points of a capture, in float64; the points become float32."""
    if shift.any():
        for image in contents.images:
            image.world_to_cam = shifted_pose(image.world_to_cam, shift)
    if contents.points is not None:
        contents.points = shifted_points(contents.points, shift)


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


def shift_in_words(shift: np.ndarray) -> str:
    """The sentence for the user."""
    given = " ".join(f"{x:.10g}" for x in shift)
    return (
        f"The coordinates are large: inside luxel, {given} is subtracted from them. Distances stay; cameras are written "
        "with their own coordinates, and scenes state what was subtracted."
    )
