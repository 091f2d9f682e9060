"""Lenses with more parameters are kept where they fit better and are plausible."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from luxel.scenes.captures.colmap_process import lens_refinement
from luxel.scenes.captures.colmap_process.lens_refinement import (
    can_be_inverted,
    is_plausible,
    refine_lens,
    with_invertible_lenses,
    with_principal_point,
)

pycolmap = pytest.importorskip("pycolmap", reason="pycolmap is not installed: lenses were not refined")


def synthetic(model: str, parameters: list[float], images: int = 16) -> Any:
    """A model whose lens fits exactly."""
    options = pycolmap.SyntheticDatasetOptions()
    options.num_rigs, options.num_cameras_per_rig, options.num_frames_per_rig = 1, 1, images
    options.num_points3D = 300
    options.camera_model_id = getattr(pycolmap.CameraModelId, model)
    options.camera_width, options.camera_height = 1024, 768
    options.camera_params = parameters
    pycolmap.set_random_seed(0)
    return pycolmap.synthesize_dataset(options)


@pytest.mark.parametrize(("offset", "kept"), [(12.0, True), (200.0, False)])
def test_principal_point_is_refined_within_bounds(offset: float, kept: bool) -> None:
    """A wrong principal point becomes the right one, unless that is far off."""
    model = synthetic("PINHOLE", [900.0, 900.0, 512.0 + offset, 384.0 - 0.5 * offset])
    for camera in model.cameras.values():
        camera.params = [900.0, 900.0, 512.0, 384.0]
    model.update_point_3d_errors()
    refined = with_principal_point(pycolmap, model)
    assert (refined is not model) == kept
    if kept:
        (camera,) = refined.cameras.values()
        assert np.allclose(camera.params[2:4], [512 + offset, 384 - 0.5 * offset], atol=0.5)


def test_a_principal_point_stays_where_only_noise_would_move_it() -> None:
    model = synthetic("PINHOLE", [900.0, 900.0, 512.0, 384.0])
    random = np.random.default_rng(0)
    for image in model.images.values():
        for point in image.points2D:
            point.xy = point.xy + random.normal(0, 0.5, 2)
    lens_refinement.adjust(pycolmap, model)
    freed = pycolmap.Reconstruction(model)
    lens_refinement.adjust(pycolmap, freed, principal_point=True)
    freed.update_point_3d_errors()
    gain = 1 - freed.compute_mean_reprojection_error() / model.compute_mean_reprojection_error()
    assert 0 < gain < lens_refinement.MIN_CENTRE_GAIN  # the noise does fit a little better
    assert with_principal_point(pycolmap, model) is model


@pytest.mark.parametrize(("images", "kept"), [(16, True), (8, False)])
def test_a_simple_lens_becomes_a_richer_one_where_it_is_determined(images: int, kept: bool) -> None:
    truth = [900.0, 890.0, 512.0, 384.0, 0.08, -0.05, 0.004, -0.003]
    model = synthetic("OPENCV", truth, images)
    for camera in model.cameras.values():
        camera.model = pycolmap.CameraModelId.SIMPLE_RADIAL
        camera.params = [895.0, 512.0, 384.0, 0.0]
    model.update_point_3d_errors()
    refined = refine_lens(pycolmap, model)
    (camera,) = refined.cameras.values()
    assert (camera.model_name == "OPENCV") == kept
    if kept:
        assert refined.compute_mean_reprojection_error() < 0.05
        assert np.allclose(camera.params[4:6], truth[4:6], atol=0.01)
    else:
        assert refined is model


@pytest.mark.parametrize(
    ("change", "plausible"),
    [
        ({}, True),
        ({0: 1300.0, 1: 1300.0}, False),  # another focal length
        ({1: 1000.0}, False),  # pixels that are not square
        ({2: 600.0}, False),  # a middle far off
        ({4: -1.2}, False),  # folds the image
    ],
)
def test_implausible_lenses(change: dict[int, float], plausible: bool) -> None:
    before = pycolmap.Camera.create_from_model_name(1, "OPENCV", 900.0, 1024, 768)
    camera = pycolmap.Camera.create_from_model_name(1, "OPENCV", 900.0, 1024, 768)
    values = list(camera.params)
    for index, value in change.items():
        values[index] = value
    camera.params = values
    assert is_plausible(camera, before) == plausible


@pytest.mark.parametrize(("images", "k"), [(16, -0.62), (8, -0.62), (8, -2.0)])
def test_a_lens_that_cannot_be_inverted_is_estimated_again_without_distortion(images: int, k: float) -> None:
    """The images of a pinhole, whose lens was estimated with a distortion that folds their corners."""
    model = synthetic("SIMPLE_PINHOLE", [900.0, 512.0, 384.0], images)
    for camera in model.cameras.values():
        camera.model = pycolmap.CameraModelId.SIMPLE_RADIAL
        camera.params = [900.0, 512.0, 384.0, k]
        assert not can_be_inverted(camera)
    model.update_point_3d_errors()
    fixed = with_invertible_lenses(pycolmap, model)
    (camera,) = fixed.cameras.values()
    assert camera.model_name == "SIMPLE_PINHOLE" and can_be_inverted(camera)
    assert abs(camera.focal_length_x - 900) < 0.5 and fixed.compute_mean_reprojection_error() < 0.05
    for lens in refine_lens(pycolmap, model).cameras.values():
        assert can_be_inverted(lens)


def test_a_richer_lens_that_cannot_be_inverted_is_not_plausible() -> None:
    """Coefficients that grow outwards along one diagonal, but fold the image at a border."""
    before = pycolmap.Camera.create_from_model_name(1, "OPENCV", 900.0, 1024, 768)
    camera = pycolmap.Camera.create_from_model_name(1, "OPENCV", 900.0, 1024, 768)
    camera.params = [900.0, 900.0, 512.0, 384.0, -0.5, 0.05, 0.3, 0.3]
    assert lens_refinement._grows_outwards(camera) and not can_be_inverted(camera)
    assert not is_plausible(camera, before)
