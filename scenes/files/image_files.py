"""Reading of single images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from luxel.scenes.captures.contents import IMAGE_SUFFIXES
from luxel.scenes.errors import CaptureError

MAX_PIXELS = 1 << 32  # more are treated as a damaged header


def read_image(path: str | Path, max_size: int | None = None) -> np.ndarray:
    """Reads an image of any size in sRGB, with its EXIF orientation applied, composited on white.

    Args:
        path: a file of a format that Pillow reads.
        max_size: maximum of the longer side, pixels; larger images are averaged down. None: no limit.

    Returns:
        uint8 [H, W, 3].

    Raises:
        CaptureError: the file is missing, empty, not an image, or damaged.
    """
    path = Path(path)
    if not path.is_file():
        what = "this is a folder, not an image file" if path.is_dir() else "there is no such image file"
        raise CaptureError(f"{path}: {what}.", f"Give one image file ({', '.join(IMAGE_SUFFIXES)}).")
    if path.stat().st_size == 0:
        raise CaptureError(f"{path}: the image file is empty (zero bytes).", "Copy the file again.")
    before, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, MAX_PIXELS
    try:
        with Image.open(path) as file:
            image = ImageOps.exif_transpose(file)
            if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
                image = image.convert("RGBA")
                image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
            elif image.mode.startswith("I;16") or image.mode == "I":
                image = Image.fromarray((np.asarray(image).astype(np.float64) / 257).round().astype(np.uint8))
            image = image.convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise CaptureError(
            f"{path}: cannot be read as an image ({error}).", "Give a PNG, JPEG, WebP, TIFF or BMP file."
        ) from error
    finally:
        Image.MAX_IMAGE_PIXELS = before
    if max_size is not None and max(image.size) > max_size:
        image.thumbnail((max_size, max_size), Image.Resampling.BOX)
    return np.array(image)
