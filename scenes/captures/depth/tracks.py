"""Which points of a COLMAP model each of its images sees."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from luxel.scenes.captures.formats.colmap import CUT_SHORT, Cursor, bad_line, image_lines, text_lines
from luxel.scenes.files.reading import reading

FEWEST_VIEWS = 3  # of a track: with two a mismatch goes unnoticed
LARGEST_ERROR = 2.0  # pixels, of a point on average


class Track(NamedTuple):
    """A point, its mean reprojection error in pixels, and the numbers of the images that see it."""

    xyz: tuple[float, float, float]
    error: float
    images: np.ndarray


def visible_points(folder: Path) -> dict[str, np.ndarray]:
    """The points that each image of a model sees, by its name, float64 [P, 3]; only well-determined ones.

    Empty for a model without points, and for one whose points have no tracks, as some programs export it.

    Args:
        folder: of the model.

    Raises:
        CaptureError: a file is missing, cut short, or invalid.
    """
    suffix = ".bin" if (folder / "images.bin").is_file() else ".txt"
    points = folder / f"points3D{suffix}"
    if not points.is_file():
        return {}
    with reading(folder, "a COLMAP model", CUT_SHORT):
        binary = suffix == ".bin"
        numbers = dict((_names_binary if binary else _names_text)(folder / f"images{suffix}"))
        out: dict[int, list[tuple[float, float, float]]] = {number: [] for number in numbers}
        for track in (_tracks_binary if binary else _tracks_text)(points):
            views = set(track.images.tolist()) & out.keys()
            usable = len(views) >= FEWEST_VIEWS and np.isfinite(track.xyz).all()
            if usable and not track.error > LARGEST_ERROR:
                for number in views:
                    out[number].append(track.xyz)
    if not any(out.values()):
        return {}
    return {numbers[number]: np.array(visible, np.float64).reshape(-1, 3) for number, visible in out.items()}


def _names_binary(path: Path) -> Iterator[tuple[int, str]]:
    cursor = Cursor(path)
    for _ in range(cursor.count(73, "images")):
        number, *_ = cursor.take("<i7di")
        yield number, cursor.text().replace("\\", "/")
        observations = cursor.count(24, "points of an image")
        cursor.position += 24 * observations


def _names_text(path: Path) -> Iterator[tuple[int, str]]:
    for number, words in image_lines(path):
        try:
            yield int(words[0]), words[9]
        except ValueError:
            raise bad_line(path, number, "image") from None


def _tracks_binary(path: Path) -> Iterator[Track]:
    cursor = Cursor(path)
    for index in range(cursor.count(51, "points")):
        _, x, y, z, _, _, _, error = cursor.take("<Q3d3Bd")
        length = cursor.count(8, f"images of point {index}")
        pairs = np.frombuffer(cursor.data, "<i4", 2 * length, cursor.position)
        cursor.position += 8 * length
        yield Track((x, y, z), error, pairs[::2])


def _tracks_text(path: Path) -> Iterator[Track]:
    for number, line in text_lines(path):
        if not line:
            continue
        try:
            _, x, y, z, _, _, _, error, *pairs = line.split()
            images = np.array([int(word) for word in pairs[::2]], np.int64)
            yield Track((float(x), float(y), float(z)), float(error), images)
        except (ValueError, OverflowError):
            raise bad_line(path, number, "point") from None
