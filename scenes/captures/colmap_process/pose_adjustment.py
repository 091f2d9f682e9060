"""The task of refining given poses by bundle adjustment over matched features."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from luxel.scenes.captures.colmap_process import features
from luxel.scenes.captures.colmap_process.lens_refinement import adjust
from luxel.scenes.captures.colmap_process.triangulation import matched, triangulated
from luxel.scenes.errors import CaptureError

if TYPE_CHECKING:
    from luxel.scenes.captures.capture_format import Progress


def refine_poses(
    folder: Path,
    on_progress: Progress,
    *,
    names: Sequence[str],
    lenses: Sequence[tuple[Sequence[float], Sequence[str]]],
    pairs: Sequence[tuple[str, str]],
    tolerances: Sequence[float],
    min_points: int,
    world_to_cam: np.ndarray,
) -> dict[str, np.ndarray]:
    """Refined ``poses`` [V, 4, 4] in a gauge of their own, and ``errors`` [2]: the mean reprojection error before and
    after, pixels.

    Args:
        folder, names, lenses, pairs: see `luxel.scenes.captures.colmap_process.triangulation.matched`.
        on_progress: called with (stage, fraction done in [0, 1]).
        tolerances: reprojection error of points, pixels, round by round.
        min_points: number of points that the poses must explain.
        world_to_cam: given poses, [V, 4, 4].

    Raises:
        CaptureError: pycolmap is missing, or the images do not match with these poses.
    """
    poses, errors = world_to_cam, []
    matches = matched(folder, on_progress, names=names, lenses=lenses, pairs=pairs)
    with features.quiet(matches.pycolmap):
        for done, tolerance in enumerate(tolerances):
            on_progress("refining poses", done / len(tolerances))
            model = triangulated(matches, poses, tolerance)
            if model.num_points3D() < min_points:
                raise CaptureError(
                    f"Only {model.num_points3D()} points of the images agree with the given poses.",
                    "Check that the poses are those of these images, or leave them out to estimate them.",
                )
            model.update_point_3d_errors()
            errors.append(model.compute_mean_reprojection_error())
            adjust(matches.pycolmap, model, fixed=set(model.cameras))
            row = {name: index for index, name in enumerate(names)}
            poses = poses.copy()
            for image in model.images.values():
                poses[row[image.name], :3] = np.asarray(image.cam_from_world().matrix())
        errors.append(model.compute_mean_reprojection_error())
    return {"poses": poses, "errors": np.array([errors[0], errors[-1]])}
