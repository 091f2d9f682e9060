"""The task of triangulating points from known poses, and what it shares with the adjustment of poses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from luxel.scenes.captures.colmap_process import features
from luxel.scenes.captures.colmap_process.features import import_pycolmap
from luxel.scenes.errors import CaptureError

if TYPE_CHECKING:
    from luxel.scenes.captures.capture_format import Progress


@dataclass(frozen=True)
class MatchedImages:
    """Images in a folder whose features are matched.

    Args:
        pycolmap: the module.
        folder: with the folder ``images`` and COLMAP's database.
        names: of the images, in the order of their poses.
    """

    pycolmap: Any
    folder: Path
    names: Sequence[str]

    @property
    def database(self) -> Path:
        """COLMAP's database."""
        return self.folder / "database.db"

    @property
    def images(self) -> Path:
        """Folder of the undistorted images."""
        return self.folder / "images"


def triangulate(
    folder: Path,
    on_progress: Progress,
    *,
    names: Sequence[str],
    lenses: Sequence[tuple[Sequence[float], Sequence[str]]],
    pairs: Sequence[tuple[str, str]],
    world_to_cam: np.ndarray,
) -> dict[str, np.ndarray]:
    """Positions ``xyz`` [P, 3] and colours ``rgb`` [P, 3] of points triangulated with fixed poses.

    Args:
        folder, names, lenses, pairs: see `matched`.
        on_progress: called with (stage, fraction done in [0, 1]).
        world_to_cam: poses of the images, [V, 4, 4].

    Raises:
        CaptureError: pycolmap is missing or fails.
    """
    matches = matched(folder, on_progress, names=names, lenses=lenses, pairs=pairs)
    on_progress("triangulating points", 0.0)
    with features.quiet(matches.pycolmap):
        points3d = list(triangulated(matches, world_to_cam).points3D.values())
    return {
        "xyz": np.array([point.xyz for point in points3d], np.float32).reshape(-1, 3),
        "rgb": np.array([point.color for point in points3d], np.uint8).reshape(-1, 3),
    }


def matched(
    folder: Path,
    on_progress: Progress,
    *,
    names: Sequence[str],
    lenses: Sequence[tuple[Sequence[float], Sequence[str]]],
    pairs: Sequence[tuple[str, str]],
) -> MatchedImages:
    """Features of images, matched, with their pinhole cameras.

    Args:
        folder: with the folders ``images`` and ``masks``; features outside the masks are dropped.
        on_progress: called with (stage, fraction done in [0, 1]).
        names: of the images.
        lenses: fx, fy, cx, cy in pixels, and the names of the images of this lens, for each lens.
        pairs: of names of images that are matched.

    Raises:
        CaptureError: pycolmap is missing.
    """
    pycolmap = import_pycolmap()
    pycolmap.set_random_seed(features.SEED)
    matches, masks, done = MatchedImages(pycolmap, folder, names), folder / "masks", 0
    with features.quiet(pycolmap):
        for intrinsics, group in lenses:
            size = len(group)
            features.extract(
                pycolmap,
                matches.database,
                matches.images,
                group,
                masks=masks if any(masks.iterdir()) else None,
                mode=pycolmap.CameraMode.SINGLE,
                model="PINHOLE",
                parameters=intrinsics,
                on_progress=lambda share, before=done, size=size: on_progress(
                    "finding features", (before + share * size) / len(names)
                ),
            )
            done += size
        features.match(pycolmap, matches.database, pairs, lambda share: on_progress("matching images", share))
    return matches


def triangulated(matches: MatchedImages, world_to_cam: np.ndarray, tolerance: float | None = None) -> Any:
    """A pycolmap.Reconstruction of points triangulated with fixed poses.

    Args:
        matches: of the images.
        world_to_cam: their poses, [V, 4, 4].
        tolerance: largest reprojection error of a point, pixels; None: COLMAP's default.

    Raises:
        CaptureError: pycolmap fails.
    """
    pycolmap = matches.pycolmap
    pose_of = dict(zip(matches.names, world_to_cam, strict=True))
    options = pycolmap.IncrementalPipelineOptions()
    options.random_seed = features.SEED
    if tolerance is not None:
        options.mapper.filter_max_reproj_error = tolerance
        options.triangulation.complete_max_reproj_error = tolerance
        options.triangulation.merge_max_reproj_error = tolerance
    out = matches.folder / "triangulated"
    out.mkdir(exist_ok=True)
    try:
        model = pycolmap.Reconstruction()
        with pycolmap.Database.open(str(matches.database)) as opened:
            for rig_camera in opened.read_all_cameras():
                model.add_camera_with_trivial_rig(rig_camera)
            for stored in opened.read_all_images():
                image = pycolmap.Image(stored.name, np.zeros((0, 2)), stored.camera_id, stored.image_id)
                model.add_image_with_trivial_frame(image, pycolmap.Rigid3d(pose_of[stored.name][:3]))
        paths = str(matches.database), str(matches.images), str(out)
        return pycolmap.triangulate_points(model, *paths, options=options)
    except (RuntimeError, ValueError, IndexError) as error:
        raise CaptureError(
            f"Triangulation from the given poses failed ({error}).",
            "Check that the poses are those of these images, or leave them out to estimate them.",
        ) from None
