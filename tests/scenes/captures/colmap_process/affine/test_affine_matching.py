"""Matches of features of simulated views, on made images and on made descriptors."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from test_simulated_views import grain

from luxel.scenes.captures.colmap_process.affine import simulated_views
from luxel.scenes.captures.colmap_process.affine.matching import matches
from luxel.scenes.captures.colmap_process.affine.simulated_views import AffineFeatures, affine_features

MAP = np.array([[0.55, 0.1, 6.0], [0.0, 1.0, 3.0]])  # a surface that turned away by some 57 degrees


def right_matches() -> int:
    """Number of matches of an image and its compressed copy that are within 2 pixels of the truth."""
    image = grain((150, 200))
    squeezed = cv2.warpAffine(cv2.GaussianBlur(image, (0, 0), 1.2, sigmaY=0.01), MAP, (140, 160))
    first, second = affine_features(image), affine_features(squeezed)
    rows = matches(first, second)
    expected = (first.positions[rows[:, 0]] - 0.5) @ MAP[:, :2].T + MAP[:, 2] + 0.5
    return int((np.linalg.norm(expected - second.positions[rows[:, 1]], axis=1) < 2).sum())


def test_simulated_views_match_what_turned_away(monkeypatch: pytest.MonkeyPatch) -> None:
    with_views = right_matches()
    monkeypatch.setattr(simulated_views, "TILTS", ())
    assert with_views >= 2 * right_matches() and with_views >= 60


def made(
    positions: list[tuple[float, float]], descriptors: list[list[float]], feature: list[int]
) -> AffineFeatures:
    rows = np.array(descriptors, np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return AffineFeatures(np.array(positions, np.float64), rows, np.array(feature))


def test_the_most_similar_descriptors_of_two_features_decide() -> None:
    first = made([(10, 10), (60, 60)], [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1]], [0, 0, 1])
    second = made([(70, 70), (20, 20)], [[0, 0, 0.1, 1], [0, 0, 1, 0], [0, 1, 0.1, 0]], [0, 1, 1])
    assert matches(first, second).tolist() == [[0, 1], [1, 0]]


def test_a_feature_that_looks_like_two_apart_has_no_match() -> None:
    first = made([(10, 10), (60, 60)], [[1, 0, 0, 0], [0, 1, 0, 0]], [0, 1])
    apart = made([(20, 20), (70, 70), (90, 20)], [[1, 0.1, 0, 0], [1, 0, 0.1, 0], [0, 0, 0, 1]], [0, 1, 2])
    near = made([(20, 20), (21, 21), (90, 20)], [[1, 0.1, 0, 0], [1, 0, 0.1, 0], [0, 0, 0, 1]], [0, 1, 2])
    assert 0 not in matches(first, apart)[:, 0] and 0 in matches(first, near)[:, 0]


def test_images_without_features_have_no_matches() -> None:
    empty = AffineFeatures(np.zeros((0, 2)), np.zeros((0, 128), np.float32), np.zeros(0, np.int64))
    assert matches(empty, empty).shape == (0, 2)
