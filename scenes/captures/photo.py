"""What the reader of a capture format finds: photographs with lens and pose, perhaps points."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath

import numpy as np

from luxel.render.camera import Points
from luxel.scenes.captures.lens import Lens
from luxel.scenes.errors import CaptureError

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".bmp")


@dataclass
class Photo:
    """One posed photograph, not read yet.

    Args:
        name: path within the capture, shortened later.
        path: the image file.
        lens: intrinsics as photographed.
        world_to_cam: rigid transform into OpenCV camera axes, float64 [4, 4].
        time: seconds or [0, 1]; 0 for static captures.
        mask: the mask file, where the capture names one.
        oriented: whether the EXIF orientation is applied before anything else.
    """

    name: str
    path: Path
    lens: Lens
    world_to_cam: np.ndarray
    time: float = 0.0
    mask: Path | None = None
    oriented: bool = False


@dataclass
class Listing:
    """All that a capture's files say.

    Args:
        kind: the format, for people ("COLMAP model", ...).
        photos: every posed photograph.
        test_names: names of the capture's own test split; None: it has none.
        unused_names: names that belong to neither split.
        points: the point cloud, where there is one.
        up: the world's up direction where the format fixes it, [3].
        rule: says in words where the split comes from, when ``test_names`` is given.
        warnings: what a person should know.
    """

    kind: str
    photos: list[Photo]
    test_names: set[str] | None = None
    unused_names: set[str] = field(default_factory=set)
    points: Points | None = None
    up: np.ndarray | None = None
    rule: str = ""
    warnings: list[str] = field(default_factory=list)


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sorts "view 10" behind "view 9": runs of digits compare as numbers."""
    parts = re.findall(r"\d+|\D+", name)
    return tuple((0, int(p), p) if p.isdecimal() and len(p) < 40 else (1, 0, p) for p in parts)


def inside_capture(folder: Path, given: object, where: str) -> Path:
    """The file that ``given`` names inside ``folder``.

    Raises:
        CaptureError: ``given`` is no text, is absolute, or leaves the folder through ``..``.
    """
    if not isinstance(given, str) or not given.strip() or "\0" in given:
        raise CaptureError(
            f"{where}: a path is missing or is no text: {given!r}.", "Name a file in the capture."
        )
    relative = given if (folder / given).exists() else given.replace("\\", "/")
    absolute = PurePosixPath(relative).is_absolute() or PureWindowsPath(given).drive or given.startswith("\\")
    normal = os.path.normpath(relative)
    if absolute or normal == ".." or normal.startswith("../"):
        raise CaptureError(
            f"{where}: the path {given!r} lies outside of the capture folder {folder}.",
            "Put the file into the folder and write its path relative to it.",
        )
    return folder / normal


def image_files(folder: Path) -> list[Path]:
    """The photographs directly in a folder, in natural order."""
    found = [
        entry
        for entry in folder.iterdir()
        if entry.suffix.lower() in IMAGE_SUFFIXES and entry.is_file() and not entry.name.startswith(".")
    ]
    return sorted(found, key=lambda entry: natural_key(entry.name))


def shorten_names(photos: list[Photo]) -> dict[str, str]:
    """Old to new names without the folder that all share; given names stay unique."""
    parents = [PurePosixPath(photo.name).parent.parts for photo in photos]
    shared = 0
    while all(len(p) > shared and p[shared] == parents[0][shared] for p in parents):
        shared += 1
    return {p.name: "/".join(PurePosixPath(p.name).parts[shared:]) for p in photos}
