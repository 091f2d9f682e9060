"""Structure from motion, triangulation from known poses, and random points."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import luxel.scenes as scenes
from luxel.render.geometry.camera import Camera
from luxel.scenes.captures.colmap_process import features
from luxel.scenes.captures.colmap_process.score import ModelScore, PoseReport
from luxel.scenes.captures.contents import CaptureContents
from luxel.scenes.captures.images.images import ORIENTATION_TAG
from luxel.scenes.captures.initial_points.origins import TRIANGULATED
from luxel.scenes.captures.poses import sfm
from luxel.scenes.captures.poses.sfm import ADVICE
from luxel.scenes.geometry import OPENGL_TO_OPENCV

pytest.importorskip("pycolmap", reason="pycolmap is not installed: structure from motion was not tested")
SIZE = 500  # pixels of the longer side that features are found in here: small, for speed


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "FEATURE_IMAGE_SIZE", SIZE)
    monkeypatch.setattr(features, "FEATURES", 2048)


@pytest.fixture(scope="module")
def fox(shared: Path) -> Path:
    return shared / "captures/fox"


def no_pycolmap(monkeypatch: pytest.MonkeyPatch) -> None:
    original = importlib.util.find_spec

    def missing(name: str, *rest: str) -> object:
        return None if name == "pycolmap" else original(name, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", missing)


def aligned_error(ours: np.ndarray, truth: np.ndarray) -> float:
    """RMS distance of positions [V, 3] after the best similarity (Umeyama 1991), relative to their spread."""
    a, b = ours - ours.mean(0), truth - truth.mean(0)
    u, s, vt = np.linalg.svd(b.T @ a)
    sign = np.diag([1, 1, np.sign(np.linalg.det(u @ vt))])
    scale = (s * np.diag(sign)).sum() / (a**2).sum()
    return float(np.sqrt(((scale * a @ (u @ sign @ vt).T - b) ** 2).sum() / (b**2).sum()))


@pytest.mark.slow
def test_photographs_alone(fox: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names with blanks, a rotated photograph, an unrelated one; then again from the cache."""
    folder = tmp_path / "fox"
    (folder / "images").mkdir(parents=True)
    numbers = ["0001", "0002", "0003", "0004", "0006", "0007", "0008"]
    for number in numbers:
        shutil.copy(fox / f"images/{number}.jpg", folder / f"images/the fox {number}.jpg")
    side = folder / "images/the fox 0004.jpg"
    exif = Image.Exif()
    exif[ORIENTATION_TAG] = 8  # stored turned by 90 degrees; 8 says how to turn it back
    Image.open(side).transpose(Image.Transpose.ROTATE_270).save(side, quality=98, exif=exif)
    noise = np.random.default_rng(0).integers(0, 255, (960, 540, 3), dtype=np.uint8)
    Image.fromarray(noise).save(folder / "images/other.jpg")
    progress: list[tuple[str, float]] = []
    capture = scenes.open(folder, on_progress=lambda stage, fraction: progress.append((stage, fraction)))

    assert {view.name for view in capture.views} == {f"the fox {n}.jpg" for n in numbers}
    assert (
        len(capture.warnings) == 1
        and "7 of 8" in capture.warnings[0]
        and "not these: other.jpg" in capture.warnings[0]
    )
    assert {"finding features", "matching images", "placing images"} <= {stage for stage, _ in progress}
    assert all(0 <= fraction <= 1 for _, fraction in progress)
    assert len(capture.points.xyz) > 300 and capture.format.startswith("photographs")
    assert "7 of 8 images have a pose" in capture.pose_report
    assert all((v.camera.width, v.camera.height) == (540, 960) for v in capture.views)
    assert all(v.read().rgb.shape == (960, 540, 3) for v in capture.views)
    frames = {f["file_path"][7:11]: f for f in json.loads((fox / "transforms.json").read_text())["frames"]}
    truth = np.array([np.array(frames[n]["transform_matrix"])[:3, 3] for n in numbers])
    ours = np.array([view.camera.position.tolist() for view in capture.views])
    assert aligned_error(ours, truth) < 0.05

    no_pycolmap(monkeypatch)
    again = scenes.open(folder)
    assert torch.equal(again.views[3].camera.world_to_cam, capture.views[3].camera.world_to_cam)
    assert np.array_equal(again.points.xyz, capture.points.xyz)
    assert [entry.name[:4] for entry in (folder / ".luxel").iterdir()] == ["sfm-"]
    (folder / "images/other.jpg").unlink()
    with pytest.raises(scenes.CaptureError, match="pip install pycolmap"):
        scenes.open(folder)


def test_photographs_without_features(tmp_path: Path) -> None:
    for number in range(4):
        Image.new("RGB", (64, 48), (number * 40, 90, 90)).save(tmp_path / f"{number}.png")
    with pytest.raises(scenes.CaptureError) as caught:
        scenes.open(tmp_path)
    assert "too little detail (0 features" in str(caught.value)
    assert caught.value.remedy == ADVICE
    assert not (tmp_path / ".luxel").exists()


def test_models_that_contradict_the_photographs_are_refused(tmp_path: Path) -> None:
    score = ModelScore("global", 4, 4, 0.5, 300.0, 4.0, 10, 0.2)
    contents = CaptureContents("photographs", [])
    files: list[Path] = []
    sfm._check_placed(tmp_path, files, contents, PoseReport(score))
    assert "the poses are doubtful" in contents.warnings[0] and ADVICE in contents.warnings[0]
    with pytest.raises(scenes.CaptureError, match=r"no poses could be estimated: only 20%\. Images must"):
        sfm._check_placed(tmp_path, files, contents, PoseReport(score, refusal="only 20%"))


@pytest.mark.slow
def test_few_of_many_are_placed(fox: Path, tmp_path: Path) -> None:
    for number in ("0001", "0002", "0003", "0004"):
        shutil.copy(fox / f"images/{number}.jpg", tmp_path)
    for number in range(8):
        Image.new("RGB", (540, 960), (number, 90, 90)).save(tmp_path / f"blank{number}.jpg")
    with pytest.raises(scenes.CaptureError) as caught:
        scenes.open(tmp_path)
    message = str(caught.value)
    assert (
        "of 12 images could be placed" in message and "blank7.jpg" in message
    ) or "too little detail" in message
    assert caught.value.remedy == ADVICE


def test_too_few_and_damaged_photographs(toy: Path) -> None:
    (toy / "transforms.json").unlink()
    (toy / "images/0009.png").write_bytes((toy / "images/0009.png").read_bytes()[:600])
    with pytest.raises(scenes.CaptureError, match=r"0009\.png: cannot be read as an image: damaged"):
        scenes.open(toy)
    for file in sorted((toy / "images").iterdir())[2:]:
        file.unlink()
    with pytest.raises(scenes.CaptureError, match="2 images are too few"):
        scenes.open(toy)


@pytest.fixture
def posed_fox(fox: Path, tmp_path: Path) -> Path:
    """Twelve photographs with their poses, without points."""
    folder = tmp_path / "posed"
    (folder / "images").mkdir(parents=True)
    document = json.loads((fox / "transforms.json").read_text())
    document["frames"] = document["frames"][:12]
    for frame in document["frames"]:
        shutil.copy(fox / frame["file_path"], folder / frame["file_path"])
    (folder / "transforms.json").write_text(json.dumps(document))
    return folder


def test_points_from_known_poses(posed_fox: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    capture = scenes.open(posed_fox, max_size=SIZE, points="triangulate")
    assert not capture.warnings and capture.points_from == TRIANGULATED and len(capture.points.xyz) > 500
    document = json.loads((posed_fox / "transforms.json").read_text())
    for view, frame in zip(capture.views, document["frames"], strict=True):
        pose = np.array(frame["transform_matrix"]) @ OPENGL_TO_OPENCV
        assert np.allclose(view.camera.cam_to_world.numpy(), pose, atol=1e-4)
    # The colour of a point is that of the photographs where it projects: the points are where they should be.
    differences = []
    for view in capture.views[::3]:
        difference, share = colour_difference(view.camera, view.read().rgb, capture)
        differences.append(difference)
        assert share > 0.5
    assert np.median(differences) < 12
    no_pycolmap(monkeypatch)
    again = scenes.open(posed_fox, max_size=SIZE, points="triangulate")
    assert again.points_from == TRIANGULATED and np.array_equal(again.points.xyz, capture.points.xyz)


def colour_difference(camera: Camera, rgb: np.ndarray, capture: scenes.Capture) -> tuple[float, float]:
    """Median difference of the points' colours to an image where they project, and the share that does."""
    points = np.concatenate([capture.points.xyz, np.ones_like(capture.points.xyz[:, :1])], axis=1)
    local = points @ camera.world_to_cam.numpy().T
    fx, fy, cx, cy = camera.intrinsics.tolist()
    column, row = local[:, 0] / local[:, 2] * fx + cx, local[:, 1] / local[:, 2] * fy + cy
    inside = (local[:, 2] > 0) & (column >= 0) & (column < camera.width) & (row >= 0) & (row < camera.height)
    seen = rgb[row[inside].astype(int), column[inside].astype(int)].astype(float)
    return float(np.median(np.abs(seen - capture.points.rgb[inside]))), float(inside.mean())


def test_random_points_without_pycolmap(posed_fox: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_pycolmap(monkeypatch)
    capture = scenes.open(posed_fox, max_size=100, points="triangulate")
    assert "pycolmap" in capture.warnings[0] and "random points" in capture.warnings[1]
    xyz = capture.points.xyz
    assert 10_000 < len(xyz) <= 50_000 and np.isfinite(xyz).all()
    for view in capture.views:
        assert colour_difference(view.camera, view.read().rgb, capture)[1] > 0.2


def test_random_points_of_a_cutout_are_carved(cutout_toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_pycolmap(monkeypatch)
    known = scenes.open(cutout_toy).points.xyz
    (cutout_toy / "points3D.ply").unlink()
    capture = scenes.open(cutout_toy, points="random")
    xyz = capture.points.xyz
    assert (
        not len(capture.surface_points)
        and len(xyz) > 1000
        and np.abs(xyz).max() < 2.0 < np.abs(known).max() + 0.6
    )
    for view in capture.views:
        alpha = view.read().alpha
        local = xyz @ view.camera.world_to_cam[:3, :3].numpy().T + view.camera.world_to_cam[:3, 3].numpy()
        fx, fy, cx, cy = view.camera.intrinsics.tolist()
        column, row = local[:, 0] / local[:, 2] * fx + cx, local[:, 1] / local[:, 2] * fy + cy
        inside = (column >= 0) & (column < 64) & (row >= 0) & (row < 48)
        assert alpha is not None
        # Not each single one: rounding may put a point on the other side of a pixel's edge.
        assert (alpha[row[inside].astype(int), column[inside].astype(int)] == 255).mean() > 0.999


def test_warning_of_a_missing_point_file(toy: Path, edit_json, monkeypatch: pytest.MonkeyPatch) -> None:
    no_pycolmap(monkeypatch)
    edit_json(toy / "transforms.json", lambda document: document.update(ply_file_path="gone.ply"))
    capture = scenes.open(toy)  # points3D.ply is still there
    assert "gone.ply" in capture.warnings[0] and len(capture.points.xyz) == 600
