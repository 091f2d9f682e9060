"""How initial points are found: by a plane sweep, at random, or by triangulation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from luxel.render.geometry.camera import Points
from luxel.render.native import best_device
from luxel.render.replay import release_memory
from luxel.render.runs.memory import is_out_of_memory
from luxel.scenes.captures.capture_format import Progress
from luxel.scenes.captures.initial_points.origins import RANDOM, SWEPT, TRIANGULATED
from luxel.scenes.captures.initial_points.plane_sweep import sweep
from luxel.scenes.captures.initial_points.random_points import scatter
from luxel.scenes.captures.initial_points.triangulation_cache import triangulated_points
from luxel.scenes.captures.poses.triangulate import PosedImage
from luxel.scenes.errors import CaptureError

MIN_POINTS = 500  # with fewer points, random ones are added


class InitialPoints(NamedTuple):
    """Points and where they are from.

    Args:
        points: all of them.
        source: one of the constants of `luxel.scenes.captures.initial_points.origins`.
        swept: positions that a plane sweep found, also where they are too few, [P, 3]; None: there was no sweep.
    """

    points: Points
    source: str
    swept: np.ndarray | None = None


def initial_points(
    root: Path,
    posed: Sequence[PosedImage],
    warnings: list[str],
    *,
    use: str = "auto",
    cache_dir: str | Path | None = None,
    device: torch.device | None = None,
    on_progress: Progress,
) -> InitialPoints:
    """Points of a capture that has poses but no points.

    Args:
        root: the capture's folder.
        posed: cameras and readers of the images to use (not those of the data set's test split).
        warnings: gets a sentence where another kind of points is used than that of ``use``.
        use: "sweep": by a plane sweep, see `luxel.scenes.captures.initial_points.plane_sweep`; "random": in the
            cameras' views, of cut-outs in their visual hull; "triangulate": by pycolmap; "auto": random ones of
            cut-outs, and a plane sweep of other captures.
        cache_dir: of triangulated points, see `luxel.scenes.captures.caching.capture_cache.CaptureCache`.
        device: of the plane sweep; None: `luxel.render.native.best_device`.
        on_progress: called with (stage, fraction done in [0, 1]).
    """
    points, source, swept = _NOTHING, "", None
    if use == "triangulate":
        points, source = _triangulated(root, posed, warnings, cache_dir, on_progress), TRIANGULATED
    elif use == "sweep" or (use == "auto" and not all(reader.use == "cutout" for _, reader in posed)):
        points, source = _swept(posed, device or best_device(), warnings, on_progress), SWEPT
        swept = points.xyz
    if len(points.xyz) >= MIN_POINTS:
        return InitialPoints(points, source, swept)
    on_progress("sampling random points", 0.0)
    extra = scatter(posed)
    if source:
        warnings.append(
            f"{len(points.xyz)} points are from {source}; training starts from {len(extra.xyz)} random points in the "
            "cameras' views as well."
        )
    both = Points(np.concatenate([points.xyz, extra.xyz]), np.concatenate([points.rgb, extra.rgb]))
    return InitialPoints(both, RANDOM, swept)


_NOTHING = Points(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.uint8))


def _triangulated(
    root: Path,
    posed: Sequence[PosedImage],
    warnings: list[str],
    cache_dir: str | Path | None,
    on_progress: Progress,
) -> Points:
    try:
        return triangulated_points(root, posed, cache_dir=cache_dir, on_progress=on_progress)
    except CaptureError as error:
        warnings.append(error.problem)
        return _NOTHING


def _swept(
    posed: Sequence[PosedImage], device: torch.device, warnings: list[str], on_progress: Progress
) -> Points:
    on_progress("comparing views at planes", 0.0)
    try:
        return sweep(posed, device)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        warnings.append(f"Memory of {device} ran out in the plane sweep.")
        return _NOTHING
    finally:
        if device.type == "cuda":
            release_memory()
