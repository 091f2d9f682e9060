"""One image of a scene at any size, rendered in tiles."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import torch

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera
from luxel.render.runs.memory import is_out_of_memory
from luxel.scenes.files.images.image_files import check_image, write_image
from luxel.viewer.films.output_file import OutputFile

Render = Callable[[Camera], np.ndarray]

TILE = 1 << 22  # pixels of a tile
GUARD = 1 / 16  # of its sides, rendered around a tile and cut off: see `still_bands`
SMALLEST = 64  # pixels along a side of a tile below which memory that ran out is an error
ALPHA = (".png", ".webp")
LOSSY = (".jpg", ".jpeg", ".webp")


class StillCancelledError(Exception):
    """The image was cancelled."""


def require_still(
    output: OutputFile, width: int, height: int, *, alpha: bool = False, quality: int | None = None
) -> None:
    """Checks before an image is rendered that it may be written.

    Args:
        output: the image.
        width, height: pixels.
        alpha: whether it has a transparent background.
        quality: 1 to 100; None: none is chosen.

    Raises:
        LuxelError: something that may not be replaced has its name, or the format has no such size, alpha or quality.
    """
    path, suffix = output.path, output.path.suffix.lower()
    check_image(path, width, height)
    if alpha and suffix not in ALPHA:
        raise LuxelError(f"{path}: {suffix} images have no alpha.", "Write .png.")
    if quality is not None and suffix not in LOSSY:
        raise LuxelError(f"{path}: {suffix} images have no quality to choose.", "Leave --quality out.")
    output.require()


def write_still(
    output: OutputFile,
    camera: Camera,
    render: Render,
    *,
    alpha: bool = False,
    quality: int | None = None,
    on_progress: Callable[[float], None] = lambda share: None,
    cancelled: Callable[[], bool] = lambda: False,
    tile: int = TILE,
) -> None:
    """Renders one image and writes it; the file gets its name when it is complete.

    Args:
        output: .png, .jpg, .webp or .tif.
        camera: of the whole image; 7680 x 4320 pixels need 0.13 GB for the bytes of an image with alpha, and the memory
            of a tile.
        render: an image of a camera that has a part of the pixels, uint8 [H, W, 3], or [H, W, 4] with straight alpha.
        alpha: whether ``render`` gives alpha.
        quality: see `require_still`.
        on_progress: called with the share that is done, 0 to 1, after each tile.
        cancelled: asked before each tile.
        tile: see `still_bands`.

    Raises:
        StillCancelledError: ``cancelled`` was true; nothing is left of the file.
        LuxelError: see `require_still`, or the file cannot be written.
    """
    require_still(output, camera.width, camera.height, alpha=alpha, quality=quality)
    bands = still_bands(camera, render, on_progress, cancelled, tile)
    write_image(output.path, camera.width, camera.height, bands, output.writing, quality)


def still_bands(
    camera: Camera,
    render: Render,
    on_progress: Callable[[float], None] = lambda share: None,
    cancelled: Callable[[], bool] = lambda: False,
    tile: int = TILE,
) -> Iterator[np.ndarray]:
    """An image in bands of rows, rendered in tiles of at most ``tile`` pixels, and smaller ones where memory runs out.

    The shape of a projected Gaussian follows its place up to 15 % beyond an image: large ones whose centre is farther
    away differ between a tile and the whole image. Each tile is rendered with a border of GUARD of its sides, which is
    cut off. In a room of 1.2 million Gaussians, nine tiles differ from the whole image by at most 3 of 255 levels, and
    in one of 10,000 pixels by more than one.

    Args:
        camera, render, on_progress, cancelled: see `write_still`.
        tile: pixels; of a rolling shutter there is one tile.

    Yields:
        uint8 [R, width, 3] or [R, width, 4], from the top.

    Raises:
        StillCancelledError: ``cancelled`` was true.
    """
    down, across = _grid(camera, tile)
    rows, columns = _edges(camera.height, down), _edges(camera.width, across)
    done = 0
    for top, bottom in rows:
        band = []
        for left, right in columns:
            if cancelled():
                raise StillCancelledError
            band.append(_tile(camera, render, (left, top, right, bottom)))
            done += 1
            on_progress(done / (down * across))
        yield np.concatenate(band, 1)


def tile_count(camera: Camera, tile: int = TILE) -> int:
    """How many tiles `still_bands` makes of an image, and how often it calls ``on_progress``."""
    down, across = _grid(camera, tile)
    return down * across


def _grid(camera: Camera, tile: int) -> tuple[int, int]:
    """How many rows and columns of tiles an image is cut into: the fewest tiles of about the image's shape."""
    width, height = camera.width, camera.height
    down = across = 1
    if camera.shutter is not None:
        return down, across
    while -(-width // across) * -(-height // down) > tile:
        if width * down > height * across:
            across += 1
        else:
            down += 1
    return down, across


def _edges(length: int, parts: int) -> list[tuple[int, int]]:
    edges = [length * part // parts for part in range(parts + 1)]
    return list(itertools.pairwise(edges))


def _tile(camera: Camera, render: Render, box: tuple[int, int, int, int]) -> np.ndarray:
    """A part of the image, left, top, right and bottom in its pixels; in halves where memory runs out."""
    left, top, right, bottom = box
    try:
        return _within_border(camera, render, box)
    except Exception as error:
        smallest = max(right - left, bottom - top) <= SMALLEST or camera.shutter is not None
        if smallest or not is_out_of_memory(error):
            raise
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    if right - left > bottom - top:
        middle = (left + right) // 2
        boxes, axis = ((left, top, middle, bottom), (middle, top, right, bottom)), 1
    else:
        middle = (top + bottom) // 2
        boxes, axis = ((left, top, right, middle), (left, middle, right, bottom)), 0
    return np.concatenate([_tile(camera, render, part) for part in boxes], axis)


def _within_border(camera: Camera, render: Render, box: tuple[int, int, int, int]) -> np.ndarray:
    left, top, right, bottom = box
    if box == (0, 0, camera.width, camera.height):
        return render(camera)
    across, down = int(GUARD * (right - left)), int(GUARD * (bottom - top))
    first, above = max(0, left - across), max(0, top - down)
    last, below = min(camera.width, right + across), min(camera.height, bottom + down)
    image = render(camera.cropped(first, above, last - first, below - above))
    return image[top - above : bottom - above, left - first : right - first]
