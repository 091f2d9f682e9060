"""Materials of OBJ meshes (.mtl): the image of their colours."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from luxel.scenes.errors import CaptureError
from luxel.scenes.files.images.image_decoding import opened_image
from luxel.scenes.files.images.image_files import as_rgb
from luxel.scenes.files.reading import read_bytes
from luxel.scenes.files.text import decode_text

log = logging.getLogger(__name__)

LARGEST = 1 << 24  # bytes of a file of materials


def material_image(path: Path, libraries: Sequence[str], used: Sequence[str]) -> np.ndarray | None:
    """The image that all materials of a mesh share, uint8 [H, W, 3]; None: there is none that can be shown.

    A file that is missing, or lies outside of the folder of the mesh, is left out with a warning.

    Args:
        path: of the mesh.
        libraries: names of its files of materials.
        used: names of the materials of its faces; empty: all.

    Raises:
        CaptureError: a file of materials is too large, or the image is damaged.
    """
    images: dict[str, str | None] = {}
    for library in libraries:
        if (file := _companion(path, library, "materials")) is not None:
            images |= _images(file)
    shown = {images.get(name) for name in (used or images)}
    if shown <= {None}:
        return None
    if len(shown) > 1:
        log.warning(
            "%s: its materials have %d textures or none; luxel shows one that all share, so that it is shown without.",
            path,
            len(shown - {None}),
        )
        return None
    file = _companion(path, str(shown.pop()), "texture")
    if file is None:
        return None
    with opened_image(file) as image:
        return as_rgb(image)


def _companion(path: Path, name: str, what: str) -> Path | None:
    """A file that a mesh names, below its folder."""
    folder = path.parent.resolve()
    try:
        file = (folder / name.replace("\\", "/")).resolve()
        if file.is_relative_to(folder) and file.is_file():
            return file
    except (OSError, ValueError):  # no name of a file
        pass
    log.warning("%s: its %s %s is not alongside it; it is shown without.", path, what, ascii(name)[:80])
    return None


def _images(file: Path) -> dict[str, str | None]:
    """The image of each material by name; None: it has none."""
    data = read_bytes(file)
    if len(data) > LARGEST:
        raise CaptureError(
            f"{file}: {len(data)} bytes are too many for a file of materials.", "Export the mesh again."
        )
    images: dict[str, str | None] = {}
    name = None
    for line in decode_text(data).splitlines():
        word, _, rest = line.strip().partition(" ")
        if word == "newmtl":
            name = rest.strip()
            images[name] = None
        elif word == "map_Kd" and name is not None and rest.split():
            # Options stand before the name: "-s 1 1 1 a.png". A name may have spaces where there are none.
            images[name] = rest.strip() if not rest.strip().startswith("-") else rest.split()[-1]
    return images
