"""The synthetic courtyard: exact poses, points on its surfaces, scale, seeds, and both directions of view held out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import luxel.scenes as scenes
from luxel.scenes.files.ply import load_points
from luxel.scenes.synthetic import courtyard_cameras, courtyard_scene, write_courtyard
from luxel.scenes.synthetic.captures.courtyard_solids import RADIUS

VIEWS, POINTS = 18, 1800
SMALL = {"views": VIEWS, "width": 90, "height": 60, "points": POINTS, "device": "cpu"}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Without noise of the points."""
    return write_courtyard(tmp_path_factory.mktemp("place"), noise=0.0, **SMALL)  # type: ignore[arg-type]


def images(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted((folder / "images").iterdir())]


def poses(folder: Path) -> np.ndarray:
    return np.array(
        [f["transform_matrix"] for f in json.loads((folder / "transforms.json").read_text())["frames"]]
    )


def test_opens_with_all_its_views_and_points(written: Path) -> None:
    capture = scenes.open(written)
    assert capture.format == "transforms.json" and capture.warnings == []
    assert (len(capture.train), len(capture.test)) == (15, 3)
    assert capture.points is not None and capture.points.xyz.shape == (POINTS, 3)
    size = {(view.camera.width, view.camera.height) for view in capture.train + capture.test}
    assert size == {(90, 60)}
    for view, camera in zip(capture.test, courtyard_cameras(VIEWS, width=90, height=60)[::8], strict=True):
        assert torch.allclose(view.camera.world_to_cam, camera.world_to_cam, atol=1e-5)
        assert torch.allclose(view.camera.intrinsics, camera.intrinsics)


def test_points_project_onto_their_colours(written: Path) -> None:
    """In the view that they come from and, where nothing occludes them, in all others."""
    capture = scenes.open(written, holdout_every=0)
    scene = courtyard_scene(0, device="cpu", shadow_side=0)
    points = capture.points
    assert points is not None
    own, other, shuffled = [], [], []
    share = POINTS // VIEWS
    for index, view in enumerate(capture.train):
        pose = view.camera.world_to_cam.double().numpy()
        fx, fy, cx, cy = view.camera.intrinsics.double().tolist()
        x, y, z = (points.xyz @ pose[:3, :3].T + pose[:3, 3]).T
        u, v = fx * x / z + cx, fy * y / z + cy
        inside = (z > 0.1) & (u > 0) & (u < 90) & (v > 0) & (v < 60)
        depth = scene.render(view.camera, samples=2).depth.numpy()
        column, row = (np.where(inside, 2 * a, 0).astype(int) for a in (u, v))
        seen = inside & (z < 1.01 * depth[row, column])
        colour = view.read().rgb[row // 2, column // 2].astype(float)
        error = np.abs(colour - points.rgb).mean(axis=1)
        mine = np.arange(POINTS) // share == index
        assert inside[mine].all() and seen[mine].mean() > 0.8
        own.append(error[mine])
        other.append(error[seen & ~mine])
        mixed = np.random.default_rng(0).permutation(np.flatnonzero(seen))
        shuffled.append(np.abs(colour[seen] - points.rgb[mixed]).mean(axis=1))
    assert np.median(np.concatenate(own)) < 4
    others = np.concatenate(other)
    assert len(others) > 2000
    assert np.median(others) < 20 and np.median(others) < 0.4 * np.median(np.concatenate(shuffled))


def test_a_unit_scales_poses_and_points_alone(written: Path, tmp_path: Path) -> None:
    scaled = write_courtyard(tmp_path, noise=0.0, unit=100.0, **SMALL)  # type: ignore[arg-type]
    assert images(scaled) == images(written)
    expected = poses(written)
    expected[:, :3, 3] *= 100
    assert np.allclose(poses(scaled), expected, rtol=1e-12, atol=0)
    ratio = load_points(scaled / "points3D.ply").xyz / load_points(written / "points3D.ply").xyz
    assert np.allclose(ratio, 100, rtol=1e-5)


def test_noise_moves_points_by_its_share_of_the_radius(written: Path, tmp_path: Path) -> None:
    noisy = load_points(write_courtyard(tmp_path, noise=0.002, **SMALL) / "points3D.ply")  # type: ignore[arg-type]
    exact = load_points(written / "points3D.ply")
    assert (noisy.xyz - exact.xyz).std() == pytest.approx(0.002 * RADIUS, rel=0.05)
    assert (noisy.rgb == exact.rgb).all()


def test_a_seed_decides_everything(written: Path, tmp_path: Path) -> None:
    again = write_courtyard(tmp_path / "again", noise=0.0, **SMALL)  # type: ignore[arg-type]
    assert images(again) == images(written)
    assert all(
        (again / f).read_bytes() == (written / f).read_bytes() for f in ("transforms.json", "points3D.ply")
    )
    other = write_courtyard(tmp_path / "other", noise=0.0, seed=1, **SMALL)  # type: ignore[arg-type]
    assert not set(images(other)) & set(images(written)) and not np.allclose(poses(other), poses(written))


@pytest.mark.parametrize("seed", range(4))
def test_most_of_the_place_is_around_the_cameras_and_none_is_inside_a_solid(seed: int) -> None:
    cameras = courtyard_cameras(40, width=12, height=8, seed=seed)
    away = np.array([np.hypot(*camera.position[:2].tolist()) for camera in cameras])
    assert away.min() > 0.2 * RADIUS and away.max() < 0.5 * RADIUS
    scene = courtyard_scene(seed, device="cpu", shadow_side=0)
    assert 100 <= len(scene.solids) <= 130
    depths = []
    for camera in cameras:
        view = scene.render(camera, samples=1)
        assert int(view.ids.min()) >= 0 and float(view.depth.min()) > 0.3
        depths.append(view.depth.median().item())
    assert np.median(depths) > away.max()


def test_views_held_out_look_inward_and_outward() -> None:
    cameras = courtyard_cameras(160, width=12, height=8)
    forward = np.array([camera.cam_to_world[:2, 2].tolist() for camera in cameras])
    place = np.array([camera.position[:2].tolist() for camera in cameras])
    inward = (forward * place).sum(axis=1) < 0
    assert 0.45 < inward.mean() < 0.55 and inward[::8].mean() == 0.5


@pytest.mark.parametrize("change", [{"views": 0}, {"points": 0}, {"unit": 0.0}, {"unit": float("nan")}])
def test_sizes_of_nothing_are_refused(tmp_path: Path, change: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="views and points must be at least 1"):
        write_courtyard(tmp_path, **{**SMALL, **change})  # type: ignore[arg-type]
