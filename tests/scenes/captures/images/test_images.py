"""Images of captures: formats, orientation, size, damage, and caching in memory."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps
from PIL.PngImagePlugin import PngInfo

import luxel.scenes as scenes
from luxel.scenes.captures.images import images
from luxel.scenes.captures.images.images import ImageReader, decode, read_header
from luxel.scenes.captures.lenses.lens import Lens
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.images import image_decoding

PIXELS = np.random.default_rng(0).integers(0, 256, (12, 20, 3), dtype=np.uint8)


def lens_of(width: int, height: int) -> Lens:
    return Lens(width, height, 20.0, 20.0, width / 2, height / 2)


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "LA", "P", "I;16", "1", "CMYK"])
def test_modes(tmp_path: Path, mode: str) -> None:
    file = tmp_path / ("a.tif" if mode == "CMYK" else "a.png")
    if mode == "I;16":
        Image.fromarray(np.full((12, 20), 0x8040, np.uint16)).save(file)
    else:
        Image.fromarray(PIXELS).convert(mode).save(file)
    pixels = decode(file)
    assert pixels.shape == (12, 20, 4 if mode in ("RGBA", "LA") else 3) and pixels.dtype == np.uint8
    if mode == "I;16":
        assert (pixels == 0x80).all()
    if mode == "RGB":
        assert np.array_equal(pixels, PIXELS)


@pytest.mark.parametrize(("orientation", "turns"), [(1, 0), (3, 2), (6, 3), (8, 1)])
def test_exif_orientation(tmp_path: Path, orientation: int, turns: int) -> None:
    exif = Image.Exif()
    exif[images.ORIENTATION_TAG] = orientation
    Image.fromarray(PIXELS).save(tmp_path / "a.png", exif=exif)
    assert np.array_equal(decode(tmp_path / "a.png", oriented=True), np.rot90(PIXELS, turns))
    assert np.array_equal(decode(tmp_path / "a.png"), PIXELS)
    header = read_header(tmp_path / "a.png")
    assert header.size(True) == ((12, 20) if orientation > 4 else (20, 12))


@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("name", ["a.jpg", "a.png", "a.webp"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_pixels_are_those_of_pillow(tmp_path: Path, orientation: int, name: str, mode: str) -> None:
    """Other decoders than Pillow turn an image as it does."""
    exif = Image.Exif()
    exif[images.ORIENTATION_TAG] = orientation
    Image.fromarray(PIXELS).convert(mode).save(tmp_path / name, exif=exif, quality=95, lossless=True)
    with Image.open(tmp_path / name) as image:
        stored, turned = image.convert("RGB"), ImageOps.exif_transpose(image).convert("RGB")
    for expected, oriented in ((stored, False), (turned, True)):
        pixels = decode(tmp_path / name, oriented=oriented)
        assert pixels.shape == np.asarray(expected).shape
        # Two builds of libjpeg may round a colour differently.
        assert np.abs(pixels.astype(int) - np.asarray(expected)).max() <= 2 * (name == "a.jpg")


@pytest.mark.parametrize("chunk", ["none", "tRNS", "iTXt"])
@pytest.mark.parametrize("mode", ["RGBA", "RGB", "L", "P"])
def test_png_files_with_other_chunks(tmp_path: Path, mode: str, chunk: str) -> None:
    options: dict = {}
    if chunk == "iTXt":
        options["pnginfo"] = PngInfo()
        options["pnginfo"].add_itxt("Description", "a photograph")
    elif chunk == "tRNS" and mode != "RGBA":
        options["transparency"] = tuple(PIXELS[0, 0].tolist()) if mode == "RGB" else 1
    Image.fromarray(PIXELS).convert(mode).save(tmp_path / "a.png", **options)
    with Image.open(tmp_path / "a.png") as image:
        transparent = mode == "RGBA" or "transparency" in image.info
        expected = np.asarray(image.convert("RGBA" if transparent else "RGB"))
    assert np.array_equal(decode(tmp_path / "a.png"), expected)


@pytest.mark.parametrize("way", ["whole", "followed by more", "end first"])
def test_png_files_that_go_on_after_their_end(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenCV would read on, and allocate the 3 GB that the last chunk announces."""
    given: list[bytes] = []
    by_opencv = image_decoding._by_opencv
    monkeypatch.setattr(image_decoding, "_by_opencv", lambda data: given.append(data) or by_opencv(data))
    path = tmp_path / "a.png"
    pixels = np.random.default_rng(0).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    data = path.read_bytes()
    header, rest = data[:33], data[33:]
    end, announced = data[-12:], b"\xb6\xde\xf8\x14IDAT" + rest[8:]
    path.write_bytes({"whole": data, "followed by more": data + announced}.get(way, header + end + announced))
    if way == "end first":
        with pytest.raises(CaptureError, match=r"a\.png: cannot be read as an image"):
            decode(path)
    else:
        np.testing.assert_array_equal(decode(path), pixels)
    assert len(given) == (way == "whole")


def damage(file: Path, how: str) -> None:
    data = file.read_bytes()
    if how == "missing":
        file.unlink()
    else:
        file.write_bytes(
            {"empty": b"", "cut short": data[: len(data) // 2], "text": b"not an image" * 50}[how]
        )


MESSAGES = {
    "missing": "is missing",
    "empty": "zero bytes",
    "cut short": "cannot be read as an image",
    "text": "not an image",
}


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("how", MESSAGES)
@pytest.mark.parametrize("suffix", ["png", "jpg"])
def test_errors_name_damaged_images(
    toy: Path, edit_json, monkeypatch: pytest.MonkeyPatch, how: str, suffix: str, kept: bool
) -> None:
    if suffix == "jpg":
        for file in list((toy / "images").iterdir()):
            Image.open(file).save(file.with_suffix(".jpg"), quality=95)
            file.unlink()

        def rename(document: dict) -> None:
            for frame in document["frames"]:
                frame["file_path"] = frame["file_path"].replace(".png", ".jpg")

        edit_json(toy / "transforms.json", rename)
    if not kept:
        monkeypatch.setattr(images, "free_memory", lambda: 0)
    damage(toy / f"images/0006.{suffix}", how)
    with pytest.raises(scenes.CaptureError, match=rf"0006\.{suffix}.*{MESSAGES[how]}") as caught:
        scenes.open(toy)
    assert caught.value.remedy


def test_images_that_exceed_memory_are_read_on_demand(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = scenes.open(toy)
    monkeypatch.setattr(images, "free_memory", lambda: 0)
    lazy = scenes.open(toy)
    assert kept.train[0].read() is kept.train[0].read()
    assert lazy.train[0].read() is not lazy.train[0].read()
    for a, b in zip(kept.views, lazy.views, strict=True):
        assert np.array_equal(a.read().rgb, b.read().rgb)
    os.remove(toy / "images/0001.png")
    with pytest.raises(scenes.CaptureError, match=r"0001\.png: cannot be read: there is no such file"):
        lazy.train[0].read()


def test_few_of_many_images_are_decoded_before_training(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[str] = []
    whole = images.check_decodes
    monkeypatch.setattr(images, "free_memory", lambda: 0)
    monkeypatch.setattr(images, "DECODED", 2)
    monkeypatch.setattr(images, "check_decodes", lambda path: (decoded.append(path.name), whole(path)))
    names = sorted(path.name for path in (toy / "images").iterdir())
    scenes.open(toy)
    assert sorted(decoded) == [names[0], names[-1]]
    data = (toy / "images" / names[3]).read_bytes()
    (toy / "images" / names[3]).write_bytes(
        data + b"more"
    )  # nothing is known of files with something at the end
    decoded.clear()
    scenes.open(toy)
    assert sorted(decoded) == [names[0], names[3], names[-1]]
    (toy / "images" / names[3]).write_bytes(data[:-30])
    with pytest.raises(scenes.CaptureError, match=names[3]):
        scenes.open(toy)


def test_memory_that_runs_out_while_images_are_read(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, calls = images.decode, []

    def short_of_memory(path: Path, **options):
        calls.append(path)
        if len(calls) > 12:  # the first ones look for masks
            raise MemoryError
        return whole(path, **options)

    monkeypatch.setattr(images, "decode", short_of_memory)
    capture = scenes.open(toy)
    monkeypatch.undo()
    assert all(view.read.cached is None for view in capture.views)
    assert capture.train[0].read() is not capture.train[0].read(), "it is read on demand"


def test_image_that_changes_size_after_opening(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "free_memory", lambda: 0)
    view = scenes.open(toy).train[0]
    Image.new("RGB", (10, 10)).save(toy / "images/0001.png")
    with pytest.raises(scenes.CaptureError, match=r"0001\.png.*10x10.*64x48"):
        view.read()


def test_downscaling_averages(tmp_path: Path) -> None:
    Image.fromarray(PIXELS).save(tmp_path / "a.png")
    small = ImageReader(tmp_path / "a.png", lens_of(20, 12), 10, 6)()
    expected = PIXELS.reshape(6, 2, 10, 2, 3).astype(float).mean(axis=(1, 3))
    assert np.abs(small.rgb - expected).max() <= 1


def test_transparent_colours_do_not_bleed(tmp_path: Path) -> None:
    """A red object on transparent black stays red when it is downscaled."""
    rgba = np.zeros((12, 20, 4), np.uint8)
    rgba[:, 7:13] = (255, 0, 0, 255)
    Image.fromarray(rgba).save(tmp_path / "a.png")
    pixels = ImageReader(tmp_path / "a.png", lens_of(20, 12), 10, 6, use="cutout")()
    assert pixels.alpha is not None
    assert np.array_equal(pixels.alpha[0], [0, 0, 0, 128, 255, 255, 128, 0, 0, 0])
    assert (pixels.rgb[pixels.alpha > 0] == (255, 0, 0)).all()


def test_ignored_alpha_becomes_weight(tmp_path: Path) -> None:
    rgba = np.concatenate([PIXELS, np.zeros((12, 20, 1), np.uint8)], -1)
    rgba[:, :7, 3] = 255
    Image.fromarray(rgba).save(tmp_path / "a.png")
    ignored = ImageReader(tmp_path / "a.png", lens_of(20, 12), 10, 6, use="ignore")()
    assert ignored.alpha is None and ignored.weight is not None
    assert np.array_equal(ignored.weight[0], [255, 255, 255, 0, 0, 0, 0, 0, 0, 0])  # the mixed column is out
    plain = ImageReader(tmp_path / "a.png", lens_of(20, 12), 20, 12, use="none")()
    assert plain.alpha is None and plain.weight is None and np.array_equal(plain.rgb, PIXELS)
