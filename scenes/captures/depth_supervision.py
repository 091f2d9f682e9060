"""Gives the views of a capture the depth that training fits next to the images: of maps, of points, or of both."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from luxel.render.geometry.camera import View
from luxel.scenes.captures.depth.depth_maps import against_points
from luxel.scenes.captures.depth.points import FirstOf, PointDepth, thinned
from luxel.scenes.captures.depth.tracks import visible_points
from luxel.scenes.captures.formats.colmap import COLMAP, find_model
from luxel.scenes.captures.open_capture import Capture
from luxel.scenes.captures.path_lookup import folded
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.ply import load_points

COMPARED = 8  # maps whose scale is compared with that of the points
OFF = 0.05  # relative difference above which it is said
MAPS = "Name them in transforms.json (depth_file_path), or put them into depths/ next to images/, under equal names."


def supervise(capture: Capture, source: str, *, points: Path | None = None, metric: bool = True) -> None:
    """Sets ``depth`` of the views of a capture, in place.

    Args:
        capture: whose views get it; warnings about it are added to its own.
        source: "maps": its depth maps; "points": points where a view sees them; "all": points where no map has a
            depth; "none": nothing is known.
        points: a PLY file of them in the coordinates of the poses, such as a LiDAR scan. None: those of the capture; of
            a COLMAP model each view then has those of its own tracks.
        metric: whether maps are in units of the poses; else their scale is not compared with that of the points.

    Raises:
        CaptureError: the capture has no depth of that kind, its images keep their lens, or the file of points
            cannot be read.
    """
    if points is not None and source not in ("points", "all"):
        raise CaptureError(
            f"{points}: its points are not used with depth {source!r}.", "Choose depth 'points' or 'all'."
        )
    for view in capture.views:
        view.depth = None
    if source != "none" and any(view.camera.lens is not None for view in capture.views):
        raise CaptureError(
            f"{capture.path}: depth is known for undistorted images only.",
            "Train without --lens keep, or without --depth.",
        )
    if source in ("maps", "all") and capture.depths:
        for view in capture.views:
            view.depth = capture.depths.get(view.name)
        if metric:
            _compare_scale(capture)
    elif source == "maps":
        raise CaptureError(f"{capture.path}: there are no depth maps.", f"{MAPS} Or take its points.")
    if source in ("points", "all"):
        _add_points(capture, points)
    if source == "maps" and not any(view.depth for view in capture.train):
        raise CaptureError(
            f"{capture.path}: no training view has a depth map.", f"{MAPS} Or take its points."
        )


def _compare_scale(capture: Capture) -> None:
    """Warns where the maps and the points of a capture are not of one scale."""
    views = [view for view in capture.train if view.name in capture.depths]
    chosen = (
        [views[i] for i in np.unique(np.linspace(0, len(views) - 1, COMPARED).astype(int))] if views else []
    )
    ratios = [against_points(view, capture.depths[view.name](), capture.surface_points) for view in chosen]
    known = [ratio for ratio in ratios if np.isfinite(ratio)]
    if known and abs(np.median(known) - 1) > OFF:
        capture.warnings.append(
            f"The depth maps have {np.median(known):.3g} times the distances of the points: correct "
            "depth_unit_scale_factor, or train with --depth-scale align."
        )


def _add_points(capture: Capture, path: Path | None) -> None:
    """Adds the depth of points to that of the views."""
    tracks = {} if path is not None or capture.pose_report else _tracks(capture)
    xyz = thinned(
        capture.surface_points if path is None else load_points(path, double=True).xyz - capture.shift
    )
    for view in capture.views:
        own = _of_view(view, tracks)
        depth = PointDepth(view.camera, xyz) if own is None else PointDepth(view.camera, own, seen=True)
        view.depth = depth if view.depth is None else FirstOf(view.depth, depth)
    if not any(len(_pixels(view)) for view in capture.train):
        raise CaptureError(
            f"{path or capture.path}: no training view sees a point of it.",
            "Give points in the coordinates and units of the poses (--depth-points), or depth maps.",
        )


def _pixels(view: View) -> np.ndarray:
    """Pixels of a view where a point is."""
    depth = view.depth.points if isinstance(view.depth, FirstOf) else view.depth
    return np.flatnonzero(depth()) if depth is not None else np.zeros(0)


def _tracks(capture: Capture) -> dict[str, np.ndarray]:
    """The points that each image of a COLMAP model sees, by its name, and by what `folded` makes of it; none of other
    captures."""
    folder = find_model(capture.path) if capture.format == COLMAP.name else None
    tracks = visible_points(folder) if folder is not None else {}
    tracks = {name: xyz - capture.shift for name, xyz in tracks.items()}
    return {folded(name): visible for name, visible in tracks.items()} | tracks


def _of_view(view: View, tracks: dict[str, np.ndarray]) -> np.ndarray | None:
    """The points of a view, whose image the model names by the end of its path; None: the model does not name it."""
    parts = view.path.parts if view.path is not None else ()
    names = ["/".join(parts[i:]) for i in range(len(parts))]
    names += [folded(name) for name in names]
    return next((tracks[name] for name in names if name in tracks), None)
