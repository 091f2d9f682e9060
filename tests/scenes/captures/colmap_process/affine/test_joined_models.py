"""Models of two parts of a scene, joined by their matches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from luxel.scenes.captures.colmap_process import features
from luxel.scenes.captures.colmap_process.affine.joined_models import join_models
from luxel.scenes.captures.colmap_process.model_parts import poses_of
from luxel.scenes.captures.poses.pose_refinement import similarity

pycolmap = pytest.importorskip("pycolmap", reason="pycolmap is not installed: no models were joined")
IMAGES, FIRST = 20, 11


@pytest.fixture
def scene(tmp_path: Path) -> tuple[Path, Any, list[Any]]:
    """A folder with the database of a generated scene, its true model, and models of two parts of it; the second has
    another frame and unit."""
    (tmp_path / "images").mkdir()
    pycolmap.set_random_seed(0)
    options = pycolmap.SyntheticDatasetOptions()
    options.num_rigs, options.num_cameras_per_rig, options.num_frames_per_rig = 1, 1, IMAGES
    options.num_points3D, options.match_sparsity = 300, 0.6
    with features.quiet(pycolmap), pycolmap.Database.open(str(tmp_path / "database.db")) as opened:
        truth = pycolmap.synthesize_dataset(options, opened)
    ids = sorted(truth.reg_image_ids())
    parts = [part(truth, set(ids[:FIRST])), part(truth, set(ids[FIRST:]))]
    turn = pycolmap.Rotation3d(np.array([0.5, 0.5, 0.5, 0.5]))
    parts[1].transform(pycolmap.Sim3d(0.4, turn, np.array([3.0, -1.0, 2.0])))
    return tmp_path, truth, parts


def part(truth: Any, ids: set[int]) -> Any:
    """A model of some images, with the points that two of them see."""
    model = pycolmap.Reconstruction(truth)
    for key in truth.reg_image_ids():
        if key not in ids:
            model.deregister_frame(model.images[key].frame_id)
    return model


def test_a_part_in_another_frame_and_unit_is_joined(scene: tuple[Path, Any, list[Any]]) -> None:
    folder, truth, (first, second) = scene
    before = first.num_reg_images()
    with features.quiet(pycolmap):
        joined = join_models(
            pycolmap, folder, folder / "database.db", first, [second], lambda stage, share: None
        )
    assert joined is not None and joined.num_reg_images() == IMAGES
    assert first.num_reg_images() == before
    right, made = poses_of(truth), poses_of(joined)
    centres = [
        np.stack([-pose[:, :3].T @ pose[:, 3] for _, pose in sorted(poses.items())])
        for poses in (right, made)
    ]
    scale, turn, shift = similarity(centres[1], centres[0])
    extent = np.linalg.norm(centres[0] - centres[0].mean(0), axis=1).mean()
    assert np.abs(scale * centres[1] @ turn.T + shift - centres[0]).max() < 0.01 * extent


def test_a_part_that_adds_nothing_or_has_no_matches_is_left_out(scene: tuple[Path, Any, list[Any]]) -> None:
    folder, truth, (first, second) = scene
    rest = folder / "database.db", truth, [first, second], lambda stage, share: None
    assert join_models(pycolmap, folder, *rest) is None
    with pycolmap.Database.open(str(folder / "database.db")) as opened:
        opened.clear_matches()
    assert join_models(pycolmap, folder, folder / "database.db", first, [second], rest[3]) is None
