"""Folders of label maps: one image per view, of the view's name, whose grey values are labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from luxel.render.geometry.camera import View
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.reading import open_file, reading

NO_LABEL = 255
MOST = 254
VALUES = "Grey values are labels: 0 is the background, 1 to 254 are objects, 255 says nothing."


def read_label_maps(folder: Path, views: Sequence[View]) -> dict[str, np.ndarray]:
    """The label maps of a folder by name of their view, uint8 [H, W].

    For a view a/b.jpg these files are tried: a/b.png, b.png, a/b.jpg.png, b.jpg.png. A file is of one view, the first
    that it fits.

    Raises:
        CaptureError: the folder has none for any view, or one is of another size than its view, holds more than 254
            labels or is no grey image; or there is no object in any of them.
    """
    if not folder.is_dir():
        raise CaptureError(f"{folder}: this is no folder of label maps.", "Give a folder of PNG files.")
    maps: dict[str, np.ndarray] = {}
    taken: set[Path] = set()
    for view in views:
        files = (folder / name for name in _tried(view.name))
        path = next((path for path in files if path not in taken and path.is_file()), None)
        if path is not None:
            taken.add(path)
            maps[view.name] = read_label_map(path, view)
    if not maps:
        example = _tried(views[0].name)[0] if views else "NAME.png"
        raise CaptureError(
            f"{folder}: no file there has the name of a view.", f"Name label maps after the views: {example}."
        )
    if not any(((labels > 0) & (labels != NO_LABEL)).any() for labels in maps.values()):
        empty = all((labels == NO_LABEL).all() for labels in maps.values())
        what = "all pixels are 255, which says nothing" if empty else "there is no object in them"
        raise CaptureError(f"{folder}: {len(maps)} label maps, but {what}.", VALUES)
    return maps


def read_label_map(path: Path, view: View) -> np.ndarray:
    """A label map, uint8 [H, W].

    Raises:
        CaptureError: see `read_label_maps`.
    """
    with (
        reading(path, "a label map", "Write it again as PNG."),
        open_file(path) as file,
        Image.open(file) as image,
    ):
        stored = np.asarray(image)
    if stored.ndim == 3 and np.ptp(stored[..., :3].astype(int), axis=-1).max() == 0:
        stored = stored[..., 0]
    if stored.ndim != 2:
        raise CaptureError(f"{path}: a label map must be grey or have a palette, not colours.", VALUES)
    camera = view.camera
    if stored.shape != (camera.height, camera.width):
        raise CaptureError(
            f"{path}: the label map is {stored.shape[1]}x{stored.shape[0]} pixels, its view {camera.width}x"
            f"{camera.height}.",
            "Write label maps at the size of the views, without interpolation.",
        )
    if (
        stored.dtype != np.uint8
        and stored.size
        and not 0 <= int(stored.min()) <= int(stored.max()) <= NO_LABEL
    ):
        raise CaptureError(
            f"{path}: labels up to {int(stored.max()):,}, and a scene has at most {MOST}.", VALUES
        )
    return np.ascontiguousarray(stored.astype(np.uint8))


def _tried(name: str) -> list[str]:
    path = Path(name)
    short = path.name
    return [
        path.with_suffix(".png").as_posix(),
        Path(short).with_suffix(".png").as_posix(),
        f"{path.as_posix()}.png",
        f"{short}.png",
    ]
