"""Rigs of cameras of other programs: their frames have the times of timestamps or numbers, and each camera its pose."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from film_writing import packets_of, shade, write_film
from PIL import Image
from ray_cast_capture import (
    FOCAL,
    HEIGHT,
    WIDTH,
    cast,
    pinhole_rays,
    ring,
    transforms,
    write_colmap,
    write_ply_points,
)

from luxel import scenes
from luxel.scenes.captures.open_capture import Capture
from luxel.scenes.errors import CaptureError

LOW, PER_SECOND = 20.0, 100.0  # grey levels: at time 0, more each second
STRIPE = 16  # columns at the left whose grey level says the camera


def at(time: float, camera: int = 0) -> np.ndarray:
    """A frame whose grey level says its time, and a stripe its camera."""
    pixels = shade(*(LOW + PER_SECOND * time,) * 3)
    pixels[:, :STRIPE] = 40 + 20 * camera
    return pixels


def time_of(pixels: np.ndarray) -> float:
    """The time that a frame says, seconds."""
    return float(pixels[:, STRIPE + 8 :].mean() - LOW) / PER_SECOND


def calibrate(folder: Path, names: Sequence[str], **keys: object) -> Path:
    """transforms.json of cameras with these films or folders, and points."""
    write_ply_points(folder / "points3D.ply")
    (folder / "transforms.json").write_text(json.dumps(transforms(names, ring(len(names)), **keys)))
    return folder


def check_times(capture: Capture, tolerance: float = 0.02, start: float = 0.0) -> None:
    """The time of each view is the one that its pixels show, and its pose that of its camera."""
    names = sorted({view.name.split("/")[0] for view in capture.views})
    for view in capture.views:
        pixels = view.read().rgb
        camera = names.index(view.name.split("/")[0])
        assert round((pixels[:, : STRIPE - 8].mean() - 40) / 20) == camera
        assert abs(time_of(pixels) - start - view.time) < tolerance, view.name
        expected = np.linalg.inv(ring(len(names))[camera])
        np.testing.assert_allclose(view.camera.world_to_cam.double().numpy(), expected, atol=2e-6)


def counts(capture: Capture) -> list[int]:
    names = [view.name.split("/")[0] for view in capture.views]
    return [names.count(name) for name in sorted(set(names))]


def films(folder: Path, cameras: Sequence[Sequence[float]], suffix: str = ".mp4", rate: float = 10) -> Path:
    """A film for each camera with frames at these times."""
    container = "mpegts" if suffix == ".mts" else None
    for number, times in enumerate(cameras):
        write_film(
            folder / f"cam{number:02d}{suffix}",
            [at(time, number) for time in times],
            rate,
            times=times,
            container=container,
        )
    return calibrate(folder, [f"cam{number:02d}{suffix}" for number in range(len(cameras))])


def every(step: float, count: int, start: float = 0.0) -> list[float]:
    return [start + step * number for number in range(count)]


# Films


@pytest.mark.parametrize("suffix", [".mp4", ".mov", ".mkv", ".mts"])
def test_films_of_different_rates_are_matched_by_their_timestamps(tmp_path: Path, suffix: str) -> None:
    capture = scenes.open(films(tmp_path, [every(1 / 24, 24)] * 2 + [every(1 / 12, 24)] * 2, suffix))
    assert counts(capture) == [24] * 4
    check_times(capture)
    assert max(view.time for view in capture.views) == pytest.approx(23 / 12, abs=2e-3)
    rates, spans = capture.warnings
    assert rates.startswith("The films have 12 to 24 frames a second")
    assert "0.00 to 1.92 s" in spans and "cam00 ends at 0.96 s" in spans


def test_films_of_a_variable_rate_are_matched_by_their_timestamps(tmp_path: Path) -> None:
    times = [0, 0.1, 0.3, 0.4, 0.8, 0.9]
    capture = scenes.open(films(tmp_path, [times, every(0.1, 10), times, every(0.1, 10)]))
    assert counts(capture) == [6, 10, 6, 10]
    check_times(capture)
    assert len({view.time for view in capture.views}) == 10, "equal times are one number"


@pytest.mark.parametrize("suffix", [".mp4", ".mkv"])
def test_a_film_that_begins_later_has_later_times(tmp_path: Path, suffix: str) -> None:
    capture = scenes.open(films(tmp_path, [every(0.1, 10), every(0.1, 10), every(0.1, 10, 0.5)], suffix))
    assert counts(capture) == [10] * 3
    check_times(capture)
    assert "cam02 begins at 0.50 s" in capture.warnings[0] and len(capture.warnings) == 1
    assert {view.name[:5] for view in capture.views if view.time < 0.45} == {"cam00", "cam01"}


def test_the_clock_of_transport_streams_is_their_own(tmp_path: Path) -> None:
    """MPEG-TS begins at any time: the films are taken to begin together."""
    cameras = [every(0.1, 8, start) for start in (0.0, 5.0, 60.0)]
    for number, times in enumerate(cameras):
        drawn = [at(time, number) for time in every(0.1, 8)]
        write_film(tmp_path / f"cam{number:02d}.mts", drawn, times=times, container="mpegts")
    capture = scenes.open(calibrate(tmp_path, [f"cam{number:02d}.mts" for number in range(3)]))
    check_times(capture)
    assert capture.warnings == [] and len({view.time for view in capture.views}) == 8


def test_films_that_share_no_time_are_taken_to_begin_together(tmp_path: Path) -> None:
    for number, start in enumerate((0.0, 0.0, 30.0)):
        drawn = [at(time, number) for time in every(0.1, 8)]
        write_film(tmp_path / f"cam{number:02d}.mp4", drawn, times=every(0.1, 8, start))
    capture = scenes.open(calibrate(tmp_path, [f"cam{number:02d}.mp4" for number in range(3)]))
    check_times(capture)
    assert capture.warnings == [
        "By their timestamps the films show no common time (cam02 begins 30.00 s after the first one); all are taken "
        "to begin together."
    ]


def test_b_frames_delay_no_film(tmp_path: Path) -> None:
    """What an encoder reorders shifts timestamps in some containers, but not what is shown when."""
    for number, options in enumerate(({"bf": "0", "crf": "4"}, {"bf": "3", "crf": "4", "b-pyramid": "none"})):
        for suffix in (".mp4", ".mkv"):
            drawn = [at(time, 0) for time in every(0.1, 12)]
            name = f"cam{number}{suffix[1:]}{suffix}"
            write_film(
                tmp_path / name,
                drawn,
                options=options,
                mux={"use_editlist": "0"} if suffix == ".mp4" else None,
            )
    names = sorted(path.name for path in tmp_path.glob("cam*"))
    capture = scenes.open(calibrate(tmp_path, names))
    assert counts(capture) == [12] * 4 and capture.warnings == []
    for view in capture.views:
        assert abs(time_of(view.read().rgb) - view.time) < 0.02, view.name


def test_sound_films_of_one_rate_are_silent(tmp_path: Path) -> None:
    capture = scenes.open(films(tmp_path, [every(0.1, 12)] * 4))
    check_times(capture)
    assert capture.warnings == [] and capture.unused == []
    assert sorted({view.time for view in capture.views}) == pytest.approx(every(0.1, 12))
    assert capture.views[13].name == "cam01/000001.jpg"


@pytest.mark.parametrize("place", [0, 2, 3])
@pytest.mark.parametrize("suffix", [".mp4", ".avi"])
def test_a_film_cut_short_does_not_cut_the_others(tmp_path: Path, place: int, suffix: str) -> None:
    options = {"crf": "4", "g": "1", "bf": "0"} if suffix == ".mp4" else {"q": "2", "g": "1"}
    for number in range(4):
        path = tmp_path / f"cam{number:02d}{suffix}"
        drawn = [at(time, number) for time in every(0.1, 12)]
        codec, mux = ("libx264", {"movflags": "faststart"}) if suffix == ".mp4" else ("mpeg4", None)
        write_film(path, drawn, codec=codec, options=options, mux=mux)
        if number == place:
            position, size = packets_of(path)[3]
            path.write_bytes(path.read_bytes()[: position + size // 2])
    capture = scenes.open(calibrate(tmp_path, [f"cam{number:02d}{suffix}" for number in range(4)]))
    assert counts(capture) == [3 if number == place else 12 for number in range(4)]
    check_times(capture, 0.02 if suffix == ".mp4" else 0.045)
    name = f"cam{place:02d}{suffix}"
    assert (
        f"{name}: 3 of 12 frames could be read; the film is cut short. Copy or export it again."
        in capture.warnings
    )
    assert f"cam{place:02d} ends at 0.20 s" in capture.warnings[0]


def test_several_films_cut_short_are_one_line(tmp_path: Path) -> None:
    for number in range(4):
        path = tmp_path / f"cam{number:02d}.mp4"
        drawn = [at(time, number) for time in every(0.1, 12)]
        write_film(path, drawn, options={"g": "1", "bf": "0"}, mux={"movflags": "faststart"})
        if number:
            position, size = packets_of(path)[12 - 2 * number]
            path.write_bytes(path.read_bytes()[: position + size // 2])
    capture = scenes.open(calibrate(tmp_path, [f"cam{number:02d}.mp4" for number in range(4)]))
    assert counts(capture) == [12, 10, 8, 6]
    (entry,) = capture.unused
    assert entry.count == 12
    assert entry.problem == (
        "3 films are cut short or damaged, such as cam03.mp4, which is cut short (6 of 12 frames could be read)."
    )


def test_a_film_cut_short_after_the_frames_that_are_used_is_named_too(tmp_path: Path) -> None:
    for number in range(3):
        path = tmp_path / f"cam{number:02d}.mp4"
        drawn = [at(time, number) for time in every(0.1, 12)]
        write_film(path, drawn, options={"g": "1", "bf": "0"}, mux={"movflags": "faststart"})
        if number == 1:
            position, _ = packets_of(path)[11]
            path.write_bytes(path.read_bytes()[: position - 2])
    capture = scenes.open(calibrate(tmp_path, [f"cam{number:02d}.mp4" for number in range(3)]), frames=2)
    assert counts(capture) == [2, 2, 2] and [entry.count for entry in capture.unused] == [1]
    assert capture.unused[0].problem == "cam01.mp4: 11 of 12 frames could be read; the film is cut short."


def test_damaged_frames_do_not_shift_those_after_them(tmp_path: Path) -> None:
    root = films(tmp_path, [every(0.1, 12)] * 3)
    for number in range(3):
        write_film(
            root / f"cam{number:02d}.mp4",
            [at(time, number) for time in every(0.1, 12)],
            options={"g": "1", "bf": "0", "crf": "4"},
        )
    path = root / "cam01.mp4"
    data = bytearray(path.read_bytes())
    for number in (4, 5):
        position, size = packets_of(path)[number]
        data[position + 8 : position + size] = bytes(size - 8)
    path.write_bytes(data)
    capture = scenes.open(root)
    assert counts(capture) == [12, 10, 12]
    check_times(capture)
    assert "cam01.mp4: 10 of 12 frames could be read; the film is damaged." in capture.warnings[0]


def test_fewer_frames_of_films_of_different_rates_are_of_the_same_times(tmp_path: Path) -> None:
    capture = scenes.open(films(tmp_path, [every(0.05, 20), every(0.1, 10), every(0.05, 20)]), frames=5)
    check_times(capture)
    assert counts(capture) == [5, 5, 5]
    assert sorted({view.time for view in capture.views}) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8], abs=1e-3)


def test_cut_out_films_of_cameras_have_alpha(tmp_path: Path) -> None:
    for number in range(3):
        drawn = []
        for time in every(0.1, 4):
            alpha = np.zeros((36, 48, 1), np.uint8)
            alpha[8:28, 12:36] = 255
            drawn.append(np.dstack([at(time, number), alpha]))
        write_film(tmp_path / f"cam{number:02d}.mov", drawn, codec="png", pix_fmt="rgba", options={})
    capture = scenes.open(calibrate(tmp_path, [f"cam{number:02d}.mov" for number in range(3)]))
    assert capture.cutout and capture.warnings == []
    alpha = capture.views[5].read().alpha
    assert alpha is not None and (alpha[8:28, 12:36] == 255).all() and (alpha[:8] == 0).all()


# Folders of numbered images


def folders(
    root: Path,
    cameras: Sequence[Sequence[int]],
    name: Callable[[int, int], str] = lambda camera, number: f"{number:06d}.png",
    inside: str = "",
    step: float = 0.1,
    **keys: object,
) -> Path:
    """A folder of images for each camera, of these numbers, at the times number x step."""
    for camera, numbers in enumerate(cameras):
        folder = root / f"cam{camera:02d}" / inside
        folder.mkdir(parents=True)
        for number in numbers:
            Image.fromarray(at(number * step, camera)).save(folder / name(camera, number))
    return calibrate(root, [f"cam{camera:02d}" for camera in range(len(cameras))], **keys)


def test_images_of_a_camera_that_starts_later_are_matched_by_their_numbers(tmp_path: Path) -> None:
    capture = scenes.open(folders(tmp_path, [range(12)] * 3 + [range(6, 18)], fps=10))
    assert counts(capture) == [12] * 4
    check_times(capture)
    assert capture.warnings == [
        "All cameras have 6 of the 18 numbers of frames (cam03: 12, from 6 to 17); frames of one number are taken at "
        "one time."
    ]


def test_images_with_gaps_are_matched_by_their_numbers(tmp_path: Path) -> None:
    numbers = [[n for n in range(12) if n != missing] for missing in (2, 4, 6, 8)]
    capture = scenes.open(folders(tmp_path, numbers, fps=10))
    check_times(capture)
    assert "All cameras have 8 of the 12 numbers" in capture.warnings[0] and len(capture.warnings) == 1


NAMES = {
    "of the camera too": lambda camera, number: f"cam{camera:02d}_{number:05d}.png",
    "without zeros": lambda camera, number: f"{number}.png",
    "before a word": lambda camera, number: f"frame{number:04d}_left.png",
    "before a version": lambda camera, number: f"{number:04d}_v2.png",
    "of two parts": lambda camera, number: f"take3-{number:04d}.png",
}


@pytest.mark.parametrize("kind", NAMES)
def test_numbers_are_where_names_differ(tmp_path: Path, kind: str) -> None:
    numbers = [range(8, 14), range(9, 15), range(8, 14)]
    capture = scenes.open(folders(tmp_path, numbers, NAMES[kind], fps=10))
    check_times(capture, start=0.8)
    assert sorted({round(view.time, 6) for view in capture.views}) == pytest.approx(every(0.1, 7))


def test_every_tenth_image_is_a_frame_of_the_rate(tmp_path: Path) -> None:
    capture = scenes.open(folders(tmp_path, [range(100, 200, 10), range(110, 200, 10)], step=0.01, fps=10))
    check_times(capture, start=1.0)


def test_times_without_a_rate_are_shares(tmp_path: Path) -> None:
    capture = scenes.open(folders(tmp_path, [range(3, 9), range(5, 14)]))
    of = {view.name: view.time for view in capture.views}
    assert of["cam00/000003.png"] == 0 and of["cam01/000013.png"] == 1
    assert of["cam00/000007.png"] == of["cam01/000007.png"] == pytest.approx(0.4)


@pytest.mark.parametrize("unit", [1, 10**3, 10**6, 10**9])
def test_unix_times_in_names_are_seconds(tmp_path: Path, unit: int) -> None:
    start, step = 1_700_000_000 * unit, max(1, unit // 10)
    for camera in range(3):
        (tmp_path / f"cam{camera:02d}").mkdir()
        for number in range(6):
            pixels = at(number * step / unit / 10, camera)
            Image.fromarray(pixels).save(tmp_path / f"cam{camera:02d}" / f"{start + number * step}.png")
    capture = scenes.open(calibrate(tmp_path, [f"cam{camera:02d}" for camera in range(3)], fps=30))
    times = sorted({view.time for view in capture.views})
    assert times == pytest.approx([number * step / unit for number in range(6)], abs=1e-9)
    assert capture.warnings == []


def test_a_counter_of_its_own_is_matched_by_order_and_named(tmp_path: Path) -> None:
    capture = scenes.open(folders(tmp_path, [range(6), range(6), range(501, 507)], fps=10))
    times = [view.time for view in capture.views]
    assert times == pytest.approx(every(0.1, 6) * 3)
    assert capture.warnings == [
        "cam02: its frames have numbers (501 to 506) that are not among those of other cameras, and are matched by "
        "their order. Give frames of one time one number."
    ]


def test_names_without_numbers_are_matched_by_order_and_named(tmp_path: Path) -> None:
    letters = [range(6), range(5), range(6)]
    capture = scenes.open(
        folders(tmp_path, letters, lambda camera, number: f"{'abcdef'[number]}.png", fps=10)
    )
    check_times(capture)
    assert capture.warnings == [
        "The names of the frames of cam00 have no numbers, and the cameras have 5 to 6 frames: they are matched by "
        "their order. Name them by the numbers of their times."
    ]


def test_images_of_the_same_numbers_are_silent(tmp_path: Path) -> None:
    capture = scenes.open(folders(tmp_path, [range(1, 9)] * 4, fps=10))
    check_times(capture, start=0.1)
    assert capture.warnings == [] and capture.unused == []


def test_films_and_folders_of_one_rig_share_a_clock(tmp_path: Path) -> None:
    write_film(tmp_path / "cam00.mp4", [at(time, 0) for time in every(0.1, 8)])
    (tmp_path / "cam01").mkdir()
    for number in range(8):
        Image.fromarray(at(0.1 * number, 1)).save(tmp_path / "cam01" / f"{number}.png")
    capture = scenes.open(calibrate(tmp_path, ["cam00.mp4", "cam01"]))
    assert counts(capture) == [8, 8]
    check_times(capture)


# Layouts of Neural 3D Video


def llff_row(pose: np.ndarray, width: int = WIDTH, height: int = HEIGHT) -> np.ndarray:
    """A row of poses_bounds.npy of a pose, cam_to_world with OpenCV axes."""
    right, down, forward, eye = pose[:3].T
    return np.r_[np.c_[down, right, -forward, eye, [height, width, FOCAL * width / WIDTH]].ravel(), 1.0, 9.0]


def check_poses(capture: Capture, poses: dict[str, np.ndarray]) -> None:
    for view in capture.views:
        expected = np.linalg.inv(poses[view.name.split("/")[0]])
        np.testing.assert_allclose(view.camera.world_to_cam.double().numpy(), expected, atol=1e-5)


INNER = ["images", "input", "frames", "rgb"]


@pytest.mark.parametrize(
    ("calibration", "inside"),
    [
        *product(["LLFF", "transforms", "COLMAP"], [*INNER, ""]),
        *product(["transforms of the inner folders"], INNER),
    ],
)
def test_frames_in_folders_of_cameras(tmp_path: Path, calibration: str, inside: str) -> None:
    names = [f"cam{camera:02d}" for camera in range(4)]
    folders(tmp_path, [range(3)] * 4, lambda camera, number: f"{number:04d}.png", inside, fps=10)
    if calibration.endswith("folders"):
        calibrate(tmp_path, [f"{name}/{inside}" for name in names], fps=10)
    if not calibration.startswith("transforms"):
        (tmp_path / "transforms.json").unlink()
    if calibration == "LLFF":
        np.save(tmp_path / "poses_bounds.npy", np.stack([llff_row(pose) for pose in ring(4)]))
    if calibration == "COLMAP":
        write_colmap(tmp_path / "sparse" / "0", [f"{name}.png" for name in names], ring(4))
    capture = scenes.open(tmp_path)
    assert capture.format == "synchronised cameras" and counts(capture) == [3] * 4
    assert {view.name.split("/")[0] for view in capture.views} == set(names)
    check_poses(capture, dict(zip(names, ring(4), strict=True)))
    assert len({view.time for view in capture.views}) == 3


def test_a_film_in_the_folder_of_each_camera(tmp_path: Path) -> None:
    for camera in range(3):
        write_film(tmp_path / f"cam{camera:02d}" / "video.mp4", [at(time, camera) for time in every(0.1, 5)])
    np.save(tmp_path / "poses_bounds.npy", np.stack([llff_row(pose) for pose in ring(3)]))
    write_ply_points(tmp_path / "points3D.ply")
    capture = scenes.open(tmp_path)
    assert counts(capture) == [5] * 3
    check_times(capture)


def room_views(count: int, width: int = 160) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Poses on an arc of 100 degrees, and what they see."""
    poses = ring(36)[:count]
    height = width * HEIGHT // WIDTH
    rays = pinhole_rays(width, height, FOCAL * width / WIDTH)
    return poses, [cast(pose, rays)[0] for pose in poses]


def of_the_order(capture: Capture) -> list[str]:
    return [warning for warning in capture.warnings if warning.startswith("poses_bounds.npy")]


def unpadded(
    root: Path, rows: Sequence[int], *, drawn: bool = True, film: bool = False, name: str = "cam_{}"
) -> dict[str, np.ndarray]:
    """Twelve cameras without leading zeros in their names; ``rows`` says whose pose each row has."""
    poses, images = room_views(12)
    for camera, pixels in enumerate(images):
        shown = pixels if drawn else shade(120, 120, 120, size=pixels.shape[1::-1])
        if film:
            write_film(root / f"{name.format(camera)}.mp4", [shown, shown])
            continue
        (root / name.format(camera)).mkdir(parents=True)
        for number in range(2):
            Image.fromarray(shown).save(root / name.format(camera) / f"{number:04d}.png")
    height, width = images[0].shape[:2]
    np.save(root / "poses_bounds.npy", np.stack([llff_row(poses[row], width, height) for row in rows]))
    write_ply_points(root / "points3D.ply")
    return {name.format(camera): pose for camera, pose in enumerate(poses)}


AS_TEXT = sorted(range(12), key=str)


@pytest.mark.parametrize("film", [False, True], ids=["folders", "films"])
@pytest.mark.parametrize("name", ["cam_{}", "{}", "view{}-a"])
def test_rows_are_the_cameras_sorted_as_text(tmp_path: Path, film: bool, name: str) -> None:
    poses = unpadded(tmp_path, AS_TEXT, film=film, name=name)
    capture = scenes.open(tmp_path)
    check_poses(capture, poses)
    first, tenth, second = (name.format(number) for number in (0, 10, 2))
    assert of_the_order(capture) == [
        "poses_bounds.npy: its rows are taken for the cameras sorted as text, as LLFF sorts them: row 2 is "
        f"{tenth}, not {second}. Their images agree with it."
    ]
    assert {view.name.split("/")[0] for view in capture.test} == {first}


@pytest.mark.parametrize("film", [False, True], ids=["folders", "films"])
def test_rows_in_the_order_of_numbers_are_recognised_by_the_images(tmp_path: Path, film: bool) -> None:
    poses = unpadded(tmp_path, range(12), film=film)
    capture = scenes.open(tmp_path)
    check_poses(capture, poses)
    assert of_the_order(capture) == [
        "poses_bounds.npy: its rows are taken for the cameras sorted by number: row 2 is cam_2, not cam_10. Their "
        "images agree with it."
    ]


def test_where_images_say_nothing_the_order_is_that_of_text_and_doubtful(tmp_path: Path) -> None:
    poses = unpadded(tmp_path, AS_TEXT, drawn=False)
    capture = scenes.open(tmp_path)
    check_poses(capture, poses)
    assert "Their images do not say whether that is so" in of_the_order(capture)[0]
    assert "rename them with leading zeros" in of_the_order(capture)[0]


def test_names_with_leading_zeros_are_silent(tmp_path: Path) -> None:
    poses = unpadded(tmp_path, range(12), name="cam_{:02d}")
    capture = scenes.open(tmp_path)
    check_poses(capture, poses)
    assert of_the_order(capture) == []


def test_images_of_other_sizes_than_their_rows_are_refused(tmp_path: Path) -> None:
    unpadded(tmp_path, AS_TEXT)
    table = np.load(tmp_path / "poses_bounds.npy")
    table[:, 9] *= 2
    np.save(tmp_path / "poses_bounds.npy", table)
    with pytest.raises(CaptureError, match=r"poses_bounds\.npy"):
        scenes.open(tmp_path)
