"""Camera paths of other viewers: what they say of cameras is followed, refused or named."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from luxel.scenes import CaptureError, save_scene
from luxel.scenes.paths import load_path, save_path
from luxel.scenes.synthetic.toy import ring_cameras, torus_knot
from luxel.scenes.unused import OTHER, WRONG
from luxel.viewer.cli import main

MATRIX = [1.0, 0, 0, 5, 0, 1, 0, 6, 0, 0, 1, 7, 0, 0, 0, 1]  # OpenGL: looks along -z


def document(cameras: int = 3, **keys: Any) -> dict[str, Any]:
    """A path as nerfstudio's viewer saves it."""
    camera = {"camera_to_world": MATRIX, "fov": 50, "aspect": 2.0}
    keyframe = {"matrix": MATRIX, "fov": 50, "aspect": 2.0, "override_transition_enabled": False}
    return {
        "default_fov": 50,
        "default_transition_sec": 2.0,
        "keyframes": [keyframe, keyframe],
        "camera_type": "perspective",
        "render_height": 40,
        "render_width": 80,
        "fps": 12,
        "seconds": 0.25,
        "is_cycle": False,
        "smoothness_value": 0.5,
        "camera_path": [dict(camera) for _ in range(cameras)],
        **keys,
    }


def write(folder: Path, content: dict[str, Any]) -> Path:
    path = folder / "path.json"
    path.write_text(json.dumps(content))
    return path


def test_a_usual_path_is_read_and_silent(tmp_path: Path) -> None:
    path = load_path(write(tmp_path, document()))
    assert path.unused == [] and path.fps == 12 and len(path.cameras) == 3
    camera, focal = path.cameras[1], 20 / math.tan(math.radians(25))
    np.testing.assert_allclose(camera.intrinsics, [focal, focal, 40, 20], rtol=1e-6)
    assert camera.position.tolist() == [5, 6, 7] and camera.cam_to_world[:3, 2].tolist() == [0, 0, -1]


@pytest.mark.parametrize("kind", ["perspective", "Perspective", "pinhole", "", None])
def test_pinholes_by_any_name(kind: str | None, tmp_path: Path) -> None:
    assert len(load_path(write(tmp_path, document(camera_type=kind))).cameras) == 3
    content = document()
    del content["camera_type"]
    assert load_path(write(tmp_path, content)).unused == []


@pytest.mark.parametrize(
    "kind",
    [
        "equirectangular",
        "fisheye",
        "omnidirectional",
        "VR180",
        "EQUIRECTANGULAR",
        "orthographic",
        2,
        ["fisheye"],
    ],
)
@pytest.mark.parametrize("of_camera", [False, True], ids=["of the path", "of a camera"])
def test_other_cameras_are_refused(kind: Any, of_camera: bool, tmp_path: Path) -> None:
    content = document()
    (content["camera_path"][1] if of_camera else content)["camera_type"] = kind
    with pytest.raises(CaptureError, match="perspective cameras only") as caught:
        load_path(write(tmp_path, content))
    assert str(kind) in caught.value.problem and 'write "perspective"' in caught.value.remedy
    assert ("camera 1" in caught.value.problem) == of_camera
    (content["camera_path"][1] if of_camera else content)["camera_type"] = "perspective"  # as the remedy says
    assert len(load_path(write(tmp_path, content)).cameras) == 3


@pytest.mark.parametrize(("key", "value"), [("render_width", 90), ("render_height", 20)])
def test_cameras_of_another_size_are_refused(key: str, value: int, tmp_path: Path) -> None:
    content = document()
    content["camera_path"][2][key] = value
    with pytest.raises(CaptureError, match=rf"camera 2: it is .*{value}.* pixels, and the path 80x40"):
        load_path(write(tmp_path, content))
    content["camera_path"][2] |= {"render_width": 80, "render_height": 40}
    assert load_path(write(tmp_path, content)).unused == []


def test_times_of_some_cameras_are_named(tmp_path: Path) -> None:
    content = document()
    content["camera_path"][0]["render_time"] = content["camera_path"][1]["render_time"] = 0.5
    path = load_path(write(tmp_path, content))
    (entry,) = path.unused
    assert path.times == [] and (entry.kind, entry.count, entry.harm) == ("times", 2, WRONG)
    assert "only 2 of 3 cameras have a render_time, camera 2 has none" in entry.problem
    content["camera_path"][2]["render_time"] = 1
    path = load_path(write(tmp_path, content))
    assert path.times == [0.5, 0.5, 1.0] and path.unused == []


def test_unknown_keys_are_named_once_a_kind(tmp_path: Path) -> None:
    content = document(
        crop={"crop_center": [0, 0, 0], "crop_scale": [1, 1, 1]}, exposure=2, bloom={"strength": 1}
    )
    for camera in content["camera_path"]:
        camera |= {"depth_of_field": 0.2}
    path = load_path(write(tmp_path, content))
    assert [(entry.kind, entry.count, entry.harm) for entry in path.unused] == [
        ("crop box", 1, WRONG),
        ("keys of camera paths", 2, OTHER),
        ("keys of cameras", 1, OTHER),
    ]
    crop, keys, of_cameras = path.unused
    assert "all of the scene is rendered" in crop.problem
    assert "2 keys of camera paths, such as exposure, are not used" in keys.problem
    assert "The key of cameras depth_of_field is not used" in of_cameras.problem
    assert load_path(write(tmp_path, document(crop=None))).unused == []


def test_luxel_s_own_paths_are_silent(tmp_path: Path) -> None:
    save_path(tmp_path / "own.json", ring_cameras(3), fps=24, times=[0.0, 0.5, 1.0])
    path = load_path(tmp_path / "own.json")
    assert path.unused == [] and path.times == [0.0, 0.5, 1.0]


@pytest.mark.parametrize("kind", ["equirectangular", "fisheye"])
def test_render_refuses_before_it_writes(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_scene(tmp_path / "a.ply", torus_knot(8))
    path = write(tmp_path, document(camera_type=kind))
    arguments = ["render", str(tmp_path / "a.ply"), "--path", str(path), "--out", str(tmp_path / "frames")]
    assert main([*arguments, "--device", "cpu"]) == 2
    message = capsys.readouterr().err
    assert f"camera_type is '{kind}'" in message and not (tmp_path / "frames").exists()


def test_render_names_what_a_path_holds_beside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_scene(tmp_path / "a.ply", torus_knot(8))
    path = write(tmp_path, document(1, bloom=1, crop={"crop_scale": [1, 1, 1]}))
    arguments = ["render", str(tmp_path / "a.ply"), "--path", str(path), "--out", str(tmp_path / "frames")]
    assert main([*arguments, "--device", "cpu"]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "not used" in line]
    assert len(lines) == 2 and "crop box" in lines[0] and "bloom" in lines[1]
    assert len(list((tmp_path / "frames").glob("*.png"))) == 1
