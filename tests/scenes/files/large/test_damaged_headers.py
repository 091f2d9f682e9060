"""Damaged headers of TIFF and PNG files that are read by parts."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from test_tiled_images import SMOOTH, tiled_tiff, write

from luxel.scenes.errors import CaptureError
from luxel.scenes.files.large.png_rows import HEAD
from luxel.scenes.files.large.tiled_images import open_tiled


def tiff(tag: int, value: int, becomes: int | None = None) -> bytes:
    """A TIFF file with another value of a tag, or another number instead of it."""
    data = bytearray(tiled_tiff(SMOOTH[..., :3], 32, 16))
    at = struct.unpack_from("<I", data, 4)[0]
    if tag == 0:
        struct.pack_into("<H", data, at, value)
        return bytes(data)
    for entry in range(at + 2, len(data) - 4, 12):
        if struct.unpack_from("<H", data, entry)[0] == tag:
            struct.pack_into("<I", data, entry + 8, value)
            struct.pack_into("<H", data, entry, tag if becomes is None else becomes)
    return bytes(data)


@pytest.mark.parametrize(
    "data, wrong",
    [
        (tiff(284, 2), "stored separately"),
        (tiff(284, 6, 274), "turned or mirrored"),
        (tiff(277, 5), "it has 5 channels"),
        (tiff(256, 0), "no pixels"),
        (tiff(322, 0), "blocks have no pixels"),
        (tiff(322, 17 * 8), "blocks for"),
        (tiff(256, 53, 9999), "tag 256 is missing"),
        (tiff(0, 5000), "5000 tags"),
    ],
)
def test_tiff_headers(data: bytes, wrong: str, tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=wrong):
        open_tiled(write(tmp_path / "a.tif", data))


def chunk(kind: bytes, content: bytes, wrong: int = 0) -> bytes:
    checksum = zlib.crc32(kind + content) ^ wrong
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)


def png(bits: int = 8, first: bytes = b"IHDR", wrong: int = 0, filter_type: int = 0) -> bytes:
    rows = b"".join(bytes([filter_type]) + bytes(3 * 4 * bits // 8) for _ in range(5))
    header = struct.pack(">2I5B", 4, 5, bits, 2, 0, 0, 0)
    return HEAD + chunk(first, header) + chunk(b"IDAT", zlib.compress(rows), wrong) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    "data, wrong",
    [
        (b"no image at all", "not a PNG file"),
        (png(first=b"JUNK"), "header is missing"),
        (HEAD + chunk(b"IHDR", struct.pack(">2I5B", 4, 5, 3, 2, 0, 0, 0)) + bytes(99), "header is damaged"),
        (png(wrong=1), "wrong checksum"),
        (HEAD + struct.pack(">I4s", 1 << 20, b"IHDR") + bytes(99), "chunk is too long"),
        (png(16, filter_type=9), "damaged"),
        (png(8, filter_type=9), r"a\.png"),
    ],
)
def test_png_headers(data: bytes, wrong: str, tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=wrong):
        open_tiled(write(tmp_path / "a.png", data), tmp_path)
    assert not list(tmp_path.glob("image-rows*"))


def test_the_undamaged_files_are_read(tmp_path: Path) -> None:
    for bits in (8, 16):
        image = open_tiled(write(tmp_path / f"{bits}.png", png(bits)), tmp_path)
        assert not image.read(0, 0, 5, 4).any()
        (tmp_path / "image-rows.npy").unlink()
    assert np.array_equal(
        open_tiled(write(tmp_path / "a.tif", tiff(1, 0))).read(0, 0, 70, 53), SMOOTH[..., :3]
    )
