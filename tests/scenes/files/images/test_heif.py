"""HEIC photographs: pixels, orientation, structure from motion's copies, and what is said without a library."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import luxel.scenes as scenes
from luxel.scenes.captures.contents import SourceImage, image_files
from luxel.scenes.captures.images.images import decode, read_header
from luxel.scenes.captures.lenses.lens import Lens
from luxel.scenes.captures.poses.workspace import prepare, suffix_for
from luxel.scenes.files.images import heif

FILE = Path(__file__).parents[2] / "data" / "ramp.heic"  # 64x48, written with an EXIF orientation of 6
pytest.importorskip("pi_heif", reason="pi-heif is not installed: HEIC photographs were not tested")


def ramp() -> np.ndarray:
    """What the file shows, before it is turned."""
    y, x = np.mgrid[:48, :64]
    return np.stack([4 * x, 5 * y, 2 * (x + y)], -1).astype(float)


def test_pixels_are_upright() -> None:
    header = read_header(FILE)
    upright = np.rot90(ramp(), -1)
    assert header.size(True) == (48, 64)
    pixels = decode(FILE, oriented=True)
    assert pixels.shape == (64, 48, 3) and np.abs(pixels - upright).mean() < 3


def test_structure_from_motion_gets_a_jpeg(tmp_path: Path) -> None:
    source = tmp_path / "IMG_0001.HEIC"
    source.write_bytes(FILE.read_bytes())
    assert image_files(tmp_path) == [source] and suffix_for(source) == ".jpg"
    header = read_header(source)
    width, height = header.size(True)
    image = SourceImage("a", source, Lens(width, height, 1, 1, 0.5, 0.5), np.eye(4), oriented=True)
    prepare(image, header, tmp_path / "0.jpg", tmp_path)
    with Image.open(tmp_path / "0.jpg") as copy:
        assert copy.format == "JPEG" and copy.size == (48, 64)


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "cut.heic").write_bytes(FILE.read_bytes()[:600])
    with pytest.raises(scenes.CaptureError, match=r"cut\.heic"):
        decode(tmp_path / "cut.heic")


@pytest.mark.parametrize("kind", [b"\xff\0\0\0", b"\xff\xff\xff\xff", b"E\xe9if"])
def test_types_that_are_no_text_are_refused(tmp_path: Path, kind: bytes) -> None:
    data = FILE.read_bytes()
    at = data.index(b"Exif", data.index(b"infe"))
    (tmp_path / "a.heic").write_bytes(data[:at] + kind + data[at + 4 :])
    for read in (read_header, decode):
        with pytest.raises(scenes.CaptureError, match=r"a\.heic.*is not text"):
            read(tmp_path / "a.heic")


def test_media_types_that_are_no_text_are_refused(tmp_path: Path) -> None:
    data = bytearray(FILE.read_bytes())
    at = data.index(b"Exif", data.index(b"infe"))
    media = b"text/\xff\xfe\0"
    for box in (data.index(b"meta"), data.index(b"iinf"), at - 12):  # they grow
        size = int.from_bytes(data[box - 4 : box], "big") + len(media)
        data[box - 4 : box] = size.to_bytes(4, "big")
    data[at : at + 4] = b"mime"
    data[at + 5 : at + 5] = media
    (tmp_path / "a.heic").write_bytes(data)
    with pytest.raises(scenes.CaptureError, match=r"a\.heic.*utf-8"):
        read_header(tmp_path / "a.heic")


def test_without_a_library_it_is_said_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    original = importlib.import_module

    def refuse(name: str, *rest: Any) -> Any:
        if name in heif.LIBRARIES:
            raise ImportError(name)
        return original(name, *rest)

    monkeypatch.setattr(importlib, "import_module", refuse)
    with pytest.raises(scenes.CaptureError, match="HEIC images need a library") as refused:
        read_header(FILE)
    assert "luxel[heic]" in str(refused.value.remedy)
