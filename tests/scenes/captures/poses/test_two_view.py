"""Pairs of photographs against poses: what fits, and whether there is parallax."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from luxel.scenes.captures.colmap_process.two_view import VerifiedPairs, only_turned, share_that_fits

WIDTH, HEIGHT, FOCAL = 640, 480, 600.0


def turn(angle: float, axis: int = 1) -> np.ndarray:
    c, s = np.cos(angle), np.sin(angle)
    rotation = np.eye(3)
    a, b = [(1, 2), (0, 2), (0, 1)][axis]
    rotation[a, a], rotation[a, b], rotation[b, a], rotation[b, b] = c, s, -s, c
    return rotation


def pose(angle: float, centre: tuple[float, float, float]) -> np.ndarray:
    """World to camera, [3, 4]."""
    rotation = turn(angle)
    return np.concatenate([rotation, -rotation @ np.array(centre)[:, None]], axis=1)


def directions(matrix: np.ndarray, points: np.ndarray) -> np.ndarray:
    local = points @ matrix[:, :3].T + matrix[:, 3]
    return local[:, :2] / local[:, 2:]


def test_matches_fit_right_poses_only() -> None:
    random = np.random.default_rng(0)
    points = random.uniform((-1, -1, 4), (1, 1, 7), (200, 3))
    first, second = pose(0.0, (0, 0, 0)), pose(0.1, (1.0, 0.2, 0))
    a, b = directions(first, points), directions(second, points)
    limit = 2 / FOCAL
    assert share_that_fits(first, second, a, b, limit) == 1
    assert share_that_fits(first, second, a, random.permutation(b), limit) < 0.3
    assert share_that_fits(first, pose(0.5, (1.0, 0.2, 0)), a, b, limit) < 0.3
    # The other side of the base line has the same epipolar lines, but rays meet behind the cameras.
    assert share_that_fits(first, pose(0.1, (-1.0, -0.2, 0)), a, b, limit) < 0.1
    far = 1e5 * points
    assert share_that_fits(first, second, directions(first, far), directions(second, far), limit) == 1


def pairs_of(centres: np.ndarray, angles: np.ndarray) -> VerifiedPairs:
    """Neighbouring photographs of points in a room, with noise of half a pixel."""
    random = np.random.default_rng(1)
    points = random.uniform((-4, -1, 2.5), (4, 1, 8), (400, 3))
    keypoints, sizes = {}, {}
    for key, (centre, angle) in enumerate(zip(centres, angles, strict=True), 1):
        flat = directions(pose(angle, tuple(centre)), points) * FOCAL + (WIDTH / 2, HEIGHT / 2)
        keypoints[key] = flat + random.normal(0, 0.5, flat.shape)
        sizes[key] = (WIDTH, HEIGHT)
    ids, matches = [], []
    for key in range(1, len(centres)):
        inside = [
            (keypoints[k] >= 0).all(1) & (keypoints[k] < (WIDTH, HEIGHT)).all(1) for k in (key, key + 1)
        ]
        ids.append((key, key + 1))
        matches.append(np.repeat(np.nonzero(inside[0] & inside[1])[0][:, None], 2, axis=1))
    counts = np.array([len(index) for index in matches])
    return VerifiedPairs(np.array(ids), counts, matches, keypoints, sizes, len(ids))


@pytest.mark.parametrize(("step", "still"), [(0.0, True), (0.25, False)])
def test_turning_on_the_spot(step: float, still: bool) -> None:
    angles = np.linspace(-0.4, 0.4, 9)
    centres = np.zeros((9, 3))
    centres[:, 0] = step * np.arange(9)
    assert only_turned(pairs_of(centres, angles)) == still


def test_without_pairs_nothing_is_known() -> None:
    assert not only_turned(VerifiedPairs(np.zeros((0, 2), int), np.zeros(0, int), [], {}, {}, 0))


def test_a_few_pairs_say_nothing_of_many_photographs() -> None:
    pairs = pairs_of(np.zeros((9, 3)), np.linspace(-0.4, 0.4, 9))
    assert only_turned(pairs)
    more = pairs.sizes | {key: (WIDTH, HEIGHT) for key in range(100, 110)}
    assert not only_turned(replace(pairs, sizes=more))
