"""Reading and writing of single images."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from luxel.render.storage.drafts import Draft
from luxel.render.storage.single import writing_file
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.images.image_decoding import opened_image
from luxel.scenes.files.images.image_values import grey_bytes
from luxel.scenes.files.images.tiff_blocks import write_tiff
from luxel.scenes.files.pixel_limit import set_max_megapixels

SIDES = {".png": 1 << 20, ".jpg": 65500, ".jpeg": 65500, ".webp": 16383, ".tif": 1 << 20, ".tiff": 1 << 20}


def read_image(
    path: str | Path, max_size: int | None = None, max_megapixels: float | None = None
) -> np.ndarray:
    """Reads an image of any size in sRGB, with its EXIF orientation applied, composited on white.

    Args:
        path: a file of a format that Pillow reads.
        max_size: maximum of the longer side, pixels; larger images are averaged down. None: no limit.
        max_megapixels: limit on the pixels that are decoded, kept for later images of this process. None: as before,
            at first `luxel.scenes.files.pixel_limit.MAX_MEGAPIXELS`.

    Returns:
        uint8 [H, W, 3].

    Raises:
        CaptureError: the file is missing, empty, not an image, damaged, above the limit, or of floats beyond 0 to 1.
    """
    path = Path(path)
    set_max_megapixels(max_megapixels)
    with opened_image(path, max_size) as file:
        image = ImageOps.exif_transpose(file)
        if image.mode == "F":
            image = Image.fromarray(grey_bytes(path, np.asarray(image)))
        image = _opaque(image)
        if max_size is not None and max(image.size) > max_size:
            image.thumbnail((max_size, max_size), Image.Resampling.BOX)
        return np.array(image)


def as_rgb(image: Image.Image) -> np.ndarray:
    """The pixels of an image in sRGB, composited on white, uint8 [H, W, 3]."""
    return np.array(_opaque(image))


def _opaque(image: Image.Image) -> Image.Image:
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    elif image.mode.startswith("I;16") or image.mode == "I":
        image = Image.fromarray((np.asarray(image).astype(np.float64) / 257).round().astype(np.uint8))
    return image.convert("RGB")


def check_image(path: Path, width: int, height: int) -> None:
    """Checks that an image of a size can be written in the format of a path's suffix.

    Raises:
        CaptureError: another suffix than those of `SIDES`, or more pixels along a side than the format has.
    """
    most = SIDES.get(path.suffix.lower())
    if most is None:
        raise CaptureError(
            f"{path}: {path.suffix or 'a name without a suffix'} is no format of images that luxel writes.",
            "Give a name like image.png or image.tif.",
        )
    if max(width, height) > most:
        raise CaptureError(
            f"{path}: {path.suffix} files have at most {most} pixels along a side, not {width}x{height}.",
            "Write .tif, or a smaller image.",
        )


def write_image(
    path: Path,
    width: int,
    height: int,
    bands: Iterable[np.ndarray],
    writing: Callable[[str], AbstractContextManager[Draft]] | None = None,
    quality: int | None = None,
) -> None:
    """Writes an image from its rows under a temporary name; as .tif uncompressed, without holding the whole of it in
    memory.

    Args:
        path: ends in one of the suffixes of `SIDES`.
        width, height: pixels.
        bands: rows from the top, uint8 [R, width, 3] each, or [R, width, 4] with straight alpha (.png, .webp).
        writing: opens the temporary file, given its suffix; None: beside ``path``, which is replaced.
        quality: of .jpg and .webp, 1 to 100; None: the default of the format.

    Raises:
        CaptureError: another suffix, more pixels along a side than the format has, or the file cannot be written.
    """
    import imageio.v3 as imageio

    check_image(path, width, height)
    try:
        path.parent.stat()
        with (writing or partial(_beside, path))(path.suffix.lower()) as draft:
            if path.suffix.lower() in (".tif", ".tiff"):
                write_tiff(draft.path, width, height, bands)
                return
            rows = iter(bands)
            first = next(rows)
            pixels = np.empty((height, width, first.shape[2]), np.uint8)
            top = 0
            for band in itertools.chain([first], rows):
                pixels[top : top + len(band)] = band
                top += len(band)
            chosen: dict[str, Any] = {} if quality is None else {"quality": quality}
            imageio.imwrite(draft.path, pixels, plugin="pillow", **chosen)
    except OSError as error:
        raise CaptureError(
            f"{path}: cannot be written ({error.strerror or str(error)[:120]}).",
            "Free some space, or write elsewhere with --out.",
        ) from error


def _beside(path: Path, suffix: str) -> AbstractContextManager[Draft]:
    return writing_file(path, suffix=suffix)
