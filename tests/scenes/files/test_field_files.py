"""Images and volumes that fields are trained on, from files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from luxel.scenes.errors import CaptureError
from luxel.scenes.files.images.image_files import read_image
from luxel.scenes.files.volumes import read_volume
from luxel.scenes.synthetic.landscape import landscape


def test_images_are_upright_and_opaque(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (6, 9, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    assert np.array_equal(read_image(tmp_path / "a.png"), pixels)
    assert read_image(tmp_path / "a.png", max_size=3).shape == (2, 3, 3)
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(pixels).save(tmp_path / "b.png", exif=exif)
    assert np.array_equal(read_image(tmp_path / "b.png"), np.rot90(pixels, -1))
    clear = np.concatenate([pixels, np.zeros((6, 9, 1), np.uint8)], -1)
    Image.fromarray(clear).save(tmp_path / "c.png")
    assert (read_image(tmp_path / "c.png") == 255).all()
    deep = (pixels[..., 0].astype(np.uint16) * 257).astype(np.uint16)
    Image.fromarray(deep).save(tmp_path / "d.png")
    assert np.array_equal(read_image(tmp_path / "d.png")[..., 1], pixels[..., 0])


@pytest.mark.parametrize("content", [None, b"", b"no image", b"\x89PNG\r\n\x1a\n" + bytes(40)])
def test_invalid_images(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "a.png"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CaptureError, match=r"a\.png"):
        read_image(path)
    with pytest.raises(CaptureError, match="folder"):
        read_image(tmp_path)


def test_truncated_image(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    Image.fromarray(landscape(64, 64)).save(path)
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(CaptureError, match="cannot be read as an image"):
        read_image(path)


def test_landscape_is_reproducible_with_fine_texture() -> None:
    image = landscape(96, 64)
    assert image.shape == (64, 96, 3) and image.dtype == np.uint8
    assert np.array_equal(image, landscape(96, 64)) and not np.array_equal(image, landscape(96, 64, seed=1))
    assert np.abs(np.diff(image.astype(int), axis=1)).mean() > 1.5


def test_volumes(tmp_path: Path) -> None:
    grid = np.random.default_rng(0).random((3, 4, 5))
    np.save(tmp_path / "a.npy", grid)
    np.savez(tmp_path / "b.npz", grid)
    np.savez(tmp_path / "c.npz", density=grid, other=np.zeros(3))
    for name in ("a.npy", "b.npz", "c.npz"):
        volume = read_volume(tmp_path / name)
        assert volume.dtype == np.float32 and np.allclose(volume, grid)


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.npy", np.zeros((3, 4)), "must be"),
        ("a.npy", np.zeros((3, 4, 5, 3)), "must be"),
        ("a.npy", np.zeros((0, 4, 5)), "must be"),
        ("a.npy", np.array(["x"]), "not numbers"),
        ("a.npy", np.array([{}], object), "not numbers"),
        ("a.npy", b"\x93NUMPY", "cannot be read as a numpy file"),
        ("a.npz", b"PK\x03\x04", "cannot be read as a numpy file"),
        ("a.vdb", b"x", "is not a volume format"),
        ("a.npy", None, "no such file"),
    ],
)
def test_invalid_volumes(tmp_path: Path, name: str, content: Any, message: str) -> None:
    path = tmp_path / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        np.save(path, content, allow_pickle=True)
    with pytest.raises(CaptureError, match=message):
        read_volume(path)
