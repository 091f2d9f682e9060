"""A camera, or a point, far from all others does not set the size of the scene."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from ray_cast_capture import (
    FOCAL,
    HEIGHT,
    WIDTH,
    camera_at,
    ring,
    surface_points,
    transforms,
    write_colmap,
    write_images,
    write_ply_points,
)

from luxel import scenes
from luxel.render.fields.capture.extent import cascades_of
from luxel.render.fields.capture.posed_images import box_of
from luxel.render.train.start import scene_extent
from luxel.scenes.captures.far_cameras import find_far
from luxel.scenes.captures.open_capture import Capture
from luxel.scenes.unused import LOST
from luxel.viewer.cli import main
from luxel.viewer.web.navigate import find_extent

SAID = "so far from the others"
XYZ, RGB = surface_points()


def far_at(where: Sequence[float]) -> np.ndarray:
    """A camera that looks at the scene from far away."""
    return camera_at(where)


def colmap_of(folder: Path, poses: Sequence[np.ndarray], shift: Sequence[float] = (0, 0, 0)) -> Path:
    names = write_images(folder / "images", [*ring(12), *ring(4)][: len(poses)])
    moved = [pose.copy() for pose in poses]
    for pose in moved:
        pose[:3, 3] += shift
    write_colmap(folder / "sparse/0", names, moved, points=(XYZ + np.asarray(shift), RGB))
    return folder


def transforms_of(folder: Path, poses: Sequence[np.ndarray]) -> Path:
    names = [f"images/{n}" for n in write_images(folder / "images", [*ring(12), *ring(4)][: len(poses)])]
    (folder / "transforms.json").write_text(json.dumps(transforms(names, poses)))
    write_ply_points(folder / "points3D.ply", (XYZ, RGB))
    return folder


def llff_of(folder: Path, poses: Sequence[np.ndarray]) -> Path:
    """A capture without points."""
    write_images(folder / "images", [*ring(12), *ring(4)][: len(poses)])
    rows = []
    for pose in poses:
        axes = [pose[:3, 1], pose[:3, 0], -pose[:3, 2], pose[:3, 3], [HEIGHT, WIDTH, FOCAL]]
        rows.append([*np.stack(axes, axis=1).ravel(), 1.0, 9.0])
    np.save(folder / "poses_bounds.npy", np.array(rows))
    return folder


def sizes_of(capture: Capture) -> list[float]:
    """All that depends on where the cameras are."""
    extent = find_extent(capture.views, lambda: None)  # type: ignore[arg-type,return-value]
    sizes = [capture.extent, scene_extent(capture.train), capture.views[0].camera.near, *capture.centre]
    return [
        *sizes,
        extent.radius,
        *extent.centre,
        cascades_of(capture.train, capture.points),
        *box_of(capture.train),
    ]


FAR = {
    "a million units away": [(1e6, 2e5, 3e5)],
    "a thousand units away": [(-1000, 300, 200)],
    "two of them, in opposite directions": [(1e6, 0, 10), (-1e6, 0, 10)],
    "three at different distances": [(400, 0, 10), (9e4, 0, 10), (0, -1e9, 10)],
}


@pytest.mark.parametrize("write", [colmap_of, transforms_of, llff_of])
@pytest.mark.parametrize("where", FAR.values(), ids=FAR)
def test_far_cameras_are_named_and_left_out(
    tmp_path: Path, write: Callable[..., Path], where: list[tuple[float, float, float]]
) -> None:
    near = ring(12)
    without = scenes.open(write(tmp_path / "without", near), cache_dir=tmp_path / "c1")
    poses = [*near, *(far_at(eye) for eye in where)]
    capture = scenes.open(write(tmp_path / "with", poses), cache_dir=tmp_path / "c2")
    named = [entry for entry in capture.unused if entry.kind == "far cameras"]
    assert [(entry.count, entry.harm) for entry in named] == [(len(where), LOST)]
    assert "0012.png" in named[0].problem and f"{len(where)} of {12 + len(where)} cameras" in named[0].problem
    assert [SAID in text for text in capture.warnings].count(True) == 1
    assert [view.name for view in capture.views] == [view.name for view in without.views]
    assert [view.name for view in capture.test] == [view.name for view in without.test]
    assert sizes_of(capture) == pytest.approx(sizes_of(without), rel=1e-6)


def test_what_is_held_out_does_not_change(tmp_path: Path) -> None:
    plain = ring(12)
    poses = [pose.copy() for pose in plain]
    poses[5] = far_at((1e6, 0, 3e5))
    before = scenes.open(colmap_of(tmp_path / "plain", plain))
    capture = scenes.open(colmap_of(tmp_path / "far", poses))
    assert [v.name for v in capture.test] == [v.name for v in before.test] == ["0000.png", "0008.png"]
    assert "0005.png" not in [v.name for v in capture.views] and len(capture.views) == 11
    poses[8] = far_at((1e6, 0, 3e5))
    assert [v.name for v in scenes.open(colmap_of(tmp_path / "two", poses)).test] == ["0000.png"]


def test_names_of_views_do_not_change(tmp_path: Path) -> None:
    """Nor does what `luxel export --cameras` finds them by."""
    poses = [*ring(12), far_at((1e6, 0, 3e5))]
    names = write_images(
        tmp_path / "images", [*ring(12), ring(4)[0]], lambda row: f"{'ab'[row > 11]}/{row:02d}.png"
    )
    write_colmap(tmp_path / "sparse/0", names, poses)
    assert [view.name for view in scenes.open(tmp_path).views] == names[:12]


def test_a_far_camera_that_still_sees_the_scene_stays(tmp_path: Path) -> None:
    """At 30 times the size of the scene and a long focal length it shows something, and does not set the size."""
    near = ring(12)
    without = scenes.open(colmap_of(tmp_path / "without", near))
    names = write_images(tmp_path / "with/images", [*near, near[0]])
    tele = {1: ("PINHOLE", WIDTH, HEIGHT, (2000.0, 2000.0, 0.5 * WIDTH, 0.5 * HEIGHT))}
    normal = {2: ("PINHOLE", WIDTH, HEIGHT, (FOCAL, FOCAL, 0.5 * WIDTH, 0.5 * HEIGHT))}
    write_colmap(
        tmp_path / "with/sparse/0",
        names,
        [*near, far_at((300.0, 0, 100.0))],
        cameras=tele | normal,
        camera_of=lambda row: 1 if row == 12 else 2,
    )
    capture = scenes.open(tmp_path / "with")
    assert len(capture.views) == 13 and not capture.unused
    assert [view.name for view in capture.views if view.distant] == ["0012.png"]
    assert sizes_of(capture) == pytest.approx(sizes_of(without), rel=1e-6)
    kept = scenes.open(tmp_path / "with", far_cameras="keep")
    assert scene_extent(kept.train) > 300 and not any(view.distant for view in kept.views)


def test_in_large_coordinates_too(tmp_path: Path) -> None:
    utm = (5e5, 5e6, 200.0)
    capture = scenes.open(colmap_of(tmp_path, [*ring(12), far_at((1000.0, 0, 1e6))], utm))
    assert capture.shift.tolist() == list(utm) and len(capture.views) == 12
    assert 3 < capture.extent < 3.5
    assert any(SAID in text for text in capture.warnings)


def test_cameras_are_kept_where_that_is_asked_for(tmp_path: Path) -> None:
    folder = colmap_of(tmp_path, [*ring(12), far_at((1e6, 0, 0))])
    capture = scenes.open(folder, far_cameras="keep")
    assert len(capture.views) == 13 and scene_extent(capture.train) > 1e5
    assert not any(SAID in text for text in capture.warnings)
    with pytest.raises(scenes.CaptureError, match="far_cameras='drop' is invalid"):
        scenes.open(folder, far_cameras="drop")


def tripods(spread: float) -> np.ndarray:
    """Cameras that turn on a tripod, and a quarter of them on another one, two units away."""
    poses = []
    for row in range(16):
        a, at = 2 * np.pi * row / 16, np.array([0.0 if row < 12 else 2.0, 0, 1.5])
        at = at + spread * np.array([np.sin(7 * row), np.cos(5 * row), np.sin(3 * row)])
        poses.append(camera_at(at.tolist(), (at + np.array([np.cos(a), np.sin(a), 0.1])).tolist()))
    return np.stack(poses)


def walk() -> np.ndarray:
    """Cameras along a street, each farther from the last one than that from the one before."""
    return np.stack([camera_at((1.2**row, 0, 1.5), (1.2**row, 4, 1.5)) for row in range(30)])


def drone() -> np.ndarray:
    """Close views of a thing, and a few from above at twenty times the distance."""
    return np.stack([*ring(12), *(camera_at((3 * row, 5, 60)) for row in range(3))])


@pytest.mark.parametrize("poses", [np.stack(ring(8)), tripods(1e-3), tripods(0), walk(), drone()])
@pytest.mark.parametrize("points", [XYZ, np.zeros((0, 3))])
def test_usual_captures_have_no_far_cameras(poses: np.ndarray, points: np.ndarray) -> None:
    assert not find_far(poses, points).far.any()


def test_a_sound_capture_is_silent(tmp_path: Path) -> None:
    capture = scenes.open(colmap_of(tmp_path, ring(12)))
    assert not capture.unused and not capture.warnings and not any(view.distant for view in capture.views)


def trained(capture: Path, run: Path, steps: int = 40) -> bytes:
    args = ["train", str(capture), "--run", str(run), "--steps", str(steps), "--device", "cpu", "--no-lpips"]
    assert main([*args, "--report-every", "1", "--no-check-capture"]) == 0
    return (run / "scene.ply").read_bytes()


def test_training_is_as_without_it(tmp_path: Path) -> None:
    """Bit for bit: the same views, sizes and rates."""
    near = ring(9)
    without = trained(colmap_of(tmp_path / "without", near), tmp_path / "run1")
    with_far = colmap_of(tmp_path / "with", [*near, far_at((1e6, 1e5, 0))])
    assert trained(with_far, tmp_path / "run2") == without
    scores = [json.loads((tmp_path / r / "eval/report.json").read_text())["mean"] for r in ("run1", "run2")]
    assert scores[0] == scores[1]


def test_inspect_names_it_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = colmap_of(tmp_path, [*ring(12), far_at((1e6, 2e5, 0))])
    assert main(["inspect", str(folder), "--device", "cpu"]) == 0
    out = "".join(capsys.readouterr())
    assert out.count(SAID) == 1 and "0012.png" in out and "Correct its pose, or remove the image." in out
    assert "Nothing was found" not in out


FAR_POINTS = {
    "one": [(1e6, 0, 0)],
    "a few in all directions": [(1e6, 0, 0), (0, -1e7, 0), (4e5, 0, 3e5)],
    "a pair": [(1e6, 0, 0), (1e6, 1, 0)],
}


@pytest.mark.parametrize("where", FAR_POINTS.values(), ids=FAR_POINTS)
def test_far_points_do_not_set_the_size(tmp_path: Path, where: list[tuple[float, float, float]]) -> None:
    poses = ring(12)
    names = write_images(tmp_path / "images", poses)
    xyz = np.concatenate([XYZ, np.array(where)])
    rgb = np.concatenate([RGB, np.zeros((len(where), 3), np.uint8)])
    write_colmap(tmp_path / "sparse/0", names, poses, points=(xyz, rgb))
    plain = scenes.open(colmap_of(tmp_path / "plain", poses))
    capture = scenes.open(tmp_path)
    assert len(capture.views) == 12 and not any(view.distant for view in capture.views)
    assert sizes_of(capture) == pytest.approx(sizes_of(plain), rel=1e-6)
