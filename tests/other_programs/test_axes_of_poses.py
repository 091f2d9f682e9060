"""Poses in the axes of another convention are refused, with the one in which the views see the capture's points."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from ray_cast_capture import (
    OPENGL,
    camera_at,
    colmap_capture,
    ring,
    surface_points,
    transforms,
    transforms_capture,
    write_colmap,
    write_images,
    write_ply_points,
)

from luxel.render.geometry.camera import Points
from luxel.scenes import CaptureError
from luxel.scenes import open as open_capture
from luxel.scenes.captures.contents import CaptureContents, SourceImage
from luxel.scenes.captures.lenses.lens import Lens
from luxel.scenes.captures.poses.pose_axes import check_points_in_view
from luxel.scenes.unused import WRONG
from luxel.viewer.cli import main

Change = Callable[[np.ndarray], np.ndarray]
# From a camera with x forward, y left and z up to one with x right, y down and z forward.
ROBOT = np.array([[0.0, -1, 0, 0], [0, 0, -1, 0], [1, 0, 0, 0], [0, 0, 0, 1]])
Y_UP = np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]])  # a world with z up in one with y up
# What a file has instead of cam_to_world with OpenGL axes, made of cam_to_world with OpenCV axes.
TRANSFORMS: dict[str, tuple[Change, str, str]] = {
    "OpenCV axes": (
        lambda pose: pose,
        r"OpenCV axes \(x right, y down, z forward\), but those of this format are OpenGL's",
        "Negate the second and third columns of each matrix.",
    ),
    "inverted": (
        lambda pose: np.linalg.inv(pose @ OPENGL),
        "the poses are from world to camera, but those of this format are from camera to world",
        "Invert each matrix.",
    ),
    "inverted with OpenCV axes": (
        np.linalg.inv,
        "from world to camera, .* and the cameras have OpenCV axes",
        "Invert each matrix, and negate its second and third columns.",
    ),
    "axes of robots": (lambda pose: pose @ ROBOT, "axes of robots", "Turn them."),
}
# Of world_to_cam with OpenCV axes, likewise.
COLMAP: dict[str, tuple[Change, str, str]] = {
    "OpenGL axes": (
        lambda pose: OPENGL @ np.linalg.inv(pose),
        r"OpenGL axes \(x right, y up, z backward\), but COLMAP's are OpenCV's",
        "Negate the second and third rows of rotation and translation of each pose.",
    ),
    "inverted": (
        lambda pose: pose,
        "from camera to world, but COLMAP's are from world to camera",
        "Invert each pose.",
    ),
    "inverted with OpenGL axes": (
        lambda pose: pose @ OPENGL,
        "from camera to world, .* and the cameras have OpenGL axes",
        "Negate the second and third columns of the rotation of each pose, and invert it.",
    ),
}


def write_transforms(folder: Path, change: Change, count: int = 8) -> Path:
    """A capture whose matrices are `change` of cam_to_world with OpenCV axes."""
    transforms_capture(folder, count)
    document = json.loads((folder / "transforms.json").read_text())
    for frame, pose in zip(document["frames"], ring(count), strict=True):
        frame["transform_matrix"] = change(pose).tolist()
    (folder / "transforms.json").write_text(json.dumps(document))
    return folder


def complaint(path: Path) -> tuple[str, str]:
    """What is said of the poses of a capture: it is refused, or named first where its views see a few points."""
    try:
        (entry, *_) = open_capture(path).unused
    except CaptureError as error:
        assert "none of" in error.problem or " of the " in error.problem
        return error.problem, error.remedy
    assert (entry.kind, entry.harm) == ("poses", WRONG) and "see little of the capture's" in entry.problem
    return entry.problem, entry.remedy


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_in_other_conventions(name: str, tmp_path: Path) -> None:
    change, cause, remedy = TRANSFORMS[name]
    with pytest.raises(
        CaptureError, match=r"[0-2none]+ of the 8 views would see .* of the capture's 600 points"
    ) as caught:
        open_capture(write_transforms(tmp_path / "capture", change))
    assert caught.match(cause) and caught.match("they would see 9[0-9]% then")
    assert str(tmp_path / "capture") in caught.value.problem and caught.value.remedy == remedy


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
@pytest.mark.parametrize("name", COLMAP)
def test_colmap_models_in_other_conventions(name: str, binary: bool, tmp_path: Path) -> None:
    change, cause, remedy = COLMAP[name]
    poses = ring(8)
    names = write_images(tmp_path / "images", poses)
    # `write_colmap` inverts what it is given.
    write_colmap(tmp_path / "sparse/0", names, [np.linalg.inv(change(pose)) for pose in poses], binary=binary)
    problem, actual_remedy = complaint(tmp_path)
    assert re.search(cause, problem) and re.search("they would see 9[0-9]% then", problem)
    assert actual_remedy == remedy


@pytest.mark.parametrize("name", TRANSFORMS)
def test_what_the_remedy_says_mends_the_file(name: str, tmp_path: Path) -> None:
    """Written out in numpy, as a reader of the message would do it; the views then see the points."""
    mend: dict[str, Change] = {
        "OpenCV axes": lambda matrix: matrix @ OPENGL,
        "inverted": np.linalg.inv,
        "inverted with OpenCV axes": lambda matrix: np.linalg.inv(matrix) @ OPENGL,
        "axes of robots": lambda matrix: matrix @ ROBOT.T @ OPENGL,
    }
    change = TRANSFORMS[name][0]
    capture = open_capture(write_transforms(tmp_path / "capture", lambda pose: mend[name](change(pose))))
    actual = np.stack([view.camera.cam_to_world.double().numpy() for view in capture.views])
    np.testing.assert_allclose(actual, np.stack(ring(8)), atol=1e-5)


def test_points_in_a_world_with_other_axes(tmp_path: Path) -> None:
    """Far from the origin, so that no view sees them by chance: y up for the points, z up for the poses."""
    shift = np.array([0.0, 40.0, 9.0])
    poses = []
    for pose in ring(8):
        moved = pose.copy()
        moved[:3, 3] += shift
        poses.append(moved)
    names = [f"images/{name}" for name in write_images(tmp_path / "images", poses)]
    (tmp_path / "transforms.json").write_text(json.dumps(transforms(names, poses)))
    xyz, rgb = surface_points()
    write_ply_points(tmp_path / "points3D.ply", ((xyz + shift) @ Y_UP.T, rgb))
    with pytest.raises(CaptureError, match=r"points have other axes .*\(x, -z, y\)") as caught:
        open_capture(tmp_path)
    assert caught.value.remedy == "Turn the points like that, or remove their file."
    write_ply_points(
        tmp_path / "points3D.ply",
        (((xyz + shift) @ Y_UP.T) @ Y_UP, rgb),
    )
    assert open_capture(tmp_path).format == "transforms.json"


def test_points_of_another_scene_fit_in_no_axes(tmp_path: Path) -> None:
    """All views look away from them in every convention: nothing is guessed."""
    poses = [camera_at((0.0, 0.0, 0.0), (np.cos(a), np.sin(a), 0.0)) for a in np.linspace(0, 0.2, 8)]
    names = [f"images/{name}" for name in write_images(tmp_path / "images", poses)]
    (tmp_path / "transforms.json").write_text(json.dumps(transforms(names, poses)))
    xyz, rgb = surface_points()
    directions = np.array([[1.0, 1.0, 1.0]]) + 0.02 * xyz
    write_ply_points(tmp_path / "points3D.ply", (50 * directions, rgb))
    with pytest.raises(CaptureError, match="do not fit together") as caught:
        open_capture(tmp_path)
    assert "remove the file of points" in caught.value.remedy


@pytest.mark.parametrize(
    "command", [["inspect", "--no-estimate"], ["train", "--steps", "2", "--run", "{}/run"]]
)
def test_commands_stop_with_the_cause(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capture = write_transforms(tmp_path / "capture", lambda pose: pose)
    name, *options = (word.format(tmp_path) for word in command)
    assert main([name, str(capture), *options]) == 2
    message = capsys.readouterr().err
    assert "none of the 8 views" in message and "OpenCV axes" in message and "Traceback" not in message


def contents(
    poses: list[np.ndarray], xyz: np.ndarray, lens: Lens | None = None, name: str = "transforms.json"
) -> CaptureContents:
    """What a format reads of cam_to_world poses, OpenCV axes, and points."""
    lens = lens or Lens(48, 36, 44.0, 44.0, 24.0, 18.0)
    images = [
        SourceImage(f"{row}.png", Path(f"{row}.png"), lens, np.linalg.inv(pose))
        for row, pose in enumerate(poses)
    ]
    return CaptureContents(
        name, images, points=Points(xyz.astype(np.float32), np.zeros((len(xyz), 3), np.uint8))
    )


def check(given: CaptureContents) -> None:
    check_points_in_view(Path("capture"), given)


def test_sound_captures_are_silent(tmp_path: Path) -> None:
    assert open_capture(transforms_capture(tmp_path / "a")).warnings == []
    assert open_capture(colmap_capture(tmp_path / "b")).warnings == []
    assert open_capture(colmap_capture(tmp_path / "c", binary=True)).warnings == []


def test_other_sound_arrangements_are_silent() -> None:
    xyz, _ = surface_points()
    everywhere = np.random.default_rng(0).normal(size=(400, 3))
    outward = [camera_at((0.0, 0.0, 0.0), pose[:3, 3].tolist()) for pose in ring(8)]
    check(contents(outward, everywhere))  # inside of a cloud
    check(contents(outward, 50 * everywhere))
    check(contents(ring(8), 1e-3 * xyz))  # a small object
    check(contents([pose @ OPENGL for pose in ring(8)], xyz[:10]))  # few points say nothing
    half = [*ring(4), *(pose @ OPENGL for pose in ring(4))]
    check(contents(half, xyz))  # a part that sees nothing
    wide = Lens(48, 48, 12.0, 12.0, 24.0, 24.0, (0.0, 0.0, 0.0, 0.0), fisheye=True)
    check(contents([pose @ OPENGL for pose in ring(8)], 8 * xyz, wide))  # 230 degrees: it sees behind itself
    estimated = contents([pose @ OPENGL for pose in ring(8)], xyz)
    estimated.pose_report = "estimated"
    check(estimated)
    unknown = contents([pose @ OPENGL for pose in ring(8)], xyz)
    unknown.points = None
    check(unknown)


def test_one_view_that_sees_points_by_chance_hides_nothing() -> None:
    """Of thirty views, one looks the right way."""
    xyz, _ = surface_points()
    poses = [pose @ OPENGL for pose in ring(30)]
    poses[7] = camera_at((3.0, 0.0, 1.0))
    with pytest.raises(CaptureError, match=r"1 of the 30 views .* they would see 9[0-9]% then"):
        check(contents(poses, xyz))
    far = contents(
        [camera_at((0.0, 0, 0), (1.0, 0, 0)) for _ in range(30)], np.tile([[50.0, 50, 50]], (40, 1))
    )
    far.images[3].world_to_cam = np.linalg.inv(camera_at((0.0, 0, 0), (1.0, 1, 1)))
    check(far)  # no other axes show them to nearly all: nothing is said


@pytest.mark.parametrize("change", [lambda pose: pose @ OPENGL, np.linalg.inv], ids=["axes", "inverse"])
def test_other_formats_name_the_cause_in_general(change: Change) -> None:
    xyz, _ = surface_points()
    ball = xyz[:300]
    with pytest.raises(CaptureError, match=r"axes of the cameras are exchanged|poses are inverted") as caught:
        check(contents([change(pose) for pose in ring(8)], ball, name="LLFF"))
    assert "each" in caught.value.remedy
