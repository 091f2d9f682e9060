"""Given poses that are a little wrong are refined."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import luxel.scenes as scenes
from luxel.render.geometry.camera import Camera
from luxel.render.storage.manifest import NAME as MANIFEST
from luxel.scenes.captures.colmap_process import features
from luxel.scenes.captures.images.images import ImageReader
from luxel.scenes.captures.lenses.lens import Lens
from luxel.scenes.captures.poses import pose_refinement
from luxel.scenes.captures.poses.pose_refinement import similarity

pytest.importorskip("pycolmap", reason="pycolmap is not installed: poses were not refined")
COUNT, SIZE = 12, 500


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "FEATURE_IMAGE_SIZE", SIZE)
    monkeypatch.setattr(features, "FEATURES", 2048)


@pytest.fixture
def disturbed(shared: Path, tmp_path: Path) -> tuple[Path, np.ndarray]:
    """Twelve photographs whose poses are off by half a degree and 1 % of the extent, and the right centres."""
    fox, folder = shared / "captures/fox", tmp_path / "fox"
    (folder / "images").mkdir(parents=True)
    document = json.loads((fox / "transforms.json").read_text())
    document["frames"] = document["frames"][:COUNT]
    random = np.random.default_rng(0)
    truth = np.array([np.array(frame["transform_matrix"])[:3, 3] for frame in document["frames"]])
    extent = np.linalg.norm(truth - truth.mean(0), axis=1).mean()
    for frame in document["frames"]:
        shutil.copy(fox / frame["file_path"], folder / frame["file_path"])
        pose = np.array(frame["transform_matrix"])
        x, y, z = np.radians(0.5) * random.normal(size=3) / np.sqrt(3)
        small = np.array([[1, -z, y], [z, 1, -x], [-y, x, 1]])
        u, _, vt = np.linalg.svd(small)
        pose[:3, :3] = u @ vt @ pose[:3, :3]
        pose[:3, 3] += 0.02 * extent * random.normal(size=3) / np.sqrt(3)
        frame["transform_matrix"] = pose.tolist()
    (folder / "transforms.json").write_text(json.dumps(document))
    return folder, truth


def centre_error(capture: scenes.Capture, truth: np.ndarray) -> float:
    ours = np.array([view.camera.position.tolist() for view in capture.views])
    scale, turn, shift = similarity(ours, truth)
    return float(np.linalg.norm(scale * ours @ turn.T + shift - truth, axis=1).mean())


@pytest.mark.slow
def test_disturbed_poses_come_back(disturbed: tuple[Path, np.ndarray]) -> None:
    folder, truth = disturbed
    kept = scenes.open(folder, max_size=SIZE)
    refined = scenes.open(folder, max_size=SIZE, poses="refine")
    assert not kept.pose_report and "were refined: reprojection error" in refined.pose_report
    assert centre_error(refined, truth) < 0.4 * centre_error(kept, truth)
    # The gauge is that of the given poses: centres moved no further than the disturbance.
    moved = [a.camera.position - b.camera.position for a, b in zip(kept.views, refined.views, strict=True)]
    assert max(float(m.norm()) for m in moved) < 4 * centre_error(kept, truth)
    again = scenes.open(folder, max_size=SIZE, poses="refine")
    assert again.pose_report == refined.pose_report  # from the cache


@pytest.mark.slow
def test_poses_of_other_photographs_are_refused(
    disturbed: tuple[Path, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pose_refinement, "MIN_POINTS", 10**7)
    with pytest.raises(scenes.CaptureError, match="points of the images agree with the given poses"):
        scenes.open(disturbed[0], max_size=SIZE, poses="refine")


def test_unknown_use_of_poses(toy: Path) -> None:
    with pytest.raises(scenes.CaptureError, match="poses='guess' is invalid"):
        scenes.open(toy, poses="guess")


def test_similarity() -> None:
    random = np.random.default_rng(0)
    points = random.normal(size=(9, 3))
    u, _, vt = np.linalg.svd(random.normal(size=(3, 3)))
    rotation = u @ np.diag([1, 1, np.linalg.det(u @ vt)]) @ vt
    scale, turn, shift = similarity(points, 2.5 * points @ rotation.T + (1, 2, 3))
    assert np.isclose(scale, 2.5) and np.allclose(turn, rotation) and np.allclose(shift, (1, 2, 3))


def test_cached_poses_of_other_cameras_are_computed_again(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of the right name, as a stranger may have made it."""
    computed = []

    def refine(posed: list, given: np.ndarray, on_progress: object) -> tuple[np.ndarray, np.ndarray]:
        computed.append(len(given))
        return given, np.array([2.0, 3.0])

    monkeypatch.setattr(pose_refinement, "_refine", refine)
    Image.new("RGB", (16, 12)).save(tmp_path / "0.png")
    camera = Camera.look_at((1.0, 0.0, 1.0), (0, 0, 0), width=16, height=12)
    posed = [(camera, ImageReader(tmp_path / "0.png", Lens(16, 12, 20.0, 20.0, 8.0, 6.0), 16, 12))]

    def read() -> int:
        poses, text = pose_refinement.refined_poses(tmp_path, posed, on_progress=lambda *_: None)
        assert "does not lower their error of 2.00 pixels" in text and poses.shape == (1, 4, 4)
        return len(computed)

    assert [read(), read()] == [1, 1]
    (stored,) = (tmp_path / ".luxel").glob("poses-*.npz")
    (tmp_path / ".luxel" / MANIFEST).unlink()
    np.savez(stored, poses=np.full((1, 4, 4), np.nan), errors=np.array([2.0, 1.0]))
    assert [read(), read()] == [2, 2] and len(list(own_cache.rglob(stored.name))) == 1
