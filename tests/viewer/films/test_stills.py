"""Single images in tiles: the same as in one piece, with progress, until they are cancelled or memory runs out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera
from luxel.render.primitives import Gaussians
from luxel.render.raster.rasterize import rasterize
from luxel.viewer.films.output_file import OutputFile
from luxel.viewer.films.still import (
    StillCancelledError,
    require_still,
    still_bands,
    tile_count,
    write_still,
)

CAMERA = Camera.look_at((9.0, -3.0, 4.0), (2.5, 2.5, 2.5), fov_y=0.8, width=150, height=90)


def places(camera: Camera) -> np.ndarray:
    """Column and row of each pixel in the whole image, with alpha."""
    left, top = (
        round(float(a - b)) for a, b in zip(CAMERA.intrinsics[2:], camera.intrinsics[2:], strict=True)
    )
    rows, columns = np.mgrid[top : top + camera.height, left : left + camera.width]
    return np.stack([columns, rows, 0 * rows, 0 * rows + 255], -1).astype(np.uint8)


@pytest.mark.parametrize("tile", [150 * 90, 4000, 1500])
def test_tiles_make_the_whole_image(tile: int, grid: Callable[..., Gaussians]) -> None:
    def render(camera: Camera) -> np.ndarray:
        return (rasterize(grid(), camera).rgb.clamp(0, 1) * 255).round().byte().numpy()

    shares: list[float] = []
    bands = list(still_bands(CAMERA, places, shares.append, tile=tile))
    assert np.array_equal(np.concatenate(bands), places(CAMERA))
    assert len(shares) == tile_count(CAMERA, tile) and shares[-1] == 1 and shares == sorted(shares)
    difference = np.abs(
        np.concatenate(list(still_bands(CAMERA, render, tile=tile))).astype(int) - render(CAMERA)
    )
    assert difference.max() <= 3 and (difference > 1).mean() < 1e-3


def test_tiles_become_smaller_until_they_fit_into_memory() -> None:
    sizes: list[int] = []

    def scarce(camera: Camera) -> np.ndarray:
        sizes.append(camera.width * camera.height)
        if sizes[-1] > 3000:
            raise MemoryError
        return places(camera)

    assert np.array_equal(np.concatenate(list(still_bands(CAMERA, scarce))), places(CAMERA))
    assert sizes[0] == 150 * 90 and min(sizes) > 500

    def never(camera: Camera) -> np.ndarray:
        raise MemoryError

    def broken(camera: Camera) -> np.ndarray:
        raise RuntimeError("another fault")

    with pytest.raises(MemoryError):
        list(still_bands(CAMERA, never))
    with pytest.raises(RuntimeError, match="another fault"):
        list(still_bands(CAMERA, broken))


def test_an_image_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "view.png"
    shares: list[float] = []
    with pytest.raises(StillCancelledError):
        write_still(
            OutputFile(path),
            CAMERA,
            places,
            alpha=True,
            on_progress=shares.append,
            cancelled=lambda: len(shares) == 2,
            tile=4000,
        )
    assert list(tmp_path.iterdir()) == [] and len(shares) == 2
    write_still(OutputFile(path), CAMERA, places, alpha=True)
    with Image.open(path) as image:
        assert image.mode == "RGBA" and np.array_equal(np.array(image), places(CAMERA))
    with pytest.raises(LuxelError, match=r"view\.png: already exists"):
        write_still(OutputFile(path), CAMERA, places, alpha=True)

    def noise(camera: Camera) -> np.ndarray:
        return np.random.default_rng(0).integers(0, 256, (camera.height, camera.width, 3), np.uint8)

    sizes = []
    for quality in (10, 95):
        write_still(OutputFile(tmp_path / f"{quality}.jpg"), CAMERA, noise, quality=quality)
        sizes.append((tmp_path / f"{quality}.jpg").stat().st_size)
    assert sizes[0] < 0.6 * sizes[1]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("a.jpg", {"alpha": True}, r"\.jpg images have no alpha\. Write \.png"),
        ("a.tif", {"alpha": True}, r"\.tif images have no alpha"),
        ("a.png", {"quality": 50}, r"\.png images have no quality to choose"),
        ("a.bmp", {}, r"a\.bmp: \.bmp is no format of images that luxel writes"),
    ],
)
def test_what_formats_do_not_have(tmp_path: Path, name: str, options: dict[str, int], message: str) -> None:
    with pytest.raises(LuxelError, match=message):
        require_still(OutputFile(tmp_path / name), 40, 30, **options)
