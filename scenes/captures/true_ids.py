"""True ids of made scenes: the images that `luxel.scenes.synthetic.captures.dnerf.save_dnerf` writes for each view."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from luxel.render.geometry.camera import View
from luxel.scenes.captures.contents import inside_capture
from luxel.scenes.captures.formats.transforms import FILES
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.reading import open_file, read_bytes, reading

SUFFIX = "_ids.png"


def ids_path(view: View) -> Path | None:
    """The file with the true ids of a view, as `ids_path` of its frame names it; None: there is none."""
    if view.path is None:
        return None
    for folder in (view.path.parent, view.path.parent.parent):
        if any((folder / name).is_file() for name in FILES):
            return _listed(folder.resolve()).get(view.path.resolve())
    return None


def _listed(folder: Path) -> dict[Path, Path]:
    """Files of ids by file of the image, of all frames of a folder."""
    named: dict[Path, Path] = {}
    for file in sorted(folder.glob("transforms*.json")):
        try:
            frames = json.loads(read_bytes(file)).get("frames", [])
        except (CaptureError, ValueError, AttributeError, RecursionError):
            continue  # the reader of captures reports it
        for frame in frames if isinstance(frames, list) else []:
            if isinstance(frame, dict) and isinstance(frame.get("ids_path"), str):
                ids = inside_capture(folder, frame["ids_path"], f"{file}: ids_path")
                image = inside_capture(folder, frame.get("file_path"), f"{file}: file_path")
                for path in (image, image.with_name(f"{image.name}.png")):
                    named[path] = ids
    return named


def have_ids(views: Sequence[View]) -> bool:
    """Whether all of the views, and at least one, have true ids."""
    return bool(views) and all((path := ids_path(view)) is not None and path.is_file() for view in views)


def read_ids(view: View) -> np.ndarray:
    """Numbers of the solids at the pixels of a view, uint8 [H, W]; 0: no surface.

    Images that were made smaller take the id of the nearest pixel.

    Raises:
        CaptureError: there are none, the file cannot be read, or it is no image of ids.
    """
    path = ids_path(view)
    if path is None or not path.is_file():
        raise CaptureError(f"{view.name}: there are no true ids of this view.", "Use a made-up scene.")
    with (
        reading(path, "an image of ids", "Write the data set again."),
        open_file(path) as file,
        Image.open(file) as image,
    ):
        ids = np.asarray(image)
    if ids.dtype != np.uint8 or ids.ndim != 2:
        raise CaptureError(f"{path}: ids must be a grey image of 8 bits.", "Write the data set again.")
    return nearest_pixels(ids, view.camera.width, view.camera.height)


def nearest_pixels(labels: np.ndarray, width: int, height: int) -> np.ndarray:
    """A label map resized to [height, width]; each pixel takes the nearest one."""
    if labels.shape == (height, width):
        return labels
    rows = ((np.arange(height) + 0.5) * labels.shape[0] / height).astype(int)
    columns = ((np.arange(width) + 0.5) * labels.shape[1] / width).astype(int)
    return np.ascontiguousarray(labels[rows[:, None], columns])
