"""Captures of several cameras: films and folders, each kind of calibration, times, splits, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import luxel.scenes as scenes
from luxel.render.geometry.camera import Camera, Points
from luxel.scenes.captures.cameras import films
from luxel.scenes.captures.contents import SourceImage
from luxel.scenes.captures.films.film import Film
from luxel.scenes.captures.formats.colmap_writing import save_colmap
from luxel.scenes.captures.lenses.lens import Lens
from luxel.scenes.errors import CaptureError
from luxel.scenes.synthetic.toy import ring_cameras
from luxel.viewer.films.film import write_film

SIZE = (64, 48)
COUNT, FRAMES, RATE = 4, 10, 8


def shade(camera: int, frame: int) -> np.ndarray:
    """A frame of one colour, which says of which camera and time it is."""
    return np.full((SIZE[1], SIZE[0], 3), (40 * camera + 20, 20 * frame + 20, 100), np.uint8)


def write_films(folder: Path, counts: tuple[int, ...] = (FRAMES,) * COUNT) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for camera, count in enumerate(counts):
        write_film(folder / f"cam{camera:02d}.mp4", [shade(camera, f) for f in range(count)], RATE)


def write_folders(folder: Path, counts: tuple[int, ...] = (FRAMES,) * COUNT) -> None:
    for camera, count in enumerate(counts):
        (folder / f"cam{camera:02d}").mkdir(parents=True)
        for frame in range(count):
            Image.fromarray(shade(camera, frame)).save(folder / f"cam{camera:02d}" / f"{frame}.png")


def llff_row(camera: Camera) -> np.ndarray:
    pose = camera.cam_to_world.double().numpy()
    right, down, forward = pose[:3, :3].T
    lens = np.array([SIZE[1], SIZE[0], float(camera.intrinsics[0])])
    return np.r_[np.c_[down, right, -forward, pose[:3, 3], lens].ravel(), 1.0, 9.0]


def calibrate_llff(folder: Path) -> None:
    np.save(folder / "poses_bounds.npy", np.stack([llff_row(camera) for camera in ring_cameras(COUNT)]))


def calibrate_transforms(folder: Path, suffix: str = ".mp4", **more: object) -> None:
    frames = [
        {
            "file_path": f"cam{index:02d}{suffix}",
            "transform_matrix": (camera.cam_to_world.double().numpy() @ np.diag([1.0, -1, -1, 1])).tolist(),
        }
        for index, camera in enumerate(ring_cameras(COUNT))
    ]
    focal = float(ring_cameras(1)[0].intrinsics[0])
    document = {"fl_x": focal, "w": SIZE[0], "h": SIZE[1], "frames": frames, **more}
    (folder / "transforms.json").write_text(json.dumps(document))


def calibrate_colmap(folder: Path) -> None:
    focal = float(ring_cameras(1)[0].intrinsics[0])
    lens = Lens(*SIZE, focal, focal, 32.0, 24.0)
    images = [
        SourceImage(f"cam{i:02d}.png", folder, lens, camera.world_to_cam.double().numpy())
        for i, camera in enumerate(ring_cameras(COUNT))
    ]
    save_colmap(
        folder / "sparse" / "0", images, Points(np.eye(3, dtype=np.float32), np.zeros((3, 3), np.uint8))
    )


CALIBRATIONS: dict[str, Callable[[Path], object]] = {
    "LLFF": calibrate_llff,
    "transforms": calibrate_transforms,
    "COLMAP": calibrate_colmap,
}


def with_points(folder: Path) -> None:
    scenes.save_points(
        folder / "points3D.ply", Points(np.eye(3, dtype=np.float32), np.zeros((3, 3), np.uint8))
    )


@pytest.mark.parametrize("name", CALIBRATIONS)
def test_frames_of_films_have_cameras_and_times(tmp_path: Path, name: str) -> None:
    write_films(tmp_path)
    CALIBRATIONS[name](tmp_path)
    with_points(tmp_path)
    capture = scenes.open(tmp_path, holdout_every=2 if name != "LLFF" else 8)
    assert capture.format == "synchronised cameras" and len(capture.views) == COUNT * FRAMES
    assert sorted({view.time for view in capture.views}) == pytest.approx(np.arange(FRAMES) / RATE)
    held = {view.name[:5] for view in capture.test}
    assert held == ({"cam00"} if name == "LLFF" else {"cam00", "cam02"})
    assert len(capture.test) == FRAMES * len(held), "a camera is held out with all of its frames"
    for view in capture.views[::7]:
        camera, frame = int(view.name[3:5]), round(view.time * RATE)
        assert np.abs(view.read().rgb.astype(int) - shade(camera, frame)).max() < 12, view.name
        expected = ring_cameras(COUNT)[camera]
        assert np.allclose(view.camera.world_to_cam, expected.world_to_cam, atol=1e-5)
        assert np.allclose(view.camera.intrinsics, expected.intrinsics, atol=1e-3)


@pytest.mark.parametrize(("rate", "step"), [(4.0, 0.25), (None, 1 / (FRAMES - 1))])
def test_frames_of_folders_have_cameras_and_times(tmp_path: Path, rate: float | None, step: float) -> None:
    write_folders(tmp_path)
    calibrate_transforms(tmp_path, "", **({"fps": rate} if rate else {}))
    with_points(tmp_path)
    capture = scenes.open(tmp_path)
    assert len(capture.views) == COUNT * FRAMES
    assert sorted({view.time for view in capture.views}) == pytest.approx(step * np.arange(FRAMES))
    last = next(view for view in capture.views if view.name == "cam02/9.png")
    assert np.array_equal(last.read().rgb, shade(2, 9)) and last.time == pytest.approx(step * 9)
    assert not (tmp_path / ".luxel").exists() or not list((tmp_path / ".luxel").glob("camera-*"))


def test_fewer_frames_are_taken_evenly_and_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_films(tmp_path, (10, 9, 10, 10))
    calibrate_transforms(tmp_path)
    with_points(tmp_path)
    capture = scenes.open(tmp_path, frames=3)
    assert len(capture.views) == COUNT * 3
    assert sorted({view.time for view in capture.views}) == pytest.approx([0, 4 / RATE, 8 / RATE])

    def refuse(*_: object) -> None:
        raise AssertionError("frames are written once")

    monkeypatch.setattr(films, "_extract", refuse)
    monkeypatch.setattr(films, "film_times", refuse)
    again = scenes.open(tmp_path, frames=3)
    assert [view.path for view in again.views] == [view.path for view in capture.views]


def test_points_are_of_one_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from luxel.scenes.captures.initial_points import choice

    write_films(tmp_path)
    calibrate_transforms(tmp_path)
    used = []

    def points(root: Path, posed: list, warnings: list, **_: object) -> choice.InitialPoints:
        used.extend(reader.path.parent.name for _, reader in posed)
        return choice.InitialPoints(Points(np.eye(3, dtype=np.float32), np.zeros((3, 3), np.uint8)), "")

    monkeypatch.setattr(choice, "initial_points", points)
    scenes.open(tmp_path)
    assert len(used) == COUNT == len(set(used))


def test_other_captures_are_not_taken_for_cameras(tmp_path: Path, toy: Path) -> None:
    assert scenes.open(toy).format == "transforms.json"
    (toy / "transforms.json").write_text("{")
    with pytest.raises(CaptureError, match=r"transforms\.json"):
        scenes.open(toy)


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda f: (f / "cam03.mp4").unlink(), "there are 4 poses, but 3 films"),
        (lambda f: (f / "cam01.mp4").write_bytes(b"no film"), "cam01.mp4"),
    ],
)
def test_films_that_do_not_fit_poses(tmp_path: Path, spoil: Callable[[Path], object], problem: str) -> None:
    write_films(tmp_path)
    calibrate_llff(tmp_path)
    spoil(tmp_path)
    with pytest.raises(CaptureError, match=problem):
        scenes.open(tmp_path)


def edit(folder: Path, change: Callable[[dict], object]) -> None:
    document = json.loads((folder / "transforms.json").read_text())
    change(document)
    (folder / "transforms.json").write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda d: d["frames"][1].update(file_path="none.mp4"), "neither a film nor a folder"),
        (lambda d: d["frames"][1].update(file_path="cam00.mp4"), "two cameras named cam00"),
        (lambda d: d.update(frames=d["frames"][:1]), "one camera is too few"),
        (lambda d: d.update(fps=-1), "fps must be positive"),
    ],
)
def test_transforms_that_do_not_fit_films(
    tmp_path: Path, change: Callable[[dict], object], problem: str
) -> None:
    write_films(tmp_path)
    calibrate_transforms(tmp_path)
    edit(tmp_path, change)
    with pytest.raises(CaptureError, match=problem):
        scenes.open(tmp_path)


def test_frames_of_another_size_are_refused(tmp_path: Path) -> None:
    write_folders(tmp_path)
    calibrate_transforms(tmp_path, "")
    Image.new("RGB", (32, 24)).save(tmp_path / "cam01" / "5.png")
    with pytest.raises(
        CaptureError, match=r"5\.png: the frame is 32x24 pixels, the first of camera cam01 64x48"
    ):
        scenes.open(tmp_path)


def test_a_film_without_frames_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_films(tmp_path)
    calibrate_transforms(tmp_path)
    whole = Film.frames
    monkeypatch.setattr(
        Film, "frames", lambda film: iter(()) if film.path.name == "cam02.mp4" else whole(film)
    )
    with pytest.raises(CaptureError, match=r"cam02\.mp4: there are no frames in this film"):
        scenes.open(tmp_path)


def test_a_film_without_frames_among_unpadded_names_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for camera in range(11):
        write_film(tmp_path / f"cam{camera}.mp4", [shade(camera % 4, 0)] * 2, RATE)
    np.save(tmp_path / "poses_bounds.npy", np.stack([llff_row(camera) for camera in ring_cameras(11)]))
    monkeypatch.setattr(Film, "frames", lambda film: iter(()))
    with pytest.raises(CaptureError, match=r"cam0\.mp4: there are no frames in this film"):
        scenes.open(tmp_path)


def test_a_film_without_packets_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_films(tmp_path)
    calibrate_transforms(tmp_path)
    whole = Film.packets
    monkeypatch.setattr(
        Film, "packets", lambda film: iter(()) if film.path.name == "cam02.mp4" else whole(film)
    )
    with pytest.raises(CaptureError, match=r"cam02\.mp4: there are no frames in this film"):
        scenes.open(tmp_path)


def test_cameras_of_a_model_without_a_pose_are_left_out(tmp_path: Path) -> None:
    write_films(tmp_path, (4,) * (COUNT + 1))
    calibrate_colmap(tmp_path)
    capture = scenes.open(tmp_path)
    assert len(capture.views) == 4 * COUNT
    assert any("cam04" in warning and "no pose" in warning for warning in capture.warnings)
