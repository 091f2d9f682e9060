"""The door of all readers: unreadable paths, believed counts, and images beyond the limit."""

from __future__ import annotations

import builtins
import io
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from image_makers import gradient, one_bit_png, retag
from PIL import Image

import luxel.scenes as scenes
from luxel.render.errors import LuxelError
from luxel.render.fields.files import load_field
from luxel.render.storage.reading import reading
from luxel.scenes.captures.images.images import ImageReader, check_decodes, decode, read_header
from luxel.scenes.captures.lenses.lens import Lens
from luxel.scenes.errors import CaptureError
from luxel.scenes.files import pixel_limit
from luxel.scenes.files.images import image_decoding
from luxel.scenes.files.images.image_files import read_image
from luxel.scenes.files.scene_files import load_facts
from luxel.scenes.files.volumes import read_volume
from luxel.scenes.paths import load_path

READERS: list[tuple[Callable, str]] = [
    (scenes.load_primitives, ".ply"),
    (scenes.load_primitives, ".splat"),
    *((scenes.load_primitives, suffix) for suffix in (".spz", ".compressed.ply", ".ksplat")),
    (load_facts, ".spz"),
    (scenes.load_primitives, ".safetensors"),
    (scenes.load_points, ".ply"),
    (scenes.read_mesh, ".obj"),
    (scenes.read_mesh, ".stl"),
    (read_volume, ".npy"),
    (read_volume, ".npz"),
    (read_image, ".png"),
    (decode, ".jpg"),
    (read_header, ".png"),
    (load_path, ".json"),
    (load_field, ".safetensors"),
]
NAMES = [f"{read.__name__} {suffix}" for read, suffix in READERS]


@pytest.fixture(autouse=True)
def same_limit() -> Iterator[None]:
    before = pixel_limit._limit[0]
    yield
    pixel_limit._limit[0] = before


def no_permission(path: object, *args: object, **kwargs: object) -> object:
    raise PermissionError(13, "Permission denied", str(path))


@pytest.mark.parametrize(("read", "suffix"), READERS, ids=NAMES)
def test_paths_that_cannot_be_read(
    tmp_path: Path, read: Callable, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = tmp_path / f"loop{suffix}"
    loop.symlink_to(loop)
    pipe = tmp_path / f"pipe{suffix}"
    os.mkfifo(pipe)
    (tmp_path / f"empty{suffix}").touch()
    (tmp_path / f"folder{suffix}" / "scene.ply").mkdir(parents=True)
    (tmp_path / f"closed{suffix}").write_bytes(b"x" * 100)
    monkeypatch.setattr(builtins, "open", no_permission)
    monkeypatch.setattr(io, "open", no_permission)
    for name, message in {
        "missing": "no such file",
        "loop": "in a circle",
        "pipe": "a device or a pipe",
        "empty": "zero bytes",
        "folder": "folder, not",
        "closed": "no permission",
        "long" * 100: "too long",
    }.items():
        if name == "closed" and (read is load_field):
            continue  # opened by the library's own code
        with pytest.raises(LuxelError, match=message) as caught:
            read(tmp_path / f"{name}{suffix}")
        assert "damaged" not in str(caught.value) and caught.value.remedy
        assert name[:100] in str(caught.value)


@pytest.mark.parametrize("name", ["loop", "long" * 100, "missing", "~nobody-of-this-name/x"])
def test_captures_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(CaptureError) as caught:
        scenes.open(name if name.startswith("~") else tmp_path / name)
    assert caught.value.remedy and name[:100] in str(caught.value)


def test_errors_of_parsers_are_chained_and_interrupts_pass(tmp_path: Path) -> None:
    for cause in (KeyError("x"), struct.error("y"), zlib.error("z"), MemoryError(), RecursionError("deep")):
        with (
            pytest.raises(CaptureError, match=r"^a\.x: ") as caught,
            reading("a.x", "a file", "Copy it again.", CaptureError),
        ):
            raise cause
        assert caught.value.__cause__ is cause and caught.value.remedy
    with (
        pytest.raises(CaptureError, match=r"^a\.x: Too few\."),
        reading("a.x", "a file", "Copy it again.", CaptureError),
    ):
        raise LuxelError("Too few.", "Take more.")
    with pytest.raises(KeyboardInterrupt), reading("a.x", "a file", "Copy it again."):
        raise KeyboardInterrupt


def npy(shape: str, descr: str = "'<f4'") -> bytes:
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (npy("(100000, 100000, 100000)"), "announces 4000000000000000 bytes"),
        (npy("(99999999999999999999, 2, 2)"), "announces|damaged"),
        (npy("(2, 2, 2") + b"((", "cannot be read as a numpy file"),
        (npy("('a', 2, 2)"), "cannot be read as a numpy file"),
        (npy("(2, 2, 2)", "[('a', '<f4')]"), "not numbers"),
    ],
)
def test_volumes_that_announce_too_much(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(content)
    with pytest.raises(CaptureError, match=message):
        read_volume(path)


def test_archives_are_checked_before_they_are_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez_compressed(path, np.random.default_rng(0).random((4, 4, 4)))
    data = bytearray(path.read_bytes())
    at = data.rindex(b"PK\x01\x02")
    data[at + 24 : at + 28] = struct.pack("<I", 0xF0000000)  # the uncompressed size in the directory
    path.write_bytes(data)
    with pytest.raises(CaptureError, match="cannot hold so many"):
        read_volume(path)


@pytest.mark.parametrize("number", ["9" * 30, "-" + "9" * 30, "9" * 5000])
def test_vertex_numbers_beyond_64_bits(tmp_path: Path, number: str) -> None:
    path = tmp_path / "a.obj"
    path.write_text(f"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 {number}\n")
    with pytest.raises(CaptureError, match=r"a\.obj.*(64 bits|line 4)"):
        scenes.read_mesh(path)
    text = "ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\nproperty float z\n"
    text += f"element face 1\nproperty list int int vertex_indices\nend_header\n0 0 0\n3 0 0 {number}\n"
    path.with_suffix(".ply").write_text(text)
    with pytest.raises(CaptureError, match=r"a\.ply"):
        scenes.read_mesh(path.with_suffix(".ply"))


def test_images_above_the_limit_are_refused_and_the_remedy_works(tmp_path: Path) -> None:
    path = tmp_path / "huge.png"
    one_bit_png(path, 24000)
    for read in (read_image, decode, check_decodes):
        with pytest.raises(CaptureError, match=r"24000x24000 pixels, 576 megapixels; the limit is 400"):
            read(path)
    assert read_header(path).width == 24000
    one_bit_png(path, 1600)
    with pytest.raises(CaptureError, match="the limit is 2") as caught:
        read_image(path, max_megapixels=2)
    raised = float(caught.value.remedy.split("--max-megapixels ")[1].rstrip("."))
    assert read_image(path, max_megapixels=raised).shape == (1600, 1600, 3)
    for wrong in (0, -1, float("nan"), float("inf")):
        with pytest.raises(CaptureError, match="--max-megapixels"):
            read_image(path, max_megapixels=wrong)


def test_jpeg_files_are_decoded_smaller_where_less_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    gradient(1600, 1200).save(path, quality=95)
    full, small = read_image(path), read_image(path, 200)
    assert small.shape == (150, 200, 3)
    mean = full.reshape(150, 8, 200, 8, 3).mean((1, 3))
    assert np.abs(small - mean).mean() < 1
    assert decode(path, least=200).shape == (300, 400, 3) and decode(path, least=201).shape == (600, 800, 3)
    reader = ImageReader(path, Lens(1600, 1200, 900.0, 900.0, 800.0, 600.0), 200, 150)
    assert np.abs(reader().rgb - mean).mean() < 1
    assert read_image(path, 200, max_megapixels=0.5).shape == (150, 200, 3)
    with pytest.raises(CaptureError, match="--max-size"):
        read_image(path)


def damaged(data: bytes, at: float, count: int) -> bytes:
    start = int(len(data) * at)
    return data[:start] + bytes(255 - b for b in data[start : start + count]) + data[start + count :]


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".tif", ".bmp", ".webp"])
def test_damaged_images_are_refused(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    gradient(256, 192).save(path)
    data = path.read_bytes()
    cut = {"half": data[: len(data) // 2], "the end": data[: len(data) * 9 // 10]}
    if suffix == ".png":
        cut["one byte"] = damaged(data, 0.5, 1)
    if suffix == ".jpg":
        cut["closed"] = data[: len(data) // 2] + b"\xff\xd9"  # half is grey, with a proper end
        cut["zeros"] = data[: len(data) // 2] + bytes(500) + data[len(data) // 2 + 500 :]
    for how, content in cut.items():
        path.write_bytes(content)
        for read in (read_image, decode, check_decodes):
            with pytest.raises(CaptureError, match=f"a{suffix}: cannot be read as an image"):
                read(path)
                pytest.fail(how)


@pytest.mark.parametrize("compression", ["raw", "tiff_lzw", "tiff_adobe_deflate", "packbits"])
def test_tiff_files_that_announce_too_much(tmp_path: Path, compression: str) -> None:
    path = tmp_path / "a.tif"
    gradient(64, 48).save(path, compression=compression)
    retag(path, {256: 19000, 257: 19000, 278: 19000})  # width, height, rows of a strip
    with pytest.raises(CaptureError, match=r"a\.tif"):
        read_image(path)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({279: None}, "the lengths of its strips are missing"),
        ({273: None}, "the positions of its strips are missing"),
        ({278: 5}, "there are 1 strips of 5 rows for 48 rows"),
    ],
)
def test_tiff_files_without_their_strips(tmp_path: Path, values: dict[int, int | None], message: str) -> None:
    path = tmp_path / "a.tif"
    gradient(64, 48).save(path, compression="tiff_lzw")
    assert read_image(path).shape == (48, 64, 3)
    retag(path, values)
    with pytest.raises(CaptureError, match=rf"a\.tif: cannot be read as an image.*{message}"):
        read_image(path)


def test_lossy_webp_files_that_announce_too_much(tmp_path: Path) -> None:
    path = tmp_path / "a.webp"
    Image.new("RGB", (16, 16), (200, 100, 50)).save(path, quality=80)
    data = bytearray(path.read_bytes())
    assert data[12:16] == b"VP8 " and data[23:26] == b"\x9d\x01\x2a" and image_size(path) == (16, 16)
    data[26:30] = struct.pack("<HH", 16000, 16000)  # below the limit on pixels
    path.write_bytes(data)
    with pytest.raises(CaptureError, match="cannot hold so many"):
        read_image(path)


@pytest.mark.parametrize(
    "options", [{"quality": 80}, {"lossless": True}, {"quality": 80, "exif": b"Exif\0\0"}]
)
def test_webp_files_are_measured_before_pillow_opens_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict
) -> None:
    path = tmp_path / "a.webp"
    Image.new("RGB", (301, 203), (200, 100, 50)).save(path, **options)
    assert image_decoding.webp_size(path.read_bytes()[:30]) == (301, 203)
    monkeypatch.setattr(pixel_limit, "_limit", [0.05])
    monkeypatch.setattr(Image, "open", None)  # it would allocate memory for all pixels
    for read in (read_image, read_header):
        with pytest.raises(CaptureError, match=r"301x203 pixels.*--max-megapixels 1"):
            read(path)


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
@pytest.mark.parametrize("options", [{"quality": 80}, {"lossless": True}])
def test_webp_files_have_the_pixels_that_pillow_reads(tmp_path: Path, mode: str, options: dict) -> None:
    path = tmp_path / "a.webp"
    noise = np.random.default_rng(0).integers(0, 255, (50, 70, len(mode)), dtype=np.uint8)
    Image.fromarray(noise).save(path, **options)
    with image_decoding.opened_image(path) as image, Image.open(path) as expected:
        assert (image.mode, image.format) == (mode, "WEBP")
        assert np.array_equal(np.asarray(image), np.asarray(expected))
    if "lossless" in options:
        path.write_bytes(path.read_bytes()[:60] + b"\xff" * 40 + path.read_bytes()[100:])
        with pytest.raises(CaptureError, match="damaged or cut short"):
            read_image(path)


def image_size(path: Path) -> tuple[int, ...]:
    return read_image(path).shape[:2]


@pytest.mark.parametrize("kind", ["DDS", "ICO", "TGA"])
def test_other_formats_under_the_name_of_an_image(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.png"
    gradient(16, 16).convert("RGBA").save(path, kind)
    with pytest.raises(CaptureError, match=r"a\.png.*not an image file of a known format"):
        decode(path)
