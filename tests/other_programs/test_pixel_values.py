"""Masks and images of 16 bits, of 0 and 1, of labels and of floats; and images of which nothing counts."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image
from ray_cast_capture import cast, colmap_capture, pinhole_rays, ring

from luxel import scenes
from luxel.render.geometry.camera import Pixels
from luxel.scenes.captures import open_capture
from luxel.scenes.captures.contents import CaptureContents, SourceImage
from luxel.scenes.captures.images.counted_pixels import without_counted_pixels
from luxel.scenes.captures.images.images import ImageReader, decode
from luxel.scenes.captures.images.mask_values import coverage
from luxel.scenes.captures.lenses.lens import Lens
from luxel.scenes.files.images.image_files import read_image
from luxel.scenes.unused import LOST

NAMES = [f"{row:04d}" for row in range(8)]


def balls() -> list[np.ndarray]:
    """Where each image of the capture shows the ball, bool [H, W]."""
    return [cast(pose, pinhole_rays())[1] for pose in ring()]


def write_tiff(path: Path, values: np.ndarray, kind: int) -> None:
    """A TIFF file of one uncompressed strip (TIFF 6.0); kind: 1 unsigned, 2 signed, 3 floats."""
    height, width = values.shape[:2]
    channels = 1 if values.ndim == 2 else values.shape[2]
    data, bits = np.ascontiguousarray(values).tobytes(), 8 * values.dtype.itemsize
    after = 8 + 2 + 10 * 12 + 4
    lists = struct.pack(f"<{2 * channels}H", *[bits] * channels, *[kind] * channels)
    several = channels > 2
    tags = [
        (256, 4, 1, width),
        (257, 4, 1, height),
        (258, 3, channels, after if several else bits),
        (259, 3, 1, 1),
        (262, 3, 1, 2 if several else 1),
        (273, 4, 1, after + len(lists)),
        (277, 3, 1, channels),
        (278, 4, 1, height),
        (279, 4, 1, len(data)),
        (339, 3, channels, after + 2 * channels if several else kind),
    ]
    head = struct.pack("<2sHIH", b"II", 42, 8, len(tags))
    packed = b"".join(struct.pack("<HHII", *tag) for tag in tags)
    path.write_bytes(head + packed + bytes(4) + lists + data)


def save_palette(path: Path, indices: np.ndarray, colours: list[int]) -> None:
    image = Image.fromarray(indices.astype(np.uint8), "P")
    image.putpalette(colours)
    image.save(path)


def save_16_bit(path: Path, values: np.ndarray) -> None:
    assert cv2.imwrite(str(path), values.astype(np.uint16))


MASKS: dict[str, Callable[[Path, np.ndarray], object]] = {
    "16 bits, 0 and 255": lambda p, keep: save_16_bit(p, keep * 255),
    "16 bits, 0 and 1": lambda p, keep: save_16_bit(p, keep * 1),
    "16 bits, 0 and 65535": lambda p, keep: save_16_bit(p, keep * 65535),
    "16 bits, 0 and 1000": lambda p, keep: save_16_bit(p, keep * 1000),
    "16 bits of three channels, 0 and 255": lambda p, keep: save_16_bit(
        p, np.repeat(255 * keep[..., None], 3, 2)
    ),
    "0 and 1": lambda p, keep: Image.fromarray(keep.astype(np.uint8)).save(p),
    "labels 0 and 2": lambda p, keep: Image.fromarray(keep.astype(np.uint8) * 2).save(p),
    "labels 0 and 100": lambda p, keep: Image.fromarray(keep.astype(np.uint8) * 100).save(p),
    "labels 3 and 7": lambda p, keep: Image.fromarray((keep * 4 + 3).astype(np.uint8)).save(p),
    "colours 0 and 100": lambda p, keep: Image.fromarray(
        np.repeat(keep[..., None], 3, 2).astype(np.uint8) * 100
    ).save(p),
    "1 bit": lambda p, keep: Image.fromarray(keep).save(p),
    "a palette of black and dark red": lambda p, keep: save_palette(p, keep, [0, 0, 0, 128, 0, 0]),
    "a palette of black and white": lambda p, keep: save_palette(p, keep, [0, 0, 0, 255, 255, 255]),
    "alpha of a cut out image": lambda p, keep: Image.fromarray(
        np.dstack([np.where(keep[..., None], [200, 90, 30], [10, 200, 40]), 255 * keep]).astype(np.uint8)
    ).save(p),
}
TIFF_MASKS: dict[str, tuple[type, float, int]] = {
    "floats, 0 and 1": (np.float32, 1, 3),
    "floats, 0 and 255": (np.float32, 255, 3),
    "signed 32 bits, 0 and 255": (np.int32, 255, 2),
    "16 bits, 0 and 255": (np.uint16, 255, 1),
}


def check_cut_out(folder: Path) -> None:
    capture = scenes.open(folder)
    assert capture.cutout and capture.warnings == [] and len(capture.views) == 8
    for view, ball in zip(capture.views, balls(), strict=True):
        np.testing.assert_array_equal(view.read().alpha, np.where(ball, 255, 0))


@pytest.mark.parametrize("kind", MASKS)
def test_white_or_the_larger_of_two_values_keeps(kind: str, tmp_path: Path) -> None:
    colmap_capture(tmp_path).joinpath("masks").mkdir()
    for name, ball in zip(NAMES, balls(), strict=True):
        MASKS[kind](tmp_path / f"masks/{name}.png", ball)
    check_cut_out(tmp_path)


@pytest.mark.parametrize("kind", TIFF_MASKS)
def test_masks_in_tiff_files(kind: str, tmp_path: Path) -> None:
    colmap_capture(tmp_path).joinpath("masks").mkdir()
    dtype, scale, number = TIFF_MASKS[kind]
    for name, ball in zip(NAMES, balls(), strict=True):
        write_tiff(tmp_path / f"masks/{name}.tif", (ball * scale).astype(dtype), number)
    check_cut_out(tmp_path)


def test_shades_are_coverage_at_the_bits_of_the_values() -> None:
    shades = np.arange(256, dtype=np.uint8).reshape(16, 16)
    path = Path("mask.png")
    np.testing.assert_array_equal(coverage(path, shades), shades)
    np.testing.assert_array_equal(coverage(path, shades.astype(np.uint16)), shades)
    np.testing.assert_array_equal(coverage(path, shades.astype(np.uint16) * 257), shades)
    np.testing.assert_array_equal(coverage(path, shades.astype(np.float32) / 255), shades)
    np.testing.assert_array_equal(coverage(path, shades.astype(np.int32) - 3), np.maximum(shades, 3) - 3)
    dim = shades // 2 + 20  # at most 147: a mask that is never quite opaque
    np.testing.assert_array_equal(coverage(path, dim), dim)
    np.testing.assert_array_equal(coverage(path, dim.astype(np.uint16) * 257), dim)
    assert coverage(path, np.full((4, 4), np.nan, np.float32)).max() == 0


def test_two_values_with_the_errors_of_compression_are_scaled() -> None:
    random = np.random.default_rng(0)
    keep = np.arange(4096).reshape(64, 64) % 64 < 20
    noisy = np.where(keep, 91, 0) + random.integers(0, 10, keep.shape)
    got = coverage(Path("mask.jpg"), noisy.astype(np.uint8))
    np.testing.assert_array_equal(got, np.round(noisy * 2.55).astype(np.uint8))
    assert (got[keep] > 225).all() and (got[~keep] < 30).all()


LABELS: dict[str, tuple[np.ndarray, str]] = {
    "three labels": (np.arange(12, dtype=np.uint8).reshape(3, 4) // 4, "the values 0, 1, 2;"),
    "of 16 bits": (np.arange(12, dtype=np.uint16).reshape(3, 4) // 4 * 900, "the values 0, 900, 1800;"),
    "forty": (np.arange(40, dtype=np.uint8).reshape(5, 8), r"0, 1, 2, 3, 4, 5, 6, \.\.\. 39 \(40 in all\)"),
    "bright": (np.array([[0, 17, 150]], np.uint8), "the values 0, 17, 150;"),
    "colours": (
        np.array([[[0, 0, 0], [128, 0, 0], [0, 128, 0]]], np.uint8),
        "the colours #000000, #008000, #800000;",
    ),
}


@pytest.mark.parametrize("kind", LABELS)
def test_several_labels_are_named(kind: str, tmp_path: Path) -> None:
    values, named = LABELS[kind]
    with pytest.raises(scenes.CaptureError, match=rf"mask\.png: the mask has .*{named}"):
        coverage(tmp_path / "mask.png", values)
    with pytest.raises(scenes.CaptureError, match=r"not known.*masks='none'"):
        coverage(tmp_path / "mask.png", values)


def test_labels_and_huge_values_in_a_capture_are_named(tmp_path: Path) -> None:
    colmap_capture(tmp_path).joinpath("masks").mkdir()
    for name in NAMES:
        Image.fromarray(np.arange(48 * 36, dtype=np.uint8).reshape(36, 48) % 3).save(
            tmp_path / f"masks/{name}.png"
        )
    with pytest.raises(scenes.CaptureError, match=r"masks/0000\.png: the mask has the values 0, 1, 2"):
        scenes.open(tmp_path)
    assert not scenes.open(tmp_path, masks="none").cutout
    for name in NAMES:
        (tmp_path / f"masks/{name}.png").unlink()
        write_tiff(tmp_path / f"masks/{name}.tif", np.full((36, 48), 70_000, np.int32), 2)
    with pytest.raises(scenes.CaptureError, match=r"0000\.tif: the mask has values up to 70000"):
        scenes.open(tmp_path)


def greys() -> np.ndarray:
    """Values from 0 to 1, float64 [36, 48]."""
    return np.linspace(0, 1, 36 * 48).reshape(36, 48)


def written(folder: Path, values: np.ndarray, kind: int) -> Path:
    write_tiff(folder / "image.tif", values, kind)
    return folder / "image.tif"


def test_float_greys_are_scaled_from_0_to_1(tmp_path: Path) -> None:
    expected = np.repeat(np.floor(greys() * 255 + 0.5)[..., None], 3, 2).astype(np.uint8)
    path = written(tmp_path, greys().astype(np.float32), 3)
    np.testing.assert_array_equal(decode(path), expected)
    np.testing.assert_array_equal(read_image(path), expected)
    bright = greys().astype(np.float32) * 1.5 - 0.2
    bright[0, 0] = np.nan
    clipped = np.floor(np.clip(np.nan_to_num(bright), 0, 1) * np.float32(255) + np.float32(0.5))
    np.testing.assert_array_equal(decode(written(tmp_path, bright, 3))[..., 1], clipped)


def test_a_capture_of_float_greys(tmp_path: Path) -> None:
    colmap_capture(tmp_path)
    text = (tmp_path / "sparse/0/images.txt").read_text()
    (tmp_path / "sparse/0/images.txt").write_text(text.replace(".png", ".tif"))
    expected = []
    for name in NAMES:
        stored = np.asarray(Image.open(tmp_path / f"images/{name}.png").convert("L"))
        (tmp_path / f"images/{name}.png").unlink()
        write_tiff(tmp_path / f"images/{name}.tif", stored.astype(np.float32) / 255, 3)
        expected.append(stored)
    capture = scenes.open(tmp_path)
    assert capture.warnings == []
    for view, grey in zip(capture.views, expected, strict=True):
        np.testing.assert_array_equal(view.read().rgb, np.repeat(grey[..., None], 3, 2))


@pytest.mark.parametrize(("kind", "dtype"), [(1, np.uint16), (2, np.int32), (1, np.uint32)])
def test_integers_up_to_65535_lose_their_lower_bits(kind: int, dtype: type, tmp_path: Path) -> None:
    values = np.round(greys() * 65535).astype(dtype)
    np.testing.assert_array_equal(decode(written(tmp_path, values, kind))[..., 2], values >> 8)


def test_colours_of_16_bits_lose_their_lower_bits(tmp_path: Path) -> None:
    values = np.round(np.stack([greys(), greys()[::-1], greys() / 2], -1) * 65535).astype(np.uint16)
    np.testing.assert_array_equal(decode(written(tmp_path, values, 1)), values >> 8)


REFUSED: dict[str, tuple[np.ndarray, int, str]] = {
    "temperatures": ((20 + 15 * greys()).astype(np.float32), 3, "floats from 20 to 35;"),
    "tiny floats": ((1e-3 * greys()).astype(np.float32), 3, "floats from 0 to 0.001;"),
    "8 bits in 16": (np.round(greys() * 255).astype(np.uint16), 1, "integers go up to 255;"),
    "32 bits": (np.round(greys() * 1e6).astype(np.int32), 2, "integers go up to 1000000;"),
    "colours of floats": (
        np.repeat(greys()[..., None], 3, 2).astype(np.float32),
        3,
        "3 channels of 32-bit floats",
    ),
    "half floats": (greys().astype(np.float16), 3, "1 channel of 16-bit floats"),
    "doubles": (greys(), 3, "1 channel of 64-bit floats"),
    "colours of 32 bits": (np.zeros((4, 4, 3), np.int32), 2, "3 channels of 32-bit signed integers"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_other_values_are_named(what: str, tmp_path: Path) -> None:
    values, kind, named = REFUSED[what]
    with pytest.raises(scenes.CaptureError, match=rf"image\.tif: .*{named}"):
        decode(written(tmp_path, values, kind))


def write_masks(folder: Path, empty: set[str]) -> None:
    (folder / "masks").mkdir()
    for name, ball in zip(NAMES, balls(), strict=True):
        Image.fromarray(np.where(ball & (name not in empty), np.uint8(255), np.uint8(0))).save(
            folder / f"masks/{name}.png"
        )


@pytest.mark.parametrize("use", ["auto", "ignore"])
def test_images_of_which_the_mask_keeps_nothing_are_left_out(use: str, tmp_path: Path) -> None:
    write_masks(colmap_capture(tmp_path), {"0003", "0006"})
    capture = scenes.open(tmp_path, masks=use)
    (entry,) = [entry for entry in capture.unused if entry.kind == "images without a pixel that counts"]
    assert (entry.count, entry.example, entry.harm) == (2, "0003.png", LOST)
    (line,) = capture.warnings
    assert line.startswith(
        "2 of 8 images have no pixel that counts and are left out: the mask masks/0003.png keeps"
    )
    assert [view.name for view in capture.test] == ["0000.png"]
    assert [view.name for view in capture.train] == [
        f"{name}.png" for name in NAMES[1:] if name not in "0003 0006"
    ]
    assert len(scenes.open(tmp_path, masks="none").views) == 8


@pytest.mark.parametrize("resident", [True, False])
def test_masks_that_keep_nothing_at_all(
    resident: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_masks(colmap_capture(tmp_path), set(NAMES))
    if not resident:
        monkeypatch.setattr(open_capture, "fits_in_memory", lambda readers: False)
    with pytest.raises(
        scenes.CaptureError, match=r"no image has a pixel that counts: the mask masks/0000.*White"
    ):
        scenes.open(tmp_path)


def test_masks_that_do_not_stay_in_memory_are_looked_at_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_masks(colmap_capture(tmp_path), {"0002"})
    monkeypatch.setattr(open_capture, "fits_in_memory", lambda readers: False)
    assert [entry.count for entry in scenes.open(tmp_path).unused] == [1]


def add_alpha(folder: Path, alpha: Callable[[int, np.ndarray], np.ndarray]) -> Path:
    for row, (name, ball) in enumerate(zip(NAMES, balls(), strict=True)):
        path = folder / f"images/{name}.png"
        rgb = np.asarray(Image.open(path))
        Image.fromarray(np.dstack([rgb, alpha(row, ball).astype(np.uint8)])).save(path)
    return folder


def test_transparent_images_are_left_out_or_refused(tmp_path: Path) -> None:
    add_alpha(colmap_capture(tmp_path / "some"), lambda row, ball: ball * 255 * (row != 4))
    capture = scenes.open(tmp_path / "some")
    assert len(capture.views) == 7 and "0004.png is transparent everywhere" in capture.warnings[0]
    add_alpha(colmap_capture(tmp_path / "all"), lambda row, ball: ball * 3)
    with pytest.raises(
        scenes.CaptureError, match=r"no image has a pixel that counts: 0000\.png is transparent"
    ):
        scenes.open(tmp_path / "all")
    assert len(scenes.open(tmp_path / "all", masks="none").views) == 8


def test_alpha_of_0_and_1(tmp_path: Path) -> None:
    check_cut_out(add_alpha(colmap_capture(tmp_path), lambda row, ball: ball))


def test_images_of_which_the_lens_shows_nothing(tmp_path: Path) -> None:
    lens = Lens(4, 3, 5.0, 5.0, 2.0, 1.5, (0.1,))
    sources = [SourceImage(f"{row}.png", tmp_path / f"{row}.png", lens, np.eye(4)) for row in range(3)]
    blank = Pixels(np.zeros((3, 4, 3), np.uint8), None, np.zeros((3, 4), np.uint8))
    readers = {s.name: ImageReader(s.path, lens, 4, 3, cached=blank) for s in sources}
    contents = CaptureContents("test", sources)
    with pytest.raises(
        scenes.CaptureError, match=r"the lens of 0\.png images none of its pixels.*coefficients"
    ):
        without_counted_pixels(tmp_path, contents, readers)
    readers["1.png"].cached = Pixels(np.zeros((3, 4, 3), np.uint8), None, np.full((3, 4), 255, np.uint8))
    assert without_counted_pixels(tmp_path, contents, readers) == {"0.png", "2.png"}


def test_a_pixel_counts_with_weight_and_alpha() -> None:
    rgb, none, some = (
        np.zeros((2, 2, 3), np.uint8),
        np.zeros((2, 2), np.uint8),
        np.eye(2, dtype=np.uint8) * 255,
    )
    assert Pixels(rgb).counts and Pixels(rgb, some).counts and Pixels(rgb, None, some).counts
    assert not Pixels(rgb, none).counts and not Pixels(rgb, None, none).counts
    assert not Pixels(rgb, some, 255 - some).counts and Pixels(rgb, some, some).counts
    assert not Pixels(rgb, some // 64).counts
