"""Depth from points: what a view sees of a cloud, and the tracks of a COLMAP model."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
import textured_room as room
import torch

from luxel.render.geometry.camera import Camera
from luxel.scenes.captures.depth.points import FirstOf, PointDepth, point_depths, thinned
from luxel.scenes.captures.depth.tracks import visible_points
from luxel.scenes.errors import CaptureError


def camera(width: int = 160, height: int = 120) -> Camera:
    return Camera.look_at((0.0, 0.0, -4.0), (0.0, 0.0, 0.0), (0.0, -1.0, 0.0), width=width, height=height)


def test_points_are_at_their_pixels_and_the_nearest_counts() -> None:
    view = camera()
    fx, fy, cx, cy = view.intrinsics.tolist()
    xyz = np.array([[0.1, -0.2, 1.0], [0.1001, -0.2, 1.001], [9.0, 0, 0], [0, 0, -5.0], [0.0, 0.0, np.nan]])
    depth = PointDepth(view, xyz, seen=True)()
    column, row = int(fx * 0.1 / 5 + cx), int(fy * -0.2 / 5 + cy)
    assert depth.shape == (120, 160) and depth.dtype == np.float32
    assert np.argwhere(depth).tolist() == [[row, column]] and depth[row, column] == np.float32(5.0)
    beyond = Camera(view.world_to_cam, view.intrinsics, 160, 120, near=0.5, far=4.0)
    assert not PointDepth(beyond, xyz, seen=True)().any()


def test_a_wall_hides_what_is_behind_it() -> None:
    """A wall in the left half, 3 units away, before a cloud 6 units away: gaps between its points hide as well."""
    random, view = np.random.default_rng(0), camera()
    wall = np.stack([random.uniform(-2, 0, 4000), random.uniform(-2, 2, 4000), np.full(4000, -1.0)], -1)
    behind = np.stack([random.uniform(-3, 3, 4000), random.uniform(-3, 3, 4000), np.full(4000, 2.0)], -1)
    depth = PointDepth(view, np.concatenate([wall, behind]))()
    left, right = depth[:, :78], depth[:, 90:]
    assert (left[left > 0] < 3.1).all() and (left > 0).sum() > 1500
    assert (right[right > 0] > 5.9).all() and (right > 0).sum() > 800
    pixels, known = point_depths(view, np.concatenate([wall, behind]), seen=True)
    assert len(np.unique(pixels)) == len(pixels) and (known > 5.9).sum() > 1.5 * (depth > 5.9).sum()


def test_a_floor_does_not_hide_itself() -> None:
    """Depth that changes quickly over the image is no occlusion."""
    random = np.random.default_rng(1)
    floor = np.stack([random.uniform(-4, 4, 20_000), np.full(20_000, 1.0), random.uniform(-3, 9, 20_000)], -1)
    view = camera(320, 240)
    seen, all_of_them = (len(point_depths(view, floor, seen=s)[0]) for s in (False, True))
    assert seen > 0.85 * all_of_them


def test_points_of_a_room_have_the_depth_of_its_walls() -> None:
    random = np.random.default_rng(2)
    directions = random.normal(size=(30_000, 3))
    xyz = directions * room.reach(np.zeros(3), directions).min(-1)[:, None]
    view = Camera.look_at((0.5, 0.2, -1.0), (-2.0, 0.1, 1.5), (0.0, -1.0, 0.0), width=96, height=72)
    pose = view.cam_to_world.double().numpy()
    fx, fy, cx, cy = view.intrinsics.tolist()
    columns, rows = np.meshgrid(np.arange(96) + 0.5, np.arange(72) + 0.5)
    rays = np.stack([(columns - cx) / fx, (rows - cy) / fy, np.ones_like(rows)], -1) @ pose[:3, :3].T
    expected = room.reach(pose[:3, 3], rays).min(-1)
    depth = PointDepth(view, xyz)()
    here = depth > 0
    assert here.mean() > 0.3 and np.median(np.abs(depth[here] / expected[here] - 1)) < 0.01


def test_maps_come_before_points() -> None:
    first = FirstOf(lambda: np.array([[1.0, 0.0]]), lambda: np.array([[5.0, 7.0]]))
    assert first().tolist() == [[1.0, 7.0]]


def test_large_clouds_are_thinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("luxel.scenes.captures.depth.points.MAX_POINTS", 10)
    cloud = np.arange(90.0).reshape(30, 3)
    cloud[3] = np.inf
    few = thinned(cloud)
    assert len(few) == 10 and np.array_equal(few, thinned(cloud)) and np.isfinite(few).all()
    assert len(thinned(cloud[:5])) == 4


def write_tracks(folder: Path, text: bool) -> None:
    """Four images; point 1 is seen by three, point 2 by two, point 3 by four but badly."""
    tracks = {1: ((1, 2, 3), 0.5), 2: ((1, 2), 0.5), 3: ((1, 2, 3, 4), 5.0), 4: ((2, 3, 4, 9), 1.0)}
    if text:
        images = "".join(f"{i} 1 0 0 0 0 0 3 1 in/{i}.png\n5 6 1\n" for i in range(1, 5))
        (folder / "images.txt").write_text(images)
        lines = [
            f"{p} {p} 0 1 10 20 30 {error} " + " ".join(f"{i} 0" for i in views)
            for p, (views, error) in tracks.items()
        ]
        (folder / "points3D.txt").write_text("# points\n" + "\n".join(lines) + "\n")
        return
    images = b"".join(
        struct.pack("<i7di", i, 1, 0, 0, 0, 0, 0, 3, 1)
        + f"in/{i}.png\0".encode()
        + struct.pack("<Qddq", 1, 5, 6, 1)
        for i in range(1, 5)
    )
    (folder / "images.bin").write_bytes(struct.pack("<Q", 4) + images)
    points = b"".join(
        struct.pack("<Q3d3BdQ", p, p, 0, 1, 9, 9, 9, error, len(views))
        + b"".join(struct.pack("<ii", i, 0) for i in views)
        for p, (views, error) in tracks.items()
    )
    (folder / "points3D.bin").write_bytes(struct.pack("<Q", len(tracks)) + points)


@pytest.mark.parametrize("text", [False, True], ids=["binary", "text"])
def test_tracks_say_which_image_sees_a_point(tmp_path: Path, text: bool) -> None:
    write_tracks(tmp_path, text)
    seen = {name: xyz[:, 0].tolist() for name, xyz in visible_points(tmp_path).items()}
    assert seen == {"in/1.png": [1.0], "in/2.png": [1.0, 4.0], "in/3.png": [1.0, 4.0], "in/4.png": [4.0]}
    if text:  # tracks cut off, as some programs export models
        lines = (tmp_path / "points3D.txt").read_text().splitlines()
        (tmp_path / "points3D.txt").write_text("\n".join(" ".join(line.split()[:8]) for line in lines))
        assert visible_points(tmp_path) == {}
    for name in ("points3D.bin", "points3D.txt"):
        (tmp_path / name).unlink(missing_ok=True)
    assert visible_points(tmp_path) == {}


@pytest.mark.parametrize("text", [False, True], ids=["binary", "text"])
def test_damaged_tracks_are_refused(tmp_path: Path, text: bool) -> None:
    write_tracks(tmp_path, text)
    path = tmp_path / ("points3D.txt" if text else "points3D.bin")
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b" 0 ", b" x ") if text else whole[:-20])
    with pytest.raises(CaptureError, match="points3D"):
        visible_points(tmp_path)
    path.write_bytes(whole)
    path = tmp_path / ("images.txt" if text else "images.bin")
    path.write_bytes(b"one two\n" if text else path.read_bytes()[:60])
    with pytest.raises(CaptureError, match="images"):
        visible_points(tmp_path)


def test_a_camera_that_sees_nothing() -> None:
    away = torch.eye(4)
    view = Camera(away, torch.tensor([50.0, 50.0, 8.0, 6.0]), 16, 12)
    assert not PointDepth(view, np.array([[0.0, 0.0, -3.0]]))().any()
    assert not PointDepth(view, np.zeros((0, 3)))().any()
