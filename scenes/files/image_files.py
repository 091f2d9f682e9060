"""Reading of single images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from luxel.scenes.files.image_decoding import opened_image, set_max_megapixels


def read_image(
    path: str | Path, max_size: int | None = None, max_megapixels: float | None = None
) -> np.ndarray:
    """Reads an image of any size in sRGB, with its EXIF orientation applied, composited on white.

    Args:
        path: a file of a format that Pillow reads.
        max_size: maximum of the longer side, pixels; larger images are averaged down. None: no limit.
        max_megapixels: limit on the pixels that are decoded, kept for later images of this process. None: as before,
            at first `luxel.scenes.files.image_decoding.MAX_MEGAPIXELS`.

    Returns:
        uint8 [H, W, 3].

    Raises:
        CaptureError: the file is missing, empty, not an image, damaged, or above the limit.
    """
    path = Path(path)
    set_max_megapixels(max_megapixels)
    with opened_image(path, max_size) as file:
        image = ImageOps.exif_transpose(file)
        if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
            image = image.convert("RGBA")
            image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
        elif image.mode.startswith("I;16") or image.mode == "I":
            image = Image.fromarray((np.asarray(image).astype(np.float64) / 257).round().astype(np.uint8))
        image = image.convert("RGB")
        if max_size is not None and max(image.size) > max_size:
            image.thumbnail((max_size, max_size), Image.Resampling.BOX)
        return np.array(image)
