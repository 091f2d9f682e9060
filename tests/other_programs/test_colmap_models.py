"""COLMAP models as other programs, other systems and people write them."""

from __future__ import annotations

import re
import shutil
import struct
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from ray_cast_capture import (
    FOCAL,
    HEIGHT,
    WIDTH,
    colmap_capture,
    quaternion,
    ring,
    write_colmap,
    write_images,
)

from luxel import scenes
from luxel.scenes.captures.capture_format import ReadOptions
from luxel.scenes.captures.depth.tracks import visible_points
from luxel.scenes.captures.formats.colmap import image_names, read_model
from luxel.scenes.captures.formats.colmap_writing import save_colmap
from luxel.scenes.captures.open_capture import read_contents

FILES = ("cameras", "images", "points3D")


def assert_ring(capture: scenes.Capture, count: int = 8) -> None:
    """The views are those of the ring of cameras, in its order."""
    assert len(capture.views) == count
    for view, pose in zip(capture.views, ring(count), strict=True):
        np.testing.assert_allclose(view.camera.world_to_cam.double().numpy(), np.linalg.inv(pose), atol=2e-6)


def image_lines(names: Sequence[str], points: Callable[[int], str | None]) -> str:
    """images.txt of the ring; ``points`` is the second line of an image, None: it has none."""
    lines = ["# Image list"]
    for row, pose in enumerate(ring(len(names))):
        inverse = np.linalg.inv(pose)
        values = " ".join(repr(float(v)) for v in (*quaternion(inverse[:3, :3]), *inverse[:3, 3]))
        second = points(row)
        lines += [f"{row + 1} {values} 1 {names[row]}", *([] if second is None else [second])]
    return "\n".join([*lines, ""])


# The second line of images.txt

SECOND_LINES: dict[str, Callable[[int], str | None]] = {
    "none": lambda row: None,
    "empty": lambda row: "",
    "of blanks": lambda row: "   \t",
    "one point": lambda row: "10.5 20.25 -1",
    "three points": lambda row: "10.5 20.25 -1 11 12 7 1e1 2.0 3",
    "many points": lambda row: " ".join(["10.5 20.25 -1"] * 40),
    "some have none": lambda row: None if row % 3 else "",
    "some have points": lambda row: [None, "", "1 2 3", "1 2 3 4 5 6 7 8 9 10 11 12"][row % 4],
    "a comment between": lambda row: "# no points",
}
NAMES: dict[str, Callable[[int], str]] = {
    "plain": "{:04d}.png".format,
    "with blanks": "view {0} of 8.png".format,
    "beginning with a number": "{0} 12 monkeys.png".format,
    "of numbers": "{0} 5 17 2 3.png".format,
    "without a suffix": "{:06d}".format,
}


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("points", SECOND_LINES)
def test_no_image_is_lost_with_or_without_a_second_line(points: str, names: str, tmp_path: Path) -> None:
    poses = ring()
    stated = [NAMES[names](row) for row in range(8)]
    write_images(tmp_path / "images", poses, "{:04d}.png".format)
    for row, name in enumerate(stated):
        (tmp_path / f"images/{row:04d}.png").rename(tmp_path / "images" / name)
    model = write_colmap(tmp_path / "sparse/0", stated, poses)
    (model / "images.txt").write_text(image_lines(stated, SECOND_LINES[points]))
    assert image_names(model) == stated
    capture = scenes.open(tmp_path)
    assert capture.warnings == [] and [view.name for view in capture.views] == stated
    assert_ring(capture)


@pytest.mark.parametrize(
    ("second", "line"), [("10 20 x", 3), ("10 20", 3), ("a b c", 3), ("1 1 0 0 0 0 0 0 1", None), ("0.5", 3)]
)
def test_a_line_that_is_neither_is_named(second: str, line: int | None, tmp_path: Path) -> None:
    model = colmap_capture(tmp_path) / "sparse/0"
    (model / "images.txt").write_text(image_lines([f"{row:04d}.png" for row in range(8)], lambda row: second))
    if line is None:
        assert len(scenes.open(tmp_path).views) == 8
        return
    with pytest.raises(scenes.CaptureError, match=rf"images\.txt: line {line} is not a valid image"):
        scenes.open(tmp_path)


@pytest.mark.parametrize("points", ["none", "empty", "some have points"])
def test_tracks_are_of_the_same_images(points: str, tmp_path: Path) -> None:
    names = [f"cam\\{row:04d}.png" for row in range(8)]
    model = write_colmap(tmp_path, names, ring())
    (model / "images.txt").write_text(image_lines(names, SECOND_LINES[points]))
    (model / "points3D.txt").write_text(
        "1 0.1 0.2 0.3 9 9 9 0.5 1 0 2 0 8 0\n2 1 1 1 9 9 9 0.5 3 0 4 0 5 0\n"
    )
    tracks = visible_points(model)
    assert {name: len(xyz) for name, xyz in tracks.items()} == {
        f"cam/{row:04d}.png": int(row in (0, 1, 7, 2, 3, 4)) for row in range(8)
    }
    np.testing.assert_array_equal(tracks["cam/0007.png"], [[0.1, 0.2, 0.3]])


# Text of Windows editors


@pytest.mark.parametrize("files", [*[(name,) for name in FILES], FILES])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "crlf"])
@pytest.mark.parametrize("comment", [False, True])
def test_text_of_windows_editors_is_read(
    files: Sequence[str], encoding: str, comment: bool, tmp_path: Path
) -> None:
    model = colmap_capture(tmp_path) / "sparse/0"
    for name in files:
        file = model / f"{name}.txt"
        text = file.read_text() if comment else file.read_text().split("\n", 1)[1]
        data = text.replace("\n", "\r\n").encode("utf-8-sig" if encoding == "crlf" else encoding)
        file.write_bytes(data if encoding != "utf-16" else b"\xff\xfe" + text.encode("utf-16-le"))
    capture = scenes.open(tmp_path)
    assert capture.warnings == [] and len(capture.points.xyz) == 600
    assert_ring(capture)


# Names

FORMS: dict[str, Callable[[str], str]] = {
    "NFC": lambda name: unicodedata.normalize("NFC", name),
    "NFD": lambda name: unicodedata.normalize("NFD", name),
    "upper case": str.upper,
    "backslashes": lambda name: name.replace("/", "\\"),
    "a dot before": lambda name: f"./{name}",
    "absolute": lambda name: f"/home/someone/scan/images/{name}",
    "absolute of Windows": lambda name: f"C:\\scan\\images\\{name}".replace("/", "\\"),
}


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("stored", ["NFC", "NFD"])
@pytest.mark.parametrize("stated", FORMS)
def test_images_are_found_by_names_in_other_forms(
    stated: str, stored: str, binary: bool, tmp_path: Path
) -> None:
    poses = ring()
    plain = [f"Straße {row}/Größe {row}é.png" for row in range(8)]
    write_images(tmp_path / "images", poses, lambda row: FORMS[stored](plain[row]))
    write_colmap(tmp_path / "sparse/0", [FORMS[stated](name) for name in plain], poses, binary=binary)
    capture = scenes.open(tmp_path)
    assert_ring(capture)
    # One form of the names: that of the files, with slashes.
    assert [view.name for view in capture.views] == [FORMS[stored](name) for name in plain]
    assert all(view.path is not None and view.path.is_file() for view in capture.views)
    if stated.startswith("absolute"):
        (warning,) = capture.warnings
        assert "8 absolute paths of another folder" in warning and "someone" in warning + "someone" * (
            "C:" in warning
        )
    else:
        assert capture.warnings == []


def test_absolute_names_of_this_capture_are_opened(tmp_path: Path) -> None:
    poses = ring()
    names = write_images(tmp_path / "images", poses)
    write_colmap(tmp_path / "sparse/0", [f"{tmp_path}/images/{name}" for name in names], poses)
    capture = scenes.open(tmp_path)
    assert capture.warnings == [] and [view.name for view in capture.views] == names
    assert_ring(capture)


@pytest.mark.parametrize(
    "name", ["{other}/secret.png", "../../other/secret.png", "..\\..\\other\\secret.png"]
)
def test_nothing_outside_of_the_capture_is_opened(name: str, tmp_path: Path) -> None:
    folder = colmap_capture(tmp_path / "capture")
    (tmp_path / "other").mkdir()
    shutil.copy(folder / "images/0000.png", tmp_path / "other/secret.png")
    file = folder / "sparse/0/images.txt"
    file.write_text(file.read_text().replace("0003.png", name.format(other=tmp_path / "other")))
    with pytest.raises(scenes.CaptureError, match="is outside the capture folder"):
        scenes.open(folder)


def test_a_backslash_in_the_name_of_a_file_of_linux(tmp_path: Path) -> None:
    poses = ring()
    names = write_images(tmp_path / "images", poses, "a\\{}.png".format)
    write_colmap(tmp_path / "sparse/0", names, poses)
    capture = scenes.open(tmp_path)
    assert [view.name for view in capture.views] == names
    assert_ring(capture)


def test_names_that_differ_by_case(tmp_path: Path) -> None:
    poses = ring()
    stated = ["A.png", "a.png", *[f"b{row}.png" for row in range(2, 8)]]
    write_images(tmp_path / "images", poses, lambda row: stated[row])
    model = write_colmap(tmp_path / "sparse/0", stated, poses)
    capture = scenes.open(tmp_path)
    assert sorted(view.name for view in capture.views) == sorted(stated)
    by_name = {view.name: view.camera.world_to_cam.double().numpy() for view in capture.views}
    for row, name in enumerate(stated):
        np.testing.assert_allclose(by_name[name], np.linalg.inv(poses[row]), atol=2e-6)
    (tmp_path / "images/a.png").unlink()
    with pytest.raises(scenes.CaptureError, match=r"listed twice, also as 'A\.png'"):
        scenes.open(tmp_path)
    (model / "images.txt").write_text((model / "images.txt").read_text().replace("a.png", "A.png"))
    with pytest.raises(scenes.CaptureError, match=r"listed twice\.$|listed twice\. "):
        scenes.open(tmp_path)


def test_a_missing_image_is_named(tmp_path: Path) -> None:
    (colmap_capture(tmp_path) / "images/0003.png").unlink()
    with pytest.raises(scenes.CaptureError, match=r"0003\.png is missing"):
        scenes.open(tmp_path)


# Numbers


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("wrong", ["0 0 0 0", "nan 0 0 1", "1e-20 0 0 0"])
def test_a_rotation_that_is_none_is_named(binary: bool, wrong: str, tmp_path: Path) -> None:
    folder = colmap_capture(tmp_path, binary=binary)
    file = folder / f"sparse/0/images.{'bin' if binary else 'txt'}"
    if binary:
        data = bytearray(file.read_bytes())
        struct.pack_into("<4d", data, 12, *map(float, wrong.split()))
        file.write_bytes(data)
    else:
        file.write_text(re.sub(r"^1( \S+){4} ", f"1 {wrong} ", file.read_text(), flags=re.MULTILINE))
    with pytest.raises(
        scenes.CaptureError, match=r"image '0000\.png': the rotation .* is not a valid quat"
    ) as error:
        scenes.open(tmp_path)
    assert error.value.remedy


CAMERAS = {
    "shares": ("PINHOLE", [0.9, 1.2, 0.5, 0.5]),
    "shares of the longer side": ("SIMPLE_PINHOLE", [0.9, 0.5, 0.375]),
    "principal point in the corner": ("OPENCV", [FOCAL, FOCAL, 0.5, 0.5, 0, 0, 0, 0]),
    "principal point from the middle": ("SIMPLE_RADIAL", [FOCAL, 0.0, 0.0, 0.01]),
    "focal length alone": ("PINHOLE", [0.9, 0.9, 24.0, 18.0]),
}


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("case", CAMERAS)
def test_intrinsics_that_are_no_pixels_are_refused(case: str, binary: bool, tmp_path: Path) -> None:
    model, values = CAMERAS[case]
    colmap_capture(tmp_path, binary=binary, cameras={1: (model, WIDTH, HEIGHT, values)})
    with pytest.raises(
        scenes.CaptureError, match=r"camera 1: a focal length of .* are no pixels of an image of 48x36"
    ):
        scenes.open(tmp_path)


@pytest.mark.parametrize(
    "values", [(20.0, 20.0, 24.0, 18.0), (400.0, 400.0, 3.0, 30.0), (44.0, 44.0, -20.0, 18.0)]
)
def test_wide_long_and_cropped_cameras_are_read(values: Sequence[float], tmp_path: Path) -> None:
    colmap_capture(tmp_path, cameras={1: ("PINHOLE", WIDTH, HEIGHT, values)})
    assert scenes.open(tmp_path).views[0].camera.intrinsics.tolist() == list(values)


# What else a model may hold


@pytest.mark.parametrize("binary", [False, True])
def test_additions_of_later_versions_say_nothing(binary: bool, tmp_path: Path) -> None:
    model = colmap_capture(tmp_path, binary=binary) / "sparse/0"
    suffix = "bin" if binary else "txt"
    for name in ("rigs", "frames"):
        (model / f"{name}.{suffix}").write_bytes(b"\0" * 40)
    (model / "project.ini").write_text("log_to_stderr=false\n")
    if binary:
        for name in FILES:
            with (model / f"{name}.bin").open("ab") as file:
                file.write(b"later version")
    else:
        file = model / "points3D.txt"
        file.write_text(re.sub(r" 0\.5$", " 0.5 1 0 2 0 extra", file.read_text(), flags=re.MULTILINE))
    capture = scenes.open(tmp_path)
    assert capture.warnings == [] and len(capture.points.xyz) == 600
    assert_ring(capture)


def test_masks_of_a_model_of_windows(tmp_path: Path) -> None:
    poses = ring()
    names = [f"cam{row % 2}\\{row}.png" for row in range(8)]
    write_images(tmp_path / "images", poses, lambda row: names[row].replace("\\", "/"))
    write_colmap(tmp_path / "sparse/0", names, poses)
    for row, name in enumerate(names):
        file = tmp_path / "masks" / name.replace("\\", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        mask = np.full((HEIGHT, WIDTH), 255, np.uint8)
        mask[:, : row + 1] = 0
        Image.fromarray(mask).save(file)
    capture = scenes.open(tmp_path)
    by_name = {view.name: view.read().weight for view in capture.views}
    assert list(by_name) == sorted(name.replace("\\", "/") for name in names)
    for name, weight in by_name.items():
        assert weight is not None and int((weight[0] == 0).sum()) == int(Path(name).stem) + 1


def test_names_of_a_model_have_slashes(tmp_path: Path) -> None:
    for binary in (False, True):
        folder = tmp_path / str(binary)
        write_colmap(folder, [f"a\\b\\{row}.png" for row in range(8)], ring(), binary=binary)
        expected = [f"a/b/{row}.png" for row in range(8)]
        assert (
            image_names(folder) == expected and [name for name, _, _ in read_model(folder).images] == expected
        )


def test_exported_cameras_have_slashes_and_open_again(tmp_path: Path) -> None:
    poses = ring()
    names = [f"cam{row % 2}\\Größe {row}.png" for row in range(8)]
    stored = [FORMS["NFD"](name.replace("\\", "/")) for name in names]
    write_images(tmp_path / "images", poses, lambda row: stored[row])
    write_colmap(tmp_path / "sparse/0", names, poses)
    contents = read_contents(tmp_path, ReadOptions())
    assert contents.points is not None
    shutil.rmtree(tmp_path / "sparse")
    save_colmap(tmp_path / "sparse/0", contents.images, contents.points)
    assert sorted(image_names(tmp_path / "sparse/0")) == sorted(stored)
    views = {view.name: view.camera.world_to_cam.double().numpy() for view in scenes.open(tmp_path).views}
    for name, pose in zip(stored, poses, strict=True):
        np.testing.assert_allclose(views[name], np.linalg.inv(pose), atol=2e-6)
