"""Camera paths and their files."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from luxel.render.geometry.camera import Camera
from luxel.scenes.errors import CaptureError
from luxel.scenes.geometry import quaternion_from_rotation, rotation_from_quaternion
from luxel.scenes.paths import (
    interpolate,
    interpolate_times,
    load_path,
    orbit,
    orbit_like,
    save_path,
    slerp,
)
from luxel.scenes.synthetic.toy import ring_cameras

KEYS = [
    Camera.look_at(eye, (0, 0, 0), fov_y=0.7 + 0.1 * i, width=80, height=60)
    for i, eye in enumerate([(3, 0, 1), (2, 2, 1.5), (0, 3, 2), (-2, 2, 1)])
]


@pytest.mark.parametrize("up", [(0, 0, 1), (0, -1, 0), (1, 1, 1)])
def test_orbit_goes_round_and_looks_at_the_centre(up: tuple[int, int, int]) -> None:
    centre, axis = np.array([1.0, 2.0, 3.0]), np.array(up) / np.linalg.norm(up)
    cameras = orbit(centre, 2.5, up=up, elevation=0.5, frames=12)
    for camera in cameras:
        away = camera.position.double().numpy() - centre
        assert abs(np.linalg.norm(away) - 2.5) < 1e-5 and abs(away @ axis - 2.5 * math.sin(0.5)) < 1e-5
        local = camera.world_to_cam.double().numpy() @ [*centre, 1]
        assert np.allclose(local[:3], [0, 0, 2.5], atol=1e-5)
        assert -camera.cam_to_world[:3, 1].double().numpy() @ axis > 0.5
    step = [np.linalg.norm(cameras[i].position - cameras[i - 1].position) for i in range(12)]
    assert max(step) - min(step) < 1e-4


def test_orbit_refuses_invalid_arguments() -> None:
    for bad in ({"radius": 0.0}, {"radius": 1.0, "up": (0, 0, 0)}, {"radius": 1.0, "elevation": math.pi / 2}):
        with pytest.raises(ValueError, match="radius must be above 0, up not 0"):
            orbit((0, 0, 0), **bad)


def test_orbit_like_the_views() -> None:
    cameras = orbit_like(ring_cameras(16, radius=5.0), centre=(0, 0, 0), frames=6)
    assert all(abs(float(c.position.norm()) - 5) < 1e-3 and c.position[2] > 1 for c in cameras)
    assert torch.allclose(cameras[0].intrinsics, ring_cameras()[0].intrinsics)


@pytest.mark.parametrize("loop", [False, True])
def test_interpolation_passes_through_keyframes(loop: bool) -> None:
    frames = 40 if loop else 31
    cameras = interpolate(KEYS, frames, loop)
    assert len(cameras) == frames
    for i, key in enumerate(KEYS):
        assert torch.allclose(cameras[10 * i].world_to_cam, key.world_to_cam, atol=1e-5), i
        assert torch.allclose(cameras[10 * i].intrinsics, key.intrinsics, rtol=1e-5)
    jumps = [float((a.position - b.position).norm()) for a, b in pairwise(cameras)]
    assert max(jumps) < 0.8
    for camera in cameras:
        rotation = camera.world_to_cam[:3, :3].double()
        assert torch.allclose(rotation @ rotation.T, torch.eye(3).double(), atol=1e-5)


def test_interpolation_of_one_keyframe() -> None:
    assert torch.allclose(interpolate(KEYS[:1], 3)[2].world_to_cam, KEYS[0].world_to_cam, atol=1e-6)
    with pytest.raises(ValueError, match="and frames must be at least 1, got 0 and 3"):
        interpolate([], 3)


def test_slerp_takes_the_shorter_arc() -> None:
    random = np.random.default_rng(0)
    for q in [*random.standard_normal((50, 4)), *np.eye(4)]:
        rotation = rotation_from_quaternion(q, "test")
        assert np.allclose(rotation_from_quaternion(quaternion_from_rotation(rotation), "test"), rotation)
    a, b = np.array([1.0, 0, 0, 0]), np.array([math.cos(0.4), math.sin(0.4), 0, 0])
    assert np.allclose(slerp(a, -b, 0.25), [math.cos(0.1), math.sin(0.1), 0, 0])


def test_file_round_trip(tmp_path: Path) -> None:
    save_path(tmp_path / "path.json", KEYS, fps=30)
    loaded = load_path(tmp_path / "path.json")
    assert loaded.fps == 30 and len(loaded.cameras) == 4
    for a, b in zip(loaded.cameras, KEYS, strict=True):
        assert torch.allclose(a.world_to_cam, b.world_to_cam, atol=1e-5) and (a.width, a.height) == (80, 60)
        assert torch.allclose(a.intrinsics, b.intrinsics, rtol=1e-5)


def test_times_come_back_and_are_interpolated(tmp_path: Path) -> None:
    save_path(tmp_path / "path.json", KEYS, times=[0.0, 2.0, 1.0, -4.0])
    assert load_path(tmp_path / "path.json").times == [0.0, 2.0, 1.0, -4.0]
    assert interpolate_times([0.0, 2.0, 1.0], 5) == [0.0, 1.0, 2.0, 1.5, 1.0]
    assert interpolate_times([0.25], 3) == [0.25] * 3 and interpolate_times([3.0, 5.0], 1) == [3.0]
    with pytest.raises(ValueError, match="and frames must be at least 1, got 0 and 3"):
        interpolate_times([], 3)
    with pytest.raises(ValueError, match="times must be 4 like cameras, or none, got 3"):
        save_path(tmp_path / "path.json", KEYS, times=[0.0, 1.0, 2.0])
    save_path(tmp_path / "still.json", KEYS)
    assert load_path(tmp_path / "still.json").times == []
    document = json.loads((tmp_path / "path.json").read_text())
    document["camera_path"][2].pop("render_time")
    (tmp_path / "path.json").write_text(json.dumps(document))
    assert load_path(tmp_path / "path.json").times == [], "a path whose times are incomplete has none"
    document["camera_path"][1]["render_time"] = float("nan")
    (tmp_path / "path.json").write_text(json.dumps(document))
    with pytest.raises(CaptureError, match=r"p.*json: camera 1: render_time must be finite, got nan"):
        load_path(tmp_path / "path.json")


def test_nerfstudio_layout(tmp_path: Path) -> None:
    matrix = [1, 0, 0, 5, 0, 1, 0, 6, 0, 0, 1, 7, 0, 0, 0, 1]  # OpenGL: looks along -z
    document = {
        "render_width": 100,
        "render_height": 50,
        "fps": 10,
        "camera_path": [{"camera_to_world": matrix, "fov": 90}],
    }
    (tmp_path / "p.json").write_text(json.dumps(document))
    camera = load_path(tmp_path / "p.json").cameras[0]
    assert camera.position.tolist() == [5, 6, 7] and camera.cam_to_world[:3, 2].tolist() == [0, 0, -1]
    assert torch.allclose(camera.intrinsics, torch.tensor([25.0, 25, 50, 25]))


@pytest.mark.parametrize(
    "change",
    [
        {"camera_path": []},
        {"camera_path": [{"camera_to_world": [1, 2, 3]}]},
        {"camera_path": [{"camera_to_world": [float("nan")] * 16}]},
        {"camera_path": [{"camera_to_world": [1, 0, 0, 5, 0, 1, 0, 6, 0, 0, 1, 7, 0, 0, 0, 1], "fov": 180}]},
        {"camera_path": 3},
        {"render_width": 0},
        {"render_height": None},
        {"fps": "fast"},
        {"camera_path": [{"camera_to_world": [1, 0, 0, 5, 0, 1, 0, 6, 0, 0, 1, 7, 0, 0, 0, 1], "fx": -1}]},
    ],
)
def test_invalid_files(tmp_path: Path, change: dict) -> None:
    save_path(tmp_path / "p.json", KEYS)
    document = json.loads((tmp_path / "p.json").read_text()) | change
    (tmp_path / "p.json").write_text(json.dumps(document))
    with pytest.raises(CaptureError, match=r"p\.json"):
        load_path(tmp_path / "p.json")


def test_paths_of_nothing_are_not_saved(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cameras must hold at least one camera"):
        save_path(tmp_path / "path.json", [])
    assert not (tmp_path / "path.json").exists()
