"""Bundle adjustment of cameras that stand still before an object that turns about one axis.

The pose of an image is T rot(z, angle) with one T for each position of the camera, so that an image has one unknown
instead of six. Levenberg-Marquardt with the points eliminated (Triggs et al. 2000, section 6), Cauchy's loss.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

ROUNDS = 25
LOSS = 1.0  # scale of Cauchy's loss, pixels
DAMPING = 1e-4  # relative to the diagonal, at the beginning
ENOUGH = 1e-4  # relative decrease of the loss at which it ends
OWN = 8  # unknowns that an observation depends on, besides its point: 6 of T, the angle, the focal length


@dataclass(frozen=True)
class TurnBundle:
    """Cameras, points and observations.

    Args:
        turns, shifts: T of each camera position, [G, 3, 3] and [G, 3].
        angles: of each image, [V].
        group: camera position of each image, int [V].
        focal: pixels.
        points: [N, 3].
        image, point: of each observation, int [M].
        at: where it is, pixels from the principal point and without distortion, [M, 2].
    """

    turns: np.ndarray
    shifts: np.ndarray
    angles: np.ndarray
    group: np.ndarray
    focal: float
    points: np.ndarray
    image: np.ndarray
    point: np.ndarray
    at: np.ndarray

    def poses(self) -> np.ndarray:
        """World to camera of all images, [V, 3, 4]."""
        rotations = self.turns[self.group] @ about_z(self.angles)
        return np.concatenate([rotations, self.shifts[self.group][..., None]], axis=2)

    def residuals(self) -> np.ndarray:
        """Reprojection errors, pixels, [M, 2]."""
        local = np.einsum("mij,mj->mi", about_z(self.angles)[self.image], self.points[self.point])
        group = self.group[self.image]
        seen = np.einsum("mij,mj->mi", self.turns[group], local) + self.shifts[group]
        return self.focal * seen[:, :2] / seen[:, 2:] - self.at


def adjusted(bundle: TurnBundle) -> TurnBundle:
    """The bundle of least loss near a bundle; the object and its axis stay where they are but for a small drift."""
    damping, loss = DAMPING, _loss(bundle)
    for _ in range(ROUNDS):
        trial = _step(bundle, damping)
        after = _loss(trial)
        if not after < loss:  # phrased so that NaN fails
            damping *= 10
            if damping > 1e3:
                break
            continue
        gain, bundle, loss = (loss - after) / max(loss, 1e-30), trial, after
        damping = max(damping / 5, 1e-9)
        if gain < ENOUGH:
            break
    return bundle


def about_z(angles: np.ndarray) -> np.ndarray:
    """Rotations about z, [V, 3, 3]."""
    c, s, one, zero = np.cos(angles), np.sin(angles), np.ones_like(angles), np.zeros_like(angles)
    return np.stack([c, -s, zero, s, c, zero, zero, zero, one], axis=-1).reshape(*np.shape(angles), 3, 3)


def _loss(bundle: TurnBundle) -> float:
    return float(np.log1p((bundle.residuals() ** 2).sum(1) / LOSS**2).sum())


def _step(bundle: TurnBundle, damping: float) -> TurnBundle:
    """A damped Gauss-Newton step of the reweighted squares."""
    b, groups, views = bundle, len(bundle.shifts), len(bundle.angles)
    group = b.group[b.image]
    turn = about_z(b.angles)[b.image]
    local = np.einsum("mij,mj->mi", turn, b.points[b.point])
    rotated = np.einsum("mij,mj->mi", b.turns[group], local)
    seen = rotated + b.shifts[group]
    z = seen[:, 2]
    error = b.focal * seen[:, :2] / z[:, None] - b.at
    weight = 1 / (1 + (error**2).sum(1) / LOSS**2)
    by_seen = np.zeros((len(z), 2, 3))
    by_seen[:, 0, 0] = by_seen[:, 1, 1] = b.focal / z
    by_seen[:, :, 2] = -b.focal * seen[:, :2] / (z * z)[:, None]
    by_turn = -_crossing(rotated)
    by_angle = np.einsum("mij,mj->mi", b.turns[group], np.stack([-local[:, 1], local[:, 0], 0 * z], axis=1))
    own = np.concatenate(
        [by_seen @ by_turn, by_seen, by_seen @ by_angle[..., None], (seen[:, :2] / z[:, None])[..., None]],
        axis=2,
    )
    by_point = by_seen @ b.turns[group] @ turn
    columns = np.concatenate(
        [
            6 * group[:, None] + np.arange(6),
            6 * groups + b.image[:, None],
            np.full((len(z), 1), 6 * groups + views),
        ],
        axis=1,
    )
    size, count = 6 * groups + views + 1, len(b.points)
    weighted = own * weight[:, None, None]
    square = np.zeros((size, size))
    np.add.at(square, (columns[:, :, None], columns[:, None, :]), np.swapaxes(weighted, 1, 2) @ own)
    slope = np.zeros(size)
    np.add.at(slope, columns, np.einsum("mki,mk->mi", weighted, error))
    mixed = np.zeros((count, 3, size))
    np.add.at(
        mixed,
        (b.point[:, None, None], np.arange(3)[None, :, None], columns[:, None, :]),
        np.swapaxes(by_point, 1, 2) @ weighted,
    )
    blocks, point_slope = np.zeros((count, 3, 3)), np.zeros((count, 3))
    np.add.at(blocks, b.point, np.swapaxes(by_point * weight[:, None, None], 1, 2) @ by_point)
    np.add.at(point_slope, b.point, np.einsum("mki,mk->mi", by_point * weight[:, None, None], error))
    blocks += (
        damping * blocks * np.eye(3)
        + 1e-9 * np.eye(3) * (1 + np.trace(blocks, axis1=1, axis2=2))[:, None, None]
    )
    square[np.diag_indices(size)] *= 1 + damping
    square[np.diag_indices(size)] += 1e-9
    inverse = np.linalg.inv(blocks)
    solved = (inverse @ mixed).reshape(-1, size)
    flat = mixed.reshape(-1, size)
    reduced = square - flat.T @ solved
    change = np.linalg.lstsq(reduced, -(slope - solved.T @ point_slope.ravel()), rcond=1e-12)[0]
    moved = -np.einsum("nij,nj->ni", inverse, point_slope + mixed @ change)
    small = change[: 6 * groups].reshape(groups, 6)
    turns = np.stack([_rotation(w) @ turn for w, turn in zip(small[:, :3], b.turns, strict=True)])
    return replace(
        b,
        turns=turns,
        shifts=b.shifts + small[:, 3:],
        angles=b.angles + change[6 * groups : -1],
        focal=float(b.focal + change[-1]),
        points=b.points + moved,
    )


def _crossing(vectors: np.ndarray) -> np.ndarray:
    """Matrices of the cross product with vectors [M, 3], [M, 3, 3]."""
    x, y, z = vectors.T
    zero = np.zeros_like(x)
    return np.stack([zero, -z, y, z, zero, -x, -y, x, zero], axis=1).reshape(-1, 3, 3)


def _rotation(vector: np.ndarray) -> np.ndarray:
    """The rotation of a rotation vector, by the orthogonal matrix nearest to its expansion."""
    cross = _crossing(vector[None])[0]
    u, _, vt = np.linalg.svd(np.eye(3) + cross + 0.5 * cross @ cross)
    return u @ vt
