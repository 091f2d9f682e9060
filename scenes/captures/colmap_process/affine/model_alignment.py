"""The similarity between two models of the same object, from matched features of which most may be wrong."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from luxel.scenes.captures.colmap_process.turn_path import Alignment

TRIALS = 4000  # triples of matches
BATCH = 1_000_000  # matches of all triples that are looked at together
TOLERANCE = 6.0  # reprojection error of a match that agrees, pixels
ROUNDS = 5  # of fitting to the matches that agree
MIN_AGREEING = 30  # matches of an alignment
CLEAR = 2.0  # ratio of the agreeing matches to those of the best alignment of all others
MAX_TURNED, MAX_MOVED = np.radians(5.0), 0.1  # of a pose between alignments of halves of the matches


@dataclass(frozen=True)
class MatchedPoints:
    """Matched features that have a point in both of two models; columns are the first and the second model.

    Args:
        points: of the features in the frame of their model, [N, 2, 3].
        poses: world to camera of the images with the features, [N, 2, 3, 4].
        at: directions x/z, y/z of the features in their images, [N, 2, 2].
        focal: mean focal lengths of the images, pixels [N, 2].
        images: ids of the images, int [N, 2].
    """

    points: np.ndarray
    poses: np.ndarray
    at: np.ndarray
    focal: np.ndarray
    images: np.ndarray

    def __len__(self) -> int:
        return len(self.points)

    def chosen(self, rows: np.ndarray) -> MatchedPoints:
        """Some of the matches, bool [N]."""
        parts = (self.points, self.poses, self.at, self.focal, self.images)
        return MatchedPoints(*(part[rows] for part in parts))

    def errors(self, scale: np.ndarray, turn: np.ndarray, shift: np.ndarray) -> np.ndarray:
        """The larger of both reprojection errors, [T, N] pixels, of the point of the other model by the similarities
        x -> scale [T] turn [T, 3, 3] x + shift [T, 3] from the second model to the first; inf: behind a camera."""
        there = scale[:, None, None] * np.einsum("tij,nj->tni", turn, self.points[:, 1]) + shift[:, None]
        back = np.einsum("tji,tnj->tni", turn, self.points[None, :, 0] - shift[:, None])
        back /= scale[:, None, None]
        return np.maximum(self._reprojected(there, 0), self._reprojected(back, 1))

    def _reprojected(self, points: np.ndarray, side: int) -> np.ndarray:
        pose = self.poses[:, side]
        local = np.einsum("nij,tnj->tni", pose[:, :, :3], points) + pose[:, :, 3]
        ahead = local[..., 2] > 1e-9
        at = local[..., :2] / np.where(ahead, local[..., 2], 1.0)[..., None]
        error = self.focal[:, side] * np.linalg.norm(at - self.at[:, side], axis=2)
        return np.where(ahead, error, np.inf)


def sure_alignment(matched: MatchedPoints, poses: np.ndarray, seed: int = 0) -> Alignment | None:
    """The similarity from the second model to the first that the matches agree on beyond doubt.

    Enough matches agree, far more than with any other, and each half of the pairs of images leads to the same.

    Args:
        matched: of both models.
        poses: world to camera of the second model, [V, 3, 4].
        seed: of the triples of matches.

    Returns:
        None: there is none.
    """
    made = align(matched, seed)
    if made is None or made.agreeing < MIN_AGREEING or made.agreeing < CLEAR * made.second:
        return None
    _, pair = np.unique(matched.images, axis=0, return_inverse=True)
    halves = [align(matched.chosen(pair.ravel() % 2 == k), seed, alone=True) for k in (0, 1)]
    return made if all(half is not None and _alike(made, half, poses) for half in halves) else None


def align(matched: MatchedPoints, seed: int = 0, *, alone: bool = False) -> Alignment | None:
    """The similarity from the second model to the first that most matches agree with (RANSAC, Fischler and Bolles
    1981).

    Args:
        matched: of both models.
        seed: of the triples of matches.
        alone: the best of the other similarities is not looked for.

    Returns:
        None: there are fewer than 4 matches, or none agree.
    """
    random = np.random.default_rng([seed, 53])
    best = _best(matched, random)
    if best is None:
        return None
    similarity, agreeing = best
    other = None if alone else _best(matched.chosen(~agreeing), random)
    return Alignment(*similarity, int(agreeing.sum()), 0 if other is None else int(other[1].sum()))


def similarities(moved: np.ndarray, fixed: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scale [T], rotation [T, 3, 3] and shift [T, 3] from moved to fixed points, [T, N, 3] each (Umeyama 1991)."""
    middle, target = moved.mean(1), fixed.mean(1)
    a, b = moved - middle[:, None], fixed - target[:, None]
    u, s, vt = np.linalg.svd(np.einsum("tni,tnj->tij", b, a))
    sign = np.ones_like(s)
    sign[:, 2] = np.sign(np.linalg.det(u @ vt))
    turn = (u * sign[:, None]) @ vt
    scale = (s * sign).sum(1) / np.maximum((a * a).sum((1, 2)), 1e-30)
    return scale, turn, target - scale[:, None] * np.einsum("tij,tj->ti", turn, middle)


def _best(
    matched: MatchedPoints, random: np.random.Generator
) -> tuple[tuple[float, np.ndarray, np.ndarray], np.ndarray] | None:
    """The similarity that most matches agree with, fitted to these, and which they are, bool [N]."""
    count = len(matched)
    if count < 4:
        return None
    most, agreeing, size = 3, None, max(1, BATCH // count)
    for start in range(0, TRIALS, size):
        rows = random.integers(0, count, (min(size, TRIALS - start), 3))
        scale, turn, shift = similarities(matched.points[rows, 1], matched.points[rows, 0])
        fits = matched.errors(np.maximum(scale, 1e-9), turn, shift) < TOLERANCE
        row = int(fits.sum(1).argmax())
        if fits[row].sum() > most:
            most, agreeing = int(fits[row].sum()), fits[row]
    if agreeing is None:
        return None
    fitted = None
    for _ in range(ROUNDS):
        scale, turn, shift = similarities(
            matched.points[None, agreeing, 1], matched.points[None, agreeing, 0]
        )
        fits = matched.errors(np.maximum(scale, 1e-9), turn, shift)[0] < TOLERANCE
        if fits.sum() < 4:
            break
        fitted, agreeing = (float(scale[0]), turn[0], shift[0]), fits
    return None if fitted is None else (fitted, agreeing)


def _alike(made: Alignment, other: Alignment, poses: np.ndarray) -> bool:
    """Whether two alignments lead the poses of the second model to nearly the same places."""
    a, b = (np.stack([one.pose(pose) for pose in poses]) for one in (made, other))
    centres = [-np.einsum("vji,vj->vi", pose[:, :, :3], pose[:, :, 3]) for pose in (a, b)]
    extent = np.median(np.linalg.norm(centres[0] - centres[0].mean(0), axis=1))
    moved = np.linalg.norm(centres[0] - centres[1], axis=1).max()
    cosine = (np.einsum("vij,vij->v", a[:, :, :3], b[:, :, :3]) - 1) / 2
    turned = np.arccos(np.clip(cosine, -1, 1)).max()
    return bool(moved <= MAX_MOVED * extent and turned <= MAX_TURNED)
