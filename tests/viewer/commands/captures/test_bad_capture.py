"""Bad captures through the command line: status not 0, one message that names the file, a remedy, no traceback."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bad_input import Refused, edit, first_image
from PIL import Image

from luxel.viewer.cli import main

# -- photographs ------------------------------------------------------------------------------------------------


def test_a_capture_that_is_not_there(tmp_path: Path, refused: Refused) -> None:
    refused("train", tmp_path / "absent", names="absent")


def test_a_folder_with_nothing_in_it(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "empty").mkdir()
    refused("train", tmp_path / "empty", names="empty")


def test_a_file_that_is_no_capture(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "film.mp4").write_bytes(b"\0" * 100)
    refused("train", tmp_path / "film.mp4", names="film.mp4")


def test_a_missing_photograph(capture: Path, refused: Refused) -> None:
    path = first_image(capture)
    path.unlink()
    refused("train", capture, names=path.stem)


@pytest.mark.parametrize("damage", ["zero bytes", "truncated", "not an image"])
def test_a_damaged_photograph(capture: Path, refused: Refused, damage: str) -> None:
    path = first_image(capture)
    whole = path.read_bytes()
    path.write_bytes(
        {"zero bytes": b"", "truncated": whole[: len(whole) // 2], "not an image": b"hello\n" * 99}[damage]
    )
    refused("train", capture, names=path.name)


def test_photographs_of_differing_sizes(capture: Path, refused: Refused) -> None:
    path = first_image(capture)
    Image.open(path).resize((33, 20)).save(path)
    refused("train", capture, names=path.name)


def test_fewer_than_three_views(capture: Path, refused: Refused) -> None:
    edit(capture, lambda document: document.update(frames=document["frames"][:2]))
    refused("train", capture, names="capture")


# -- transforms.json --------------------------------------------------------------------------------------------


def test_transforms_that_are_no_json(capture: Path, refused: Refused) -> None:
    path = capture / "transforms.json"
    path.write_text(path.read_text()[:-40])
    refused("train", capture, names="transforms.json")


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["frames"][2]["transform_matrix"][0].__setitem__(3, float("nan")),
        lambda d: d["frames"][2].update(transform_matrix=[[0.0] * 4] * 4),
        lambda d: d["frames"][2].pop("transform_matrix"),
        lambda d: d["frames"][2].update(transform_matrix="identity"),
        lambda d: d["frames"][2].update(transform_matrix=[[1, 0, 0], [0, 1, 0]]),
        lambda d: (
            [d.pop(key, None) for key in ("fl_x", "fl_y", "camera_angle_x", "camera_angle_y")]
            + [f.pop(key, None) for f in d["frames"] for key in ("fl_x", "fl_y", "camera_angle_x")]
        ),
        lambda d: [part.update(fl_x=float("inf"), fl_y=float("inf")) for part in (d, *d["frames"])],
        lambda d: [part.update(fl_x=-5.0, fl_y=-5.0) for part in (d, *d["frames"])],
        lambda d: d.update(frames=[]),
        lambda d: d.pop("frames"),
    ],
    ids=[
        "nan",
        "singular",
        "absent",
        "a word",
        "2x3",
        "no lens",
        "infinite lens",
        "negative lens",
        "empty",
        "no frames",
    ],
)
def test_transforms_that_make_no_sense(
    capture: Path, refused: Refused, change: Callable[[dict[str, Any]], object]
) -> None:
    edit(capture, change)
    refused("train", capture, names="transforms.json")


@pytest.mark.parametrize("path", ["/etc/passwd", "../outside.png", "images/../../outside.png"])
def test_paths_that_leave_the_capture(capture: Path, refused: Refused, path: str) -> None:
    shutil.copy(first_image(capture), capture.parent / "outside.png")
    edit(capture, lambda document: document["frames"][0].update(file_path=path))
    refused("train", capture, names=Path(path).name)


# -- COLMAP -----------------------------------------------------------------------------------------------------


@pytest.fixture
def colmap(capture: Path) -> Path:
    """The same photographs with a binary COLMAP model: one camera, unposed but well formed."""
    names = sorted(path.name for path in (capture / "images").iterdir())
    (capture / "transforms.json").unlink()
    (capture / "points3D.ply").unlink()
    model = capture / "sparse" / "0"
    model.mkdir(parents=True)
    (model / "cameras.bin").write_bytes(struct.pack("<QiiQQ4d", 1, 1, 1, 64, 48, 60.0, 60.0, 32.0, 24.0))
    images = struct.pack("<Q", len(names))
    for number, name in enumerate(names):
        images += (
            struct.pack("<i4d3di", number + 1, 1, 0, 0, 0, 0.1 * number, 0, 4, 1) + name.encode() + b"\0"
        )
        images += struct.pack("<Q", 0)
    (model / "images.bin").write_bytes(images)
    points = struct.pack("<Q", 20)
    for number in range(20):
        points += struct.pack("<Q3d3BdQ", number, number * 0.1 - 1, 0.2, 0.1, 200, 100, 50, 0.5, 0)
    (model / "points3D.bin").write_bytes(points)
    return capture


def test_the_colmap_model_that_is_broken_below_is_sound(colmap: Path, tmp_path: Path) -> None:
    options = ["--run", str(tmp_path / "fine"), "--steps", "1", "--device", "cpu", "--no-lpips"]
    assert main(["train", str(colmap), *options]) == 0


@pytest.mark.parametrize("name", ["cameras.bin", "images.bin", "points3D.bin"])
@pytest.mark.parametrize("damage", ["cut short", "zero bytes", "absurd count"])
def test_damaged_colmap_files(colmap: Path, refused: Refused, name: str, damage: str) -> None:
    path = colmap / "sparse" / "0" / name
    whole = path.read_bytes()
    damaged = {
        "cut short": whole[:-9],
        "zero bytes": b"",
        "absurd count": struct.pack("<Q", 1 << 60) + whole[8:],
    }
    path.write_bytes(damaged[damage])
    refused("train", colmap, names=name)


# -- structure from motion --------------------------------------------------------------------------------------


def test_photographs_without_anything_in_common(tmp_path: Path, refused: Refused) -> None:
    folder = tmp_path / "noise"
    folder.mkdir()
    for number in range(4):
        pixels = np.full((60, 80, 3), 40 * number, np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    message = refused("train", folder, names="noise")
    assert "photograph" in message.lower() or "overlap" in message.lower()
