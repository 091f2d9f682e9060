"""The shift of a capture with large coordinates, and of what its format reads."""

from __future__ import annotations

import numpy as np

from luxel.scenes.captures.contents import CaptureContents
from luxel.scenes.geometry import estimate_centre, invert_rigid
from luxel.scenes.large_coordinates import choose_shift, shifted_points, shifted_pose

MAX_POINTS = 100_000  # of which the middle is taken


def shift_of(contents: CaptureContents) -> np.ndarray:
    """`choose_shift` of the cameras of a capture."""
    poses = np.stack([invert_rigid(image.world_to_cam) for image in contents.images])
    positions, middle = poses[:, :3, 3].copy(), np.median(poses[:, :3, 3], axis=0)
    poses[:, :3, 3] -= middle
    points = np.zeros((0, 3))
    if contents.points is not None:
        points = contents.points.xyz[:: 1 + len(contents.points.xyz) // MAX_POINTS] - middle
    centre = estimate_centre(poses, points)
    return choose_shift(positions, float(np.median(np.linalg.norm(poses[:, :3, 3] - centre, axis=1))))


def shift_contents(contents: CaptureContents, shift: np.ndarray) -> None:
    """Subtracts a shift from the cameras and points of a capture, in float64; the points become float32."""
    if shift.any():
        for image in contents.images:
            image.world_to_cam = shifted_pose(image.world_to_cam, shift)
    if contents.points is not None:
        contents.points = shifted_points(contents.points, shift)
