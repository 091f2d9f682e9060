"""Poses from files, and estimates of up direction and centre of a capture."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from luxel.scenes.errors import CaptureError

OPENGL_TO_OPENCV = np.diag([1.0, -1.0, -1.0, 1.0])
LAST_ROW = np.array([0.0, 0.0, 0.0, 1.0])  # of a rigid transform


def rigid_from_matrix(matrix: object, where: str) -> np.ndarray:
    """A camera-to-world matrix from a file, projected to the nearest rigid transform, float64 [4, 4].

    A uniform scale of the axes is removed; the camera's position stays the last column.

    Args:
        matrix: nested lists of numbers, [3, 4] or [4, 4].
        where: file and frame, the beginning of error messages.

    Raises:
        CaptureError: the matrix is absent, not 3x4 or 4x4, not finite, singular, mirrored or sheared.
    """
    remedy = "Correct the matrix, or remove the frame from the file."
    if matrix is None:
        raise CaptureError(f"{where}: there is no transform_matrix.", remedy)
    try:
        given = np.array(matrix, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise CaptureError(f"{where}: transform_matrix is not a table of numbers.", remedy) from None
    if given.shape not in ((4, 4), (3, 4)):
        raise CaptureError(f"{where}: transform_matrix must be 4x4, got {list(given.shape)}.", remedy)
    if not (np.abs(given) < 1e15).all():  # phrased so that NaN fails; larger numbers overflow float32
        raise CaptureError(f"{where}: transform_matrix holds NaN, infinity or numbers beyond 1e15.", remedy)
    if given.shape[0] == 4 and (np.abs(given[3] - LAST_ROW) > 1e-3).any():
        raise CaptureError(f"{where}: the last row of transform_matrix must be 0 0 0 1.", remedy)
    left, stretch, right = np.linalg.svd(given[:3, :3])
    if not (np.isfinite(stretch).all() and stretch[0] < 1e15 and stretch[2] > 1e-6 * stretch[0] > 0):
        raise CaptureError(f"{where}: transform_matrix is singular.", remedy)
    if stretch[0] > 1.02 * stretch[2]:
        raise CaptureError(
            f"{where}: transform_matrix has no rotation: its axes are stretched or sheared.", remedy
        )
    rotation = left @ right
    if np.linalg.det(rotation) < 0:
        raise CaptureError(
            f"{where}: transform_matrix mirrors the scene (its determinant is negative).", remedy
        )
    out = np.eye(4)
    out[:3, :3], out[:3, 3] = rotation, given[:3, 3]
    return out


def nearest_rigid(matrix: np.ndarray) -> np.ndarray:
    """The rigid transform with the nearest rotation, and the same centre, -R^T t, as the given one, float64 [4, 4].

    Args:
        matrix: nearly rigid, [4, 4].
    """
    left, _, right = np.linalg.svd(matrix[:3, :3].astype(np.float64))
    out = np.eye(4)
    out[:3, :3] = left @ right
    out[:3, 3] = out[:3, :3] @ (matrix[:3, :3].T @ matrix[:3, 3])
    return out


def invert_rigid(matrix: np.ndarray) -> np.ndarray:
    """The inverse of a rigid transform, [4, 4]."""
    out = np.eye(4)
    out[:3, :3] = matrix[:3, :3].T
    out[:3, 3] = -matrix[:3, :3].T @ matrix[:3, 3]
    return out


def quaternion_from_rotation(rotation: np.ndarray) -> np.ndarray:
    """Unit quaternion wxyz of a rotation matrix [3, 3] (Shepperd: the largest component is found first)."""
    m = rotation
    squares = np.array(
        [
            1 + m[0, 0] + m[1, 1] + m[2, 2],
            1 + m[0, 0] - m[1, 1] - m[2, 2],
            1 - m[0, 0] + m[1, 1] - m[2, 2],
            1 - m[0, 0] - m[1, 1] + m[2, 2],
        ]
    )
    a, b, c = m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]
    d, e, f = m[1, 0] + m[0, 1], m[0, 2] + m[2, 0], m[2, 1] + m[1, 2]
    rows = ([squares[0], a, b, c], [a, squares[1], d, e], [b, d, squares[2], f], [c, e, f, squares[3]])
    quaternion = np.array(rows[int(np.argmax(squares))])
    return quaternion / np.linalg.norm(quaternion)


def rotation_from_quaternion(wxyz: Sequence[float], where: str) -> np.ndarray:
    """Rotation matrix [3, 3] of a quaternion wxyz of any length.

    Raises:
        CaptureError: the quaternion is zero or not finite.
    """
    q = np.asarray(wxyz, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        length = np.linalg.norm(q)
    if not (np.isfinite(length) and length > 1e-12):
        raise CaptureError(
            f"{where}: the rotation {list(wxyz)} is not a valid quaternion.", "Export the model again."
        )
    w, x, y, z = q / length
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def estimate_up(cam_to_world: np.ndarray) -> np.ndarray | None:
    """The world's up direction, assuming cameras that are held level.

    The x axes of level cameras are horizontal: up is the direction most nearly perpendicular to all of them. Where
    that is ambiguous (all cameras look in one direction), or far from the mean of the cameras' own up directions, that
    mean is returned.

    Args:
        cam_to_world: OpenCV poses, [V, 4, 4].

    Returns:
        Unit vector [3]; None: the cameras' up directions cancel out.
    """
    mean = -cam_to_world[:, :3, 1].mean(axis=0)
    length = np.linalg.norm(mean)
    if not length > 0.1:
        return None
    mean = mean / length
    _, spread, axes = np.linalg.svd(cam_to_world[:, :3, 0], full_matrices=True)
    if len(spread) < 3 or spread[1] < 0.2 * spread[0] or spread[2] > 0.7 * spread[1]:
        return mean
    level = axes[2] * np.sign(axes[2] @ mean)
    return level if level @ mean > np.cos(np.radians(40)) else mean


def axes_meet(cam_to_world: np.ndarray) -> np.ndarray | None:
    """The point nearest to all optical axes, [3]; None: they do not determine one that most cameras look at.

    Args:
        cam_to_world: OpenCV poses, [V, 4, 4].
    """
    origin, direction = cam_to_world[:, :3, 3], cam_to_world[:, :3, 2]
    across = np.eye(3) - direction[:, :, None] * direction[:, None, :]
    system, target = across.sum(axis=0), (across @ origin[:, :, None]).sum(axis=0)[:, 0]
    if np.linalg.cond(system) < 1e3:
        centre = np.linalg.solve(system, target)
        ahead = ((centre - origin) * direction).sum(axis=1)
        if (ahead > 0).mean() > 0.8:
            return centre
    return None


def estimate_centre(cam_to_world: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The point nearest to all optical axes; where that is undetermined, the median of the points, [3].

    Args:
        cam_to_world: OpenCV poses, [V, 4, 4].
        points: point cloud, [P, 3]; may be empty.
    """
    centre = axes_meet(cam_to_world)
    if centre is not None:
        return centre
    if len(points):
        return np.median(points, axis=0).astype(np.float64)
    return cam_to_world[:, :3, 3].mean(axis=0) + cam_to_world[:, :3, 2].mean(axis=0)
