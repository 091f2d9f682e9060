"""The films or folders of frames of synchronised cameras, in a capture's folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from luxel.scenes.captures.cameras.films import FRAME_FOLDERS, frames_source, is_film
from luxel.scenes.captures.contents import SourceImage, natural_key
from luxel.scenes.captures.images.images import ImageHeader

CAMERA_FOLDERS = (".", "videos", "cameras", "frames")  # where the films or folders of the cameras are
RESERVED = ("images", "input", "masks", "mask", "sparse", "colmap", "depth", "depths", "dense")
FEWEST = 2  # cameras
Placement = Callable[[ImageHeader], SourceImage]


@dataclass
class CameraSource:
    """A camera of a capture.

    Args:
        name: unique, that of its film or folder.
        source: the film or folder of images.
        place: gives an image of a size its lens and pose.
    """

    name: str
    source: Path
    place: Placement


def camera_sources(folder: Path) -> dict[str, Path]:
    """Films or image folders of the first of `CAMERA_FOLDERS` that has several of them, by name in natural order.

    The folder of a camera holds its frames, in a folder of `FRAME_FOLDERS` or itself, or one film.
    """
    for place in CAMERA_FOLDERS:
        if not (folder / place).is_dir():
            continue
        entries = [entry for entry in (folder / place).iterdir() if not entry.name.startswith(".")]
        films = [entry for entry in entries if is_film(entry)]
        if len(films) >= FEWEST:
            return _ordered({entry.stem: entry for entry in films})
        folders = [entry for entry in entries if entry.name.lower().split("_")[0] not in RESERVED]
        sources = {entry.name: frames_source(entry) for entry in folders if entry.is_dir()}
        named = {name: source for name, source in sources.items() if source is not None}
        if len(named) >= FEWEST:
            return _ordered(named)
    return {}


def _ordered(sources: dict[str, Path]) -> dict[str, Path]:
    return dict(sorted(sources.items(), key=lambda item: natural_key(item[0])))


def camera_name(entry: Path) -> str:
    """The name of a camera whose film or folder is given: of ``cam00/images`` that of the folder around it."""
    if entry.is_file():
        return entry.stem
    return entry.parent.name if entry.name in FRAME_FOLDERS else entry.name
