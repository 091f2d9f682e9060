"""Features of an image and of its simulated views, on made images."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from luxel.scenes.captures.colmap_process.affine import simulated_views as subject
from luxel.scenes.captures.colmap_process.affine.simulated_views import (
    affine_features,
    merged,
    simulated_views,
)


def grain(size: tuple[int, int], seed: int = 0) -> np.ndarray:
    """Blurred noise of all sizes, uint8 [H, W]."""
    random = np.random.default_rng(seed)
    total = sum(
        scale * cv2.GaussianBlur(random.standard_normal(size).astype(np.float32), (0, 0), scale)
        for scale in (1.5, 3.0, 6.0)
    )
    return np.clip(128 + 40 * total, 0, 255).astype(np.uint8)


def test_maps_of_simulated_views_lead_back_to_the_image() -> None:
    image = np.zeros((90, 140), np.uint8)
    cv2.circle(image, (101, 33), 5, 255, -1)
    errors = []
    for view, to_image in simulated_views(image):
        rows, columns = np.indices(view.shape)
        weight = view.astype(np.float64)
        spot = np.array([(columns * weight).sum(), (rows * weight).sum()]) / weight.sum()
        errors.append(np.linalg.norm(to_image[:, :2] @ spot + to_image[:, 2] - (101, 33)))
    assert len(errors) == round(180 / (subject.TURN / 2))
    assert max(errors) < 0.6, errors


def test_a_tilted_view_is_half_as_wide() -> None:
    shapes = [view.shape for view, _ in simulated_views(np.zeros((60, 100), np.uint8))]
    assert shapes[0] == (60, 50)  # the first direction is along the rows


def test_points_of_the_same_spot_are_merged_with_the_first() -> None:
    chosen, owner = merged(np.array([[5.0, 5.0], [9.0, 5.0], [5.4, 5.3], [8.9, 5.6], [6.1, 5.0]]), 1.0)
    assert chosen.tolist() == [0, 1, 4] and owner.tolist() == [0, 1, 0, 1, 2]


def test_features_have_descriptors_of_several_views() -> None:
    actual = affine_features(grain((120, 160)))
    per_feature = np.bincount(actual.feature)
    assert len(per_feature) == len(actual.positions) > 100
    assert per_feature.min() >= 1 and per_feature.max() >= 3
    assert (np.diff(actual.feature) >= 0).all()
    np.testing.assert_allclose(np.linalg.norm(actual.descriptors, axis=1), 1.0, atol=1e-4)
    assert ((actual.positions >= 0) & (actual.positions < (160, 120))).all()


def test_positions_are_of_the_image_and_not_of_the_enlarged_one() -> None:
    image = np.full((80, 120), 60, np.uint8)
    for x, y in ((30, 20), (80, 30), (60, 60)):
        cv2.circle(image, (x, y), 4, 220, -1, cv2.LINE_AA)
    actual = affine_features(image)
    for x, y in ((30.5, 20.5), (80.5, 30.5), (60.5, 60.5)):  # the centre of the first pixel is 0.5
        assert np.linalg.norm(actual.positions - (x, y), axis=1).min() < 0.3


def test_masked_pixels_have_no_features() -> None:
    mask = np.zeros((120, 160), bool)
    mask[:, 80:] = True
    actual = affine_features(grain((120, 160)), mask)
    assert len(actual.positions) > 50 and (actual.positions[:, 0] >= 80).all()
    assert actual.feature.max() == len(actual.positions) - 1


@pytest.mark.parametrize("size", [(1, 1), (40, 40)])
def test_an_image_without_detail_has_no_features(size: tuple[int, int]) -> None:
    actual = affine_features(np.full(size, 90, np.uint8))
    assert (
        actual.positions.shape == (0, 2) and actual.descriptors.shape == (0, 128) and len(actual.feature) == 0
    )
