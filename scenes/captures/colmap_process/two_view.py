"""Verified pairs of images, compared with a model: do their matches fit its poses, and is there parallax?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

MIN_MATCHES = 24  # of a pair that counts
MAX_MATCHES = 300  # of a pair that are looked at
MAX_ERROR = 6.0  # pixels between a match and its epipolar line
MIN_ANGLE = (
    0.01  # radians between two rays, below which their intersection says nothing about front or behind
)
FOCALS = np.geomspace(0.4, 4.0, 12)  # of the longer side, tried for the test of turning on the spot
NEARBY = np.linspace(0.85, 1.17, 9)  # of the best of them, tried next
MAX_PAIRS_TURNED = 400  # pairs on which the focal length of that test is chosen
STILL = 0.008  # of the longer side: residual of a rotation, below which a pair has no parallax
MIN_PAIRED = 0.5  # of the images that must be in a pair for that test
STILL_SHARE = 0.9  # of the images that have no pair with parallax, where the camera only turned


@dataclass(frozen=True)
class VerifiedPairs:
    """Matches between images that survived geometric verification.

    Args:
        ids: of the two images of each pair in COLMAP's database, int [P, 2].
        counts: number of the matches of each pair, int [P].
        matches: rows of the features of both, int [M, 2] for each pair; at most MAX_MATCHES of them, evenly chosen.
        keypoints: positions of the features by image id, float64 [K, 2], pixels.
        sizes: width and height by image id, pixels.
        total: number of pairs that were verified, those with few matches as well.
    """

    ids: np.ndarray
    counts: np.ndarray
    matches: list[np.ndarray]
    keypoints: dict[int, np.ndarray]
    sizes: dict[int, tuple[int, int]]
    total: int

    def points(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        """Matched positions of a pair in both of its images, [M, 2] each."""
        first, second = self.ids[row]
        index = self.matches[row]
        return self.keypoints[int(first)][index[:, 0]], self.keypoints[int(second)][index[:, 1]]

    def chosen(self, rows: np.ndarray) -> VerifiedPairs:
        """Some of the pairs, bool [P]."""
        matches = [index for index, use in zip(self.matches, rows, strict=True) if use]
        return replace(self, ids=self.ids[rows], counts=self.counts[rows], matches=matches)


def read_pairs(pycolmap: Any, database: Path, least: int = MIN_MATCHES) -> VerifiedPairs:
    """The verified pairs with at least some number of matches."""
    with pycolmap.Database.open(str(database)) as opened:
        cameras = {camera.camera_id: (camera.width, camera.height) for camera in opened.read_all_cameras()}
        images = opened.read_all_images()
        keypoints = {
            image.image_id: np.asarray(opened.read_keypoints(image.image_id), np.float64)[:, :2]
            if opened.exists_keypoints(image.image_id)
            else np.zeros((0, 2))
            for image in images
        }
        keys, geometries = opened.read_two_view_geometries()
        retained, counts, matches, total = [], [], [], 0
        for key, geometry in zip(keys, geometries, strict=True):
            index = np.asarray(geometry.inlier_matches, np.int64).reshape(-1, 2)
            total += len(index) > 0
            if len(index) >= least:
                retained.append(pycolmap.pair_id_to_image_pair(key))
                counts.append(len(index))
                matches.append(index[:: -(-len(index) // MAX_MATCHES)])
    sizes = {image.image_id: cameras[image.camera_id] for image in images}
    ids = np.array(retained, np.int64).reshape(-1, 2)
    return VerifiedPairs(ids, np.array(counts, np.int64), matches, keypoints, sizes, total)


def fit_of_pairs(pairs: VerifiedPairs, model: Any) -> np.ndarray:
    """The share of each pair's matches that fits the poses of a model, [P]; NaN: the model lacks one of its images.

    A match fits where its Sampson error is below MAX_ERROR pixels (Hartley and Zisserman 2003, eq. 11.9) and its rays
    meet in front of both cameras.
    """
    placed = {int(key) for key in model.reg_image_ids()}
    poses, rays, focal = {}, {}, {}
    for key in placed:
        image = model.images[key]
        camera = model.cameras[image.camera_id]
        poses[key] = np.asarray(image.cam_from_world().matrix())
        rays[key] = np.asarray(camera.cam_from_img(pairs.keypoints[key]), np.float64).reshape(-1, 2)
        focal[key] = camera.mean_focal_length()
    fit = np.full(len(pairs.ids), np.nan)
    for row, (a, b) in enumerate(pairs.ids.tolist()):
        if a in placed and b in placed:
            index = pairs.matches[row]
            limit = MAX_ERROR / (0.5 * (focal[a] + focal[b]))
            fit[row] = share_that_fits(poses[a], poses[b], rays[a][index[:, 0]], rays[b][index[:, 1]], limit)
    return fit


def share_that_fits(
    first: np.ndarray, second: np.ndarray, a: np.ndarray, b: np.ndarray, limit: float
) -> float:
    """The share of matches that two poses explain; arguments as those of `that_fit`."""
    return float(that_fit(first, second, a, b, limit).mean())


def that_fit(first: np.ndarray, second: np.ndarray, a: np.ndarray, b: np.ndarray, limit: float) -> np.ndarray:
    """Which matches two poses explain, bool [M].

    Args:
        first, second: world to camera of both images, [3, 4].
        a, b: matched directions x/z, y/z in both, [M, 2].
        limit: of the Sampson error, in the same unit.
    """
    turn = second[:, :3] @ first[:, :3].T
    shift = second[:, 3] - turn @ first[:, 3]
    shift = shift / max(float(np.linalg.norm(shift)), 1e-30)
    a, b = (np.concatenate([x, np.ones_like(x[:, :1])], axis=1) for x in (a, b))
    turned = a @ turn.T
    line_b = np.cross(shift, turned)  # the epipolar lines in the second image
    line_a = np.cross(b, shift) @ turn  # and in the first
    across = (line_a[:, :2] ** 2).sum(1) + (line_b[:, :2] ** 2).sum(1)
    error = np.abs((b * line_b).sum(1)) / np.sqrt(np.maximum(across, 1e-30))
    normal = np.cross(turned, b)
    ahead_a = (np.cross(b, shift) * normal).sum(1) > 0
    ahead_b = (np.cross(turned, shift) * normal).sum(1) > 0
    lengths = np.linalg.norm(turned, axis=1) * np.linalg.norm(b, axis=1)
    far = np.linalg.norm(normal, axis=1) < MIN_ANGLE * lengths
    return (error < limit) & ((ahead_a & ahead_b) | far)


def only_turned(pairs: VerifiedPairs) -> bool:
    """Whether the camera turned on the spot: rotations explain the matches of all pairs of nearly all images.

    The focal length that explains most is taken for all of them. Where fewer than half of the images are in a
    pair, nothing can be said of the capture.
    """
    if len(np.unique(pairs.ids)) < max(1, MIN_PAIRED * len(pairs.sizes)):
        return False
    every = -(-len(pairs.ids) // MAX_PAIRS_TURNED)
    sample = range(0, len(pairs.ids), every)
    best = 1.0
    for focals in (FOCALS, NEARBY):
        tried = best * focals
        typical = [np.median(_rotation_residuals(pairs, sample, focal)) for focal in tried]
        best = float(tried[int(np.argmin(typical))])
    residuals = _rotation_residuals(pairs, range(len(pairs.ids)), best)
    largest: dict[int, float] = {}
    for (a, b), residual in zip(pairs.ids.tolist(), residuals, strict=True):
        for key in (a, b):
            largest[key] = max(largest.get(key, 0.0), float(residual))
    return float(np.mean([value < STILL for value in largest.values()])) >= STILL_SHARE


def _rotation_residuals(pairs: VerifiedPairs, rows: Sequence[int] | range, focal: float) -> np.ndarray:
    """What the best rotation leaves of each pair's matches: 80th percentile, in longer sides."""
    out = []
    for row in rows:
        directions = []
        for key, points in zip(pairs.ids[row].tolist(), pairs.points(row), strict=True):
            size = np.array(pairs.sizes[key], np.float64)
            flat = (points - 0.5 * size) / (focal * size.max())
            ray = np.concatenate([flat, np.ones_like(flat[:, :1])], axis=1)
            directions.append(ray / np.linalg.norm(ray, axis=1, keepdims=True))
        a, b = directions
        u, _, vt = np.linalg.svd(b.T @ a)
        turned = a @ (u @ np.diag([1.0, 1.0, np.linalg.det(u @ vt)]) @ vt).T
        out.append(focal * np.percentile(np.linalg.norm(turned - b, axis=1), 80))
    return np.array(out)
