"""Generated captures whose poses are exact."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import luxel.scenes as scenes
from luxel.scenes.captures.colmap_process import features
from luxel.scenes.captures.poses.pose_refinement import similarity
from luxel.scenes.synthetic.captures.pose_captures import POSE_CAPTURES, SOLVABLE, write_pose_capture


@pytest.mark.parametrize("kind", [*SOLVABLE])
def test_cameras_move_and_a_capture_differs_from_view_to_view(kind: str, tmp_path: Path) -> None:
    views = POSE_CAPTURES[kind](12, 64, 48, 0)
    centres = np.array([view.camera.position.tolist() for view in views])
    assert len(views) == 12 and np.linalg.norm(centres - centres.mean(0), axis=1).min() > 0.1
    folder = write_pose_capture(tmp_path / kind, kind, views=3, width=64, height=48)
    capture = scenes.open(folder, holdout_every=0)
    images = [view.read().rgb.astype(float) for view in capture.views]
    assert all(image.std() > 8 for image in images)
    assert np.abs(images[0] - images[1]).mean() > 2


def test_a_turntable_turns_the_object_and_not_the_camera() -> None:
    views = POSE_CAPTURES["turntable"](8, 64, 48, 0)
    assert len({tuple(view.visible_from.position.tolist()) for view in views}) == 1
    for view in views:
        # A point of the object has the same place in the image by either description.
        turned, first = view.solids[-1], views[0].solids[-1]
        pixels = []
        for camera, centre in ((view.visible_from, turned.centre), (view.camera, first.centre)):
            local = camera.world_to_cam.double().numpy()[:3] @ (*centre, 1)
            pixels.append(local[:2] / local[2])
        assert np.allclose(*pixels, atol=1e-5)


def test_the_camera_turns_on_the_spot() -> None:
    centres = [view.camera.position.tolist() for view in POSE_CAPTURES["spot"](9, 64, 48, 0)]
    assert np.ptp(centres, axis=0).max() < 1e-5


def test_unknown_kinds(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="kind must be one of ring"):
        write_pose_capture(tmp_path, "tunnel")


def photographs_of(
    tmp_path: Path, kind: str, views: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, Path]:
    """A capture with exact poses, and a folder of its photographs alone."""
    pytest.importorskip("pycolmap", reason="pycolmap is not installed: no poses were estimated")
    monkeypatch.setattr(features, "FEATURES", 2048)
    folder = write_pose_capture(tmp_path / kind, kind, views=views, width=400, height=300)
    alone = tmp_path / "alone"
    shutil.copytree(folder / "images", alone)
    return folder, alone


@pytest.mark.slow
def test_a_ring_is_placed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, alone = photographs_of(tmp_path, "ring", 16, monkeypatch)
    truth = np.array([view.camera.position.tolist() for view in scenes.open(folder).views])
    capture = scenes.open(alone)
    ours = np.array([view.camera.position.tolist() for view in capture.views])
    assert len(ours) == len(truth)
    scale, turn, shift = similarity(ours, truth)
    assert np.linalg.norm(scale * ours @ turn.T + shift - truth, axis=1).max() < 0.01 * 3.4
    assert "16 of 16 images" in capture.pose_report


@pytest.mark.slow
def test_a_camera_that_only_turns_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, alone = photographs_of(tmp_path, "spot", 16, monkeypatch)
    with pytest.raises(scenes.CaptureError, match="turned on the spot"):
        scenes.open(alone)
