"""Triangulated points that are stored in the cache of a capture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from luxel.render.geometry.camera import Points
from luxel.scenes.captures.caching.capture_cache import CaptureCache, content_key
from luxel.scenes.captures.capture_format import Progress
from luxel.scenes.captures.colmap_process import features
from luxel.scenes.captures.initial_points.random_points import within_masks
from luxel.scenes.captures.poses.triangulate import PosedImage, triangulate
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.ply import load_points, save_points

VERSION = 2
SAME_CAMERAS = 1e-5  # most difference of a number of two cameras that are the same, relative to the largest


def triangulated_points(
    root: Path,
    posed: Sequence[PosedImage],
    *,
    cache_dir: str | Path | None,
    on_progress: Progress,
) -> Points:
    """Points triangulated by pycolmap, from the cache where they are stored for the same images and cameras.

    Args:
        root: the capture's folder.
        posed: cameras and readers of the images to use.
        cache_dir: see `luxel.scenes.captures.caching.capture_cache.CaptureCache`.
        on_progress: called with (stage, fraction done in [0, 1]).

    Raises:
        CaptureError: pycolmap is missing or fails, or there are no points.
    """

    def make(folder: Path) -> None:
        points = within_masks(triangulate(posed, on_progress), posed)
        if not len(points.xyz):
            raise CaptureError(
                "No points could be triangulated from the given poses.",
                "Check that the poses are those of these images, or leave them out to estimate them.",
            )
        points_file, cameras_file = _names(posed)
        save_points(folder / points_file, points)
        np.save(folder / cameras_file, _numbers(posed))

    return CaptureCache(root, cache_dir).result("", _reader(posed), make, names=_names(posed))


def _names(posed: Sequence[PosedImage]) -> tuple[str, str]:
    """The files of the points and of the cameras."""
    parts: list[object] = ["points", VERSION, features.FEATURES]
    for camera, reader in posed:
        parts += [reader.path.name, reader.path.stat().st_size, reader.use, camera.width, camera.height]
    name = f"points-{content_key(parts)}"
    return f"{name}.ply", f"{name}.cameras.npy"


def _reader(posed: Sequence[PosedImage]) -> Callable[[Path], Points]:
    points_file, cameras_file = _names(posed)

    def read(folder: Path) -> Points:
        _require_cameras(folder / cameras_file, posed)
        return load_points(folder / points_file)

    return read


def _numbers(posed: Sequence[PosedImage]) -> np.ndarray:
    """Pose and intrinsics of each camera, [N, 20]."""
    rows = [np.append(camera.world_to_cam.ravel(), camera.intrinsics) for camera, _ in posed]
    return np.array(rows).reshape(-1, 20)


def _require_cameras(file: Path, posed: Sequence[PosedImage]) -> None:
    """Raises an exception unless a file has these cameras, as far as processors compute alike: their bits differ."""
    known, expected = np.load(file, allow_pickle=False), _numbers(posed)
    if known.shape != expected.shape or not bool(
        (np.abs(known - expected) <= SAME_CAMERAS * np.abs(expected).max(axis=0)).all()
    ):
        raise ValueError(f"{file} has other cameras")
