"""Images that are read by parts."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from luxel.scenes.errors import CaptureError
from luxel.scenes.files.images.image_files import read_image, write_image
from luxel.scenes.files.images.tiff_blocks import write_tiff
from luxel.scenes.files.large import png_rows
from luxel.scenes.files.large.tiled_images import CACHE, open_tiled
from luxel.scenes.synthetic.landscape import landscape, landscape_bands

SMOOTH = (np.cumsum(np.random.default_rng(0).integers(0, 3, (70, 53, 4)), 1) % 256).astype(np.uint8)


def tiled_tiff(pixels: np.ndarray, rows: int, columns: int, order: str = "<") -> bytes:
    """An uncompressed TIFF file in tiles, which reach beyond the image."""
    height, width, channels = pixels.shape
    across, down = -(-width // columns), -(-height // rows)
    padded = np.zeros((down * rows, across * columns, channels), pixels.dtype.newbyteorder(order))
    padded[:height, :width] = pixels
    tiles = [
        padded[i * rows : (i + 1) * rows, j * columns : (j + 1) * columns].tobytes()
        for i in range(down)
        for j in range(across)
    ]
    bits = 8 * pixels.dtype.itemsize
    offsets = 8 + np.cumsum([0, *map(len, tiles)])
    body = b"".join(tiles)
    extra = struct.pack(f"{order}{channels}H", *[bits] * channels)
    extra += struct.pack(f"{order}{len(tiles)}I", *offsets[:-1].tolist())
    at = 8 + len(body)
    tags = [
        (256, 4, 1, width), (257, 4, 1, height), (258, 3, channels, at), (259, 3, 1, 1), (262, 3, 1, 2),
        (277, 3, 1, channels), (284, 3, 1, 1), (322, 4, 1, columns), (323, 4, 1, rows),
        (324, 4, len(tiles), at + 2 * channels),
    ]  # fmt: skip
    directory = struct.pack(f"{order}H", len(tags))
    for tag, kind, count, value in tags:
        stored = struct.pack(f"{order}H2x" if kind == 3 and count == 1 else f"{order}I", value)
        directory += struct.pack(f"{order}HHI", tag, kind, count) + stored
    head = struct.pack(f"{order}2sHI", b"II" if order == "<" else b"MM", 42, at + len(extra))
    return head + body + extra + directory + bytes(4)


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def require_equal(path: Path, expected: np.ndarray) -> None:
    image = open_tiled(path, path.parent)
    assert (image.height, image.width) == expected.shape[:2]
    assert np.array_equal(image.read(0, 0, image.height, image.width), expected)
    assert np.array_equal(image.read(11, 7, 20, 9), expected[11:31, 7:16])
    assert np.array_equal(np.concatenate(list(image.bands(300))), expected)


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "LA", "P", "1", "I;16", "RGB16", "RGBA16"])
def test_png_files_are_decoded_in_bands(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(png_rows, "BAND", 3000)
    path = tmp_path / "a.png"
    if mode.endswith("16") and mode != "I;16":
        channels = len(mode) - 2
        cv2.imwrite(str(path), SMOOTH[..., :channels].astype(np.uint16) * 211)
    elif mode == "I;16":
        Image.fromarray(SMOOTH[..., 0].astype(np.uint16) * 201).save(path)
    elif mode in ("P", "1"):
        Image.fromarray(SMOOTH[..., :3].copy()).convert(mode).save(path)
    else:
        channels = len(mode)
        Image.fromarray(SMOOTH[..., :channels].squeeze().copy(), mode).save(path)
    require_equal(path, read_image(path))


def test_the_copy_of_a_png_file_is_used_again(tmp_path: Path) -> None:
    path, said = tmp_path / "a.png", []
    Image.fromarray(SMOOTH[..., :3].copy()).save(path)
    for _ in range(2):
        open_tiled(path, tmp_path, said.append)
    assert len(said) == 1 and "53x70" in said[0] and not (tmp_path / "image-rows.part").exists()


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "I;16"])
def test_tiff_files_in_strips(mode: str, tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    if mode == "I;16":
        Image.fromarray(SMOOTH[..., 0].astype(np.uint16) * 201).save(path)
    else:
        Image.fromarray(SMOOTH[..., : len(mode)].squeeze().copy(), mode).save(path)
    require_equal(path, read_image(path))


@pytest.mark.parametrize("order", ["<", ">"])
def test_tiff_files_in_tiles(order: str, tmp_path: Path) -> None:
    pixels = SMOOTH[..., :3]
    require_equal(write(tmp_path / "a.tif", tiled_tiff(pixels, 32, 16, order)), pixels)
    deep = pixels.astype(np.uint16) * 257
    require_equal(write(tmp_path / "b.tif", tiled_tiff(deep, 16, 32, order)), pixels)


def test_arrays(tmp_path: Path) -> None:
    pixels = SMOOTH[..., :3]
    np.save(tmp_path / "a.npy", pixels)
    np.save(tmp_path / "b.npy", pixels.astype(np.float64) / 255)
    np.save(tmp_path / "c.npy", pixels[..., 0])
    for name, expected in ("a", pixels), ("b", pixels), ("c", np.repeat(pixels[..., :1], 3, 2)):
        require_equal(tmp_path / f"{name}.npy", expected)


def test_tiff_files_are_written_in_bands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = SMOOTH[..., :3]
    write_image(tmp_path / "a.tif", 53, 70, iter([pixels[:30], pixels[30:]]))
    assert np.array_equal(read_image(tmp_path / "a.tif"), pixels)
    require_equal(tmp_path / "a.tif", pixels)
    write_image(tmp_path / "a.png", 53, 70, iter([pixels[:30], pixels[30:]]))
    assert np.array_equal(read_image(tmp_path / "a.png"), pixels)
    with pytest.raises(ValueError, match="70 rows in all"):
        write_tiff(tmp_path / "b.tif", 53, 70, [pixels[:30]])
    with pytest.raises(ValueError, match="70 rows in all"):
        write_tiff(tmp_path / "b.tif", 53, 70, [pixels, pixels])
    with pytest.raises(CaptureError, match=r"no format of images.*image\.tif"):
        write_image(tmp_path / "a.gif", 53, 70, [pixels])
    with pytest.raises(CaptureError, match="at most 65500"):
        write_image(tmp_path / "a.jpg", 70000, 1, [])
    with pytest.raises(CaptureError, match="cannot be written"):
        write_image(tmp_path / "none" / "a.tif", 53, 70, [pixels])


def test_a_file_of_more_than_4_gb_is_a_big_tiff(tmp_path: Path) -> None:
    path, side = tmp_path / "a.tif", 40_000
    with pytest.raises(ValueError, match="in all"):
        write_tiff(path, side, side, [])
    with path.open("r+b") as file:  # its pixels are a hole
        file.truncate(3 * side**2 + 400)
    image = open_tiled(path)
    assert (image.width, image.height) == (side, side)
    assert not image.read(side - 4, side - 4, 4, 4).any()


def test_landscape_in_bands() -> None:
    bands = np.concatenate(list(landscape_bands(96, 64)))
    assert np.abs(bands.astype(int) - landscape(96, 64)).max() <= 12, "only the noise differs"
    assert np.array_equal(bands, np.concatenate(list(landscape_bands(96, 64))))


def png(tmp_path: Path, change: str) -> bytes:
    path = tmp_path / "whole.png"
    Image.fromarray(SMOOTH[..., :3].copy()).save(path)
    data = path.read_bytes()
    if change == "cut":
        return data[: len(data) // 2]
    if change == "checksum":
        return data[:-20] + bytes([data[-20] ^ 1]) + data[-19:]
    if change == "bomb":
        return data[:16] + struct.pack(">2I", 60_000, 60_000) + data[24:]
    if change == "taller":
        header = b"IHDR" + struct.pack(">2I", 53, 80) + data[24:29]
        return data[:12] + header + struct.pack(">I", __import__("zlib").crc32(header)) + data[33:]
    assert change == "interlaced"
    header = data[12:28] + b"\1"
    return data[:12] + header + struct.pack(">I", __import__("zlib").crc32(header)) + data[33:]


@pytest.mark.parametrize(
    "change, wrong",
    [
        ("cut", "ends early"),
        ("checksum", "incorrect data check"),
        ("bomb", "checksum"),
        ("taller", "of 80 rows"),
        ("interlaced", "interlaced"),
    ],
)
def test_damaged_png_files(change: str, wrong: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.png", png(tmp_path, change))
    with pytest.raises(CaptureError, match=wrong):
        open_tiled(path, tmp_path)
    assert not list(tmp_path.glob("image-rows*")), "nothing is left behind"


def test_png_bombs(tmp_path: Path) -> None:
    import zlib

    header = b"IHDR" + struct.pack(">2I5B", 60_000, 60_000, 8, 2, 0, 0, 0)
    data = png_rows.HEAD + struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    with pytest.raises(CaptureError, match="cannot hold so many"):
        open_tiled(write(tmp_path / "a.png", data + bytes(100)), tmp_path)
    header = b"IHDR" + struct.pack(">2I5B", 2**21, 1, 1, 0, 0, 0, 0)
    data = png_rows.HEAD + struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    with pytest.raises(CaptureError, match="1,048,576 along a side"):
        open_tiled(write(tmp_path / "b.png", data + bytes(1000)), tmp_path)


def test_no_room_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.png"
    Image.fromarray(SMOOTH[..., :3].copy()).save(path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 10, 0))  # pyright: ignore
    with pytest.raises(CaptureError, match=r"53x70 pixels take 0\.0 GB.*--run"):
        open_tiled(path, tmp_path)
    assert not (tmp_path / CACHE).exists()


@pytest.mark.parametrize(
    "options, wrong",
    [
        ({"compression": "tiff_lzw"}, "compressed"),
        ({"compression": "raw", "mode": "CMYK"}, "neither grey nor RGB"),
        ({"compression": "raw", "mode": "1"}, "1 bits"),
        ({"compression": "raw", "mode": "F", "bits": 0}, None),
    ],
)
def test_other_tiff_files(options: dict, wrong: str | None, tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    mode = options.pop("mode", "RGB")
    options.pop("bits", None)
    Image.fromarray(SMOOTH[..., :3].copy()).convert("L" if mode in "1F" else mode).convert(mode).save(
        path, **options
    )
    if wrong is None:
        assert open_tiled(path).read(0, 0, 70, 53).max() == 255, "floats are clamped to [0, 1]"
        return
    with pytest.raises(CaptureError, match=f"{wrong}.*by parts"):
        open_tiled(path)


@pytest.mark.parametrize(
    "at, value, wrong",
    [
        (0, b"XX", "not a TIFF"),
        (4, struct.pack("<I", 10**9), "before its tags"),
    ],
)
def test_damaged_tiff_files(at: int, value: bytes, wrong: str, tmp_path: Path) -> None:
    data = bytearray(tiled_tiff(SMOOTH[..., :3], 32, 16))
    data[at : at + len(value)] = value
    with pytest.raises(CaptureError, match=wrong):
        open_tiled(write(tmp_path / "a.tif", bytes(data)))


def test_a_tiff_file_that_is_cut_short(tmp_path: Path) -> None:
    write_tiff(tmp_path / "a.tif", 53, 70, [SMOOTH[..., :3]])
    data = (tmp_path / "a.tif").read_bytes()
    with pytest.raises(CaptureError, match="do not hold them"):
        open_tiled(write(tmp_path / "b.tif", data[:-1]))
    image = open_tiled(tmp_path / "a.tif")
    (tmp_path / "a.tif").write_bytes(data[:5000])
    with pytest.raises(CaptureError, match=r"a\.tif"):
        image.read(60, 0, 4, 4)


@pytest.mark.parametrize(
    "array, wrong",
    [
        (np.zeros((4, 4, 2), np.uint8), "must be"),
        (np.zeros((4, 4, 3), np.int64), "of uint8"),
        (np.zeros((4, 4, 3), np.uint8, order="F"), "Fortran"),
        (np.full((4, 4, 3), np.nan, np.float32), "not finite"),
    ],
)
def test_arrays_that_are_no_image(array: np.ndarray, wrong: str, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(CaptureError, match=wrong):
        open_tiled(tmp_path / "a.npy").read(0, 0, 4, 4)


def test_an_array_that_is_cut_short(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", SMOOTH)
    data = (tmp_path / "a.npy").read_bytes()
    with pytest.raises(CaptureError, match="announces 70x53 pixels"):
        open_tiled(write(tmp_path / "a.npy", data[:-1]))


def test_formats_that_have_no_parts(tmp_path: Path) -> None:
    for name in ("a.jpg", "a.png"):
        Image.fromarray(SMOOTH[..., :3].copy()).save(tmp_path / name)
        with pytest.raises(CaptureError, match="by parts"):
            open_tiled(tmp_path / name)
