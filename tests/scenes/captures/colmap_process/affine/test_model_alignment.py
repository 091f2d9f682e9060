"""The similarity between two models of an object from matches of which most are wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from luxel.scenes.captures.colmap_process.affine.model_alignment import (
    MatchedPoints,
    align,
    similarities,
    sure_alignment,
)

FOCAL = 900.0
SCALE, TURN = 2.5, np.array([[0.0, -1.0, 0.0], [0.8, 0.0, -0.6], [0.6, 0.0, 0.8]])
SHIFT = np.array([3.0, -2.0, 1.0])  # with SCALE and TURN: from the second model to the first


def poses_around(tilt: float, count: int = 8) -> np.ndarray:
    """World to camera of views of the origin from a ring at a height, [count, 3, 4]."""
    out = []
    for angle in np.linspace(0, 2 * np.pi, count, endpoint=False):
        back = np.array([np.cos(angle) * np.cos(tilt), np.sin(angle) * np.cos(tilt), np.sin(tilt)])
        right = np.array([-np.sin(angle), np.cos(angle), 0.0])
        turn = np.stack([right, np.cross(right, back), -back])
        out.append(np.column_stack([turn, [0.0, 0.0, 6.0]]))
    return np.stack(out)


def seen(points: np.ndarray, poses: np.ndarray) -> np.ndarray:
    local = np.einsum("nij,nj->ni", poses[:, :, :3], points) + poses[:, :, 3]
    return local[:, :2] / local[:, 2:]


def matched(right: int, wrong: int, *, other: int = 0, seed: int = 0) -> tuple[MatchedPoints, np.ndarray]:
    """Matches between two rings of views, with poses of the second in its own frame.

    Args:
        right: number of right ones.
        wrong: of points that have nothing to do with each other.
        other: of those that agree with the object turned by a quarter.
    """
    random = np.random.default_rng(seed)
    count = right + wrong + other
    points = random.normal(0, 0.4, (count, 3))
    others = points.copy()
    others[right : right + wrong] = random.normal(0, 0.4, (wrong, 3))
    others[right + wrong :] = others[right + wrong :] @ np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]]).T
    low, high = poses_around(0.1), poses_around(0.8)
    image = random.integers(0, 8, (count, 2))
    at = np.stack([seen(points, low[image[:, 0]]), seen(others, high[image[:, 1]])], axis=1)
    at += random.normal(0, 0.5 / FOCAL, at.shape)
    moved = high.copy()  # in the frame of the second model
    moved[:, :, :3] = high[:, :, :3] @ TURN
    moved[:, :, 3] = (high[:, :, :3] @ SHIFT + high[:, :, 3]) / SCALE
    others = (others - SHIFT) @ TURN / SCALE
    poses = np.stack([low[image[:, 0]], moved[image[:, 1]]], axis=1)
    focal = np.full((count, 2), FOCAL)
    return MatchedPoints(
        np.stack([points, others], axis=1), poses, at, focal, image + np.array([0, 100])
    ), moved


def test_similarities_of_moved_points() -> None:
    points = np.random.default_rng(1).normal(size=(2, 5, 3))
    scale, turn, shift = similarities(points, SCALE * points @ TURN.T + SHIFT)
    np.testing.assert_allclose(scale, SCALE)
    np.testing.assert_allclose(turn, [TURN, TURN], atol=1e-12)
    np.testing.assert_allclose(shift, [SHIFT, SHIFT], atol=1e-12)


def test_a_minority_of_right_matches_aligns_models() -> None:
    matches, poses = matched(80, 160)
    made = sure_alignment(matches, poses)
    assert made is not None and made.agreeing >= 78 and made.second < 20
    assert made.scale == pytest.approx(SCALE, rel=0.01)
    np.testing.assert_allclose(made.turn, TURN, atol=0.01)
    np.testing.assert_allclose(np.stack([made.pose(pose) for pose in poses]), poses_around(0.8), atol=0.05)


@pytest.mark.parametrize(
    ("right", "wrong", "other"), [(0, 240, 0), (20, 160, 0), (60, 60, 50)], ids=["none", "few", "two sides"]
)
def test_models_that_matches_do_not_align_beyond_doubt(right: int, wrong: int, other: int) -> None:
    assert sure_alignment(*matched(right, wrong, other=other)) is None


def test_matches_of_one_pair_alone_are_not_enough() -> None:
    matches, poses = matched(80, 40)
    images = matches.images.copy()
    images[:80] = (0, 100)
    one_pair = replace(matches, images=images)
    made = align(one_pair)
    assert made is not None and made.agreeing >= 78
    assert sure_alignment(one_pair, poses) is None


def test_three_matches_are_too_few() -> None:
    assert align(matched(3, 0)[0]) is None


def test_a_point_behind_a_camera_does_not_agree() -> None:
    matches, _ = matched(10, 0)
    scale, turn, shift = np.array([SCALE]), TURN[None], SHIFT[None]
    assert matches.errors(scale, turn, shift).max() < 6
    assert np.isinf(matches.errors(scale, turn, shift + np.array([0.0, 0.0, 100.0]))).any()
