"""Where pages of scenes without cameras begin: near what is densest, and with an open view of it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from luxel.scenes.synthetic.toy import torus_knot
from luxel.viewer.web.densest import standpoint
from luxel.viewer.web.navigate import find_extent, first_pose

UP = np.array([0.0, 0.0, 1.0])
HALF = np.array([4.0, 3.0, 1.5])  # of the room
SUBJECT = np.array([1.0, -1.0, -0.8])


def room(random: np.random.Generator, count: int = 20_000) -> np.ndarray:
    """Points on the walls, the floor and the ceiling."""
    points = random.uniform(-1, 1, (count, 3)) * HALF
    axes, signs = random.integers(0, 3, count), random.choice([-1, 1], count)
    points[np.arange(count), axes] = signs * HALF[axes]
    return points


def shreds(random: np.random.Generator, count: int = 8_000) -> np.ndarray:
    """Points far outside of the room."""
    return random.normal(0, 25, (count, 3))


def within_room(point: np.ndarray) -> bool:
    return bool((np.abs(point) < HALF).all())


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("size", [0.15, 0.3])
def test_a_subject_in_a_room_among_shreds_is_looked_at_from_inside(seed: int, size: float) -> None:
    random = np.random.default_rng(seed)
    subject = SUBJECT + random.normal(0, size, (12_000, 3))
    points = np.concatenate([room(random), subject, shreds(random)])
    extent = find_extent([], lambda: torch.from_numpy(points), UP)
    pose = first_pose([], extent)
    np.testing.assert_allclose(extent.centre, SUBJECT, atol=0.5 * size)
    assert within_room(pose.position), pose.position
    distance = float(np.linalg.norm(pose.position - SUBJECT))
    assert 1.5 * size < distance < 10 * size, "the subject fills a part of the image"
    away = (points - pose.position) @ pose.rotation[:, 2]
    aside = np.linalg.norm(points - pose.position - away[:, None] * pose.rotation[:, 2], axis=1)
    between = (away > 0) & (away < distance - 2.5 * size) & (aside < 0.1 * away)
    assert between.mean() < 1e-3, "little lies before it"


def test_a_room_among_shreds_is_looked_at_from_inside() -> None:
    random = np.random.default_rng(0)
    points = np.concatenate([room(random), shreds(random)])
    seen_from = standpoint(points, UP)
    assert seen_from is not None
    assert within_room(seen_from.centre + seen_from.distance * seen_from.direction)


def test_an_object_is_looked_at_from_outside() -> None:
    random = np.random.default_rng(0)
    for points in (random.normal(0, 1, (5000, 3)), room(random), torus_knot(5000).means.numpy()):
        assert standpoint(points, UP) is None
    apart = np.array([[0.0, 0, 0], [9, 0, 0]]).repeat(4000, axis=0)
    beside = apart + random.normal(0, 1, (8000, 3))
    assert standpoint(beside, UP) is None, "both are shown"
    assert standpoint(np.zeros((500, 3)), UP) is None and standpoint(np.zeros((0, 3)), UP) is None


def test_the_front_that_a_scene_names_stays() -> None:
    random = np.random.default_rng(0)
    points = np.concatenate([room(random), SUBJECT + random.normal(0, 0.2, (12_000, 3)), shreds(random)])
    front = np.array([0.0, 1.0, 0.0])
    extent = find_extent([], lambda: torch.from_numpy(points), UP, front)
    assert extent.front is front and extent.radius > 3
