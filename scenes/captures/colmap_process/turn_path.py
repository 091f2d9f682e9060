"""Poses of a camera that stands still before an object that turns about one axis, in the frame of the object.

They are T(angle) = (R rot(n, angle), q - R rot(n, angle) p) for an axis through p along n: only the angle differs from
image to image. Estimated poses are compared with such a path, missing ones are predicted by it, and two models of the
same object are aligned by one angle about their axes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

ROUNDS = 20  # of reweighting, towards the least sum of absolute deviations (Daubechies et al. 2010)
LEAST = 1e-4  # deviation below which weights do not grow
BIN = math.radians(3)  # of the histogram of angles between two models
NEAR = math.radians(6)  # of an angle of it, of matches that agree
APART = math.radians(15)  # between two angles that are different answers
MIN_RADIUS = 0.2  # of the median distance from the axis: points nearer to it say little of the angle
LEVEL = 0.06  # of the same distance: height within which matches agree


@dataclass(frozen=True)
class TurnPath:
    """A path of poses.

    Args:
        axis: n, a unit vector in the frame of the object, [3].
        point: p, the point of the axis nearest to the origin, [3].
        turn: R, world to camera at angle 0, [3, 3].
        at: q, where p is in the frame of the camera, [3].
    """

    axis: np.ndarray
    point: np.ndarray
    turn: np.ndarray
    at: np.ndarray

    def pose(self, angle: float) -> np.ndarray:
        """World to camera at an angle, [3, 4]."""
        rotation = self.turn @ about(self.axis, angle)
        return np.concatenate([rotation, (self.at - rotation @ self.point)[:, None]], axis=1)

    def angles(self, poses: np.ndarray) -> np.ndarray:
        """The angles that fit the rotations of poses [V, 3, 4] best, radians in (-pi, pi], [V]."""
        basis = across(self.axis)
        within = np.einsum("ij,vjk,kl->vil", basis.T @ self.turn.T, poses[:, :, :3], basis)
        return np.arctan2(within[:, 1, 0] - within[:, 0, 1], within[:, 0, 0] + within[:, 1, 1])

    def deviations(self, poses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How far poses [V, 3, 4] are off the path: radians, and fractions of its radius, [V] each."""
        turned, moved = [], []
        for pose, angle in zip(poses, self.angles(poses), strict=True):
            fitted = self.pose(angle)
            cosine = (np.trace(fitted[:, :3].T @ pose[:, :3]) - 1) / 2
            turned.append(math.acos(min(1.0, max(-1.0, cosine))))
            moved.append(np.linalg.norm(centre_of(fitted) - centre_of(pose)) / max(self.radius, 1e-12))
        return np.array(turned), np.array(moved)

    @property
    def radius(self) -> float:
        """Distance of the camera from the axis."""
        away = centre_of(self.pose(0.0)) - self.point
        return float(np.linalg.norm(away - (away @ self.axis) * self.axis))

    def cylindrical(self, xyz: np.ndarray) -> np.ndarray:
        """Distance from the axis, angle about it and height along it of points [P, 3]; [P, 3]."""
        local = (xyz - self.point) @ np.column_stack([across(self.axis), self.axis])
        return np.stack(
            [np.hypot(local[:, 0], local[:, 1]), np.arctan2(local[:, 1], local[:, 0]), local[:, 2]], axis=1
        )


@dataclass(frozen=True)
class Alignment:
    """A similarity x -> scale turn x + shift between the objects of two models.

    Args:
        scale, turn [3, 3], shift [3]: see above.
        agreeing: number of matches that agree with it.
        second: number of those that agree with the best alignment at another angle.
    """

    scale: float
    turn: np.ndarray
    shift: np.ndarray
    agreeing: int
    second: int

    def pose(self, pose: np.ndarray) -> np.ndarray:
        """A pose of the second model, [3, 4], in the frame and unit of the first."""
        rotation = pose[:, :3] @ self.turn.T
        return np.concatenate([rotation, (self.scale * pose[:, 3] - rotation @ self.shift)[:, None]], axis=1)


def fit_path(poses: np.ndarray) -> TurnPath | None:
    """The path that deviates least from poses by the sum of absolute deviations.

    Args:
        poses: world to camera, [V, 3, 4]; those of a wrong minority do not change it much.

    Returns:
        None: fewer than 3 poses, or all are alike.
    """
    if len(poses) < 3:
        return None
    rotations, shifts = poses[:, :, :3], poses[:, :, 3]
    weights = np.ones(len(poses))
    axis, seen_along = np.zeros(3), np.zeros(3)
    for _ in range(ROUNDS):
        mean = np.einsum("v,vij->ij", weights, rotations) / weights.sum()
        differing = rotations - mean
        values, vectors = np.linalg.eigh(np.einsum("v,vji,vjk->ik", weights, differing, differing))
        if values[1] < 1e-6 * weights.sum():
            return None
        axis = vectors[:, 0]
        seen_along = mean @ axis
        seen_along = seen_along / np.linalg.norm(seen_along)
        weights = 1 / np.maximum(np.linalg.norm(rotations @ axis - seen_along, axis=1), LEAST)
    if seen_along @ (0, -1, -1) < 0:  # upwards in the image, or towards the camera that looks down
        axis, seen_along = -axis, -seen_along
    turn = np.column_stack([across(seen_along), seen_along]) @ np.column_stack([across(axis), axis]).T
    point, at = _fixed_points(rotations, shifts, axis)
    return TurnPath(axis, point, turn, at)


def align(
    path: TurnPath, other: TurnPath, points: np.ndarray, others: np.ndarray, *, up: float = 1.0
) -> Alignment | None:
    """The similarity from another model to a model by matched points, at the angle about the axes that most agree with.

    Args:
        path, other: paths of both, whose axes are the same.
        points, others: matched points of both, [P, 3] each, most of which may be wrong.
        up: 1; -1 where the axes have opposite directions.

    Returns:
        None: there are fewer than 3 points away from the axis.
    """
    if up < 0:
        other = TurnPath(-other.axis, other.point, other.turn, other.at)
    a, b = path.cylindrical(points), other.cylindrical(others)
    typical = np.median(a[:, 0]), np.median(b[:, 0])
    far = (a[:, 0] > MIN_RADIUS * typical[0]) & (b[:, 0] > MIN_RADIUS * typical[1])
    if far.sum() < 3:
        return None
    a, b = a[far], b[far]
    between = np.angle(np.exp(1j * (a[:, 1] - b[:, 1])))
    answers = []
    for angle in _peaks(between):
        made = _at_angle(a, b, between, angle)
        if made is not None:
            answers.append(made)
    if not answers:
        return None
    agreeing, angle, scale, rise = max(answers)
    rivals = [count for count, at, *_ in answers if abs(np.angle(np.exp(1j * (at - angle)))) > APART]
    frame = np.column_stack([across(path.axis), path.axis])
    turn = (
        frame @ about(np.array([0.0, 0.0, 1.0]), angle) @ np.column_stack([across(other.axis), other.axis]).T
    )
    shift = path.point + rise * path.axis - scale * turn @ other.point
    return Alignment(scale, turn, shift, agreeing, max(rivals, default=0))


def unwrapped(angles: Sequence[float] | np.ndarray) -> np.ndarray:
    """Angles of images in order, without jumps of a full turn, [V]."""
    return np.unwrap(np.asarray(angles, float))


def about(axis: np.ndarray, angle: float) -> np.ndarray:
    """Rotation about a unit vector, [3, 3]."""
    x, y, z = axis
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + math.sin(angle) * cross + (1 - math.cos(angle)) * cross @ cross


def across(axis: np.ndarray) -> np.ndarray:
    """Two unit vectors that make a right-handed frame with a third, columns of [3, 2]."""
    least = np.eye(3)[int(np.argmin(np.abs(axis)))]
    first = np.cross(least, axis)
    first = first / np.linalg.norm(first)
    return np.column_stack([first, np.cross(axis, first)])


def centre_of(pose: np.ndarray) -> np.ndarray:
    """Where the camera of a pose [3, 4] is, [3]."""
    return -pose[:, :3].T @ pose[:, 3]


def _fixed_points(
    rotations: np.ndarray, shifts: np.ndarray, axis: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The point p of the axis nearest to the origin, and q with R p + t = q for most poses."""
    count = len(rotations)
    left = np.concatenate([rotations, -np.broadcast_to(np.eye(3), (count, 3, 3))], axis=2)
    unit = max(float(np.median(np.linalg.norm(shifts, axis=1))), 1e-12)
    weights, solution = np.ones(count), np.zeros(6)
    for _ in range(ROUNDS):
        root = np.sqrt(weights / weights.max())[:, None]
        rows = (left * root[..., None]).reshape(-1, 6)
        rows = np.concatenate([rows, [[*axis, 0, 0, 0]]])
        values = np.append((-shifts * root).ravel(), 0.0)
        solution = np.linalg.lstsq(rows, values, rcond=None)[0]
        off = np.linalg.norm(np.einsum("vij,j->vi", left, solution) + shifts, axis=1)
        weights = 1 / np.maximum(off / unit, LEAST)
    return solution[:3], solution[3:]


def _peaks(angles: np.ndarray) -> list[float]:
    """Angles around which many are, at least APART from each other, most frequent first."""
    count = round(2 * math.pi / BIN)
    filled = np.bincount(((angles + math.pi) / (2 * math.pi) * count).astype(int) % count, minlength=count)
    smooth = filled + 0.7 * (np.roll(filled, 1) + np.roll(filled, -1))
    chosen: list[float] = []
    for index in np.argsort(-smooth, kind="stable"):
        angle = (index + 0.5) / count * 2 * math.pi - math.pi
        if smooth[index] > 0 and all(abs(np.angle(np.exp(1j * (angle - other)))) > APART for other in chosen):
            chosen.append(angle)
    return chosen[:8]


def _at_angle(
    a: np.ndarray, b: np.ndarray, between: np.ndarray, angle: float
) -> tuple[int, float, float, float] | None:
    """Number of agreeing matches, angle, scale and rise of the similarity near an angle; None: too few."""
    near = np.abs(np.angle(np.exp(1j * (between - angle)))) < NEAR
    if near.sum() < 3:
        return None
    scale = float(np.median(a[near, 0] / b[near, 0]))
    for _ in range(3):
        rise = float(np.median(a[near, 2] - scale * b[near, 2]))
        level = np.abs(a[:, 2] - scale * b[:, 2] - rise) < LEVEL * np.median(a[:, 0])
        wide = np.abs(np.log(a[:, 0] / (scale * b[:, 0]))) < 2 * LEVEL
        turned = np.abs(np.angle(np.exp(1j * (between - angle)))) < NEAR
        near = turned & level & wide
        if near.sum() < 3:
            return None
        angle = angle + float(np.median(np.angle(np.exp(1j * (between[near] - angle)))))
        scale = float(np.median(a[near, 0] / b[near, 0]))
    return int(near.sum()), angle, scale, rise
