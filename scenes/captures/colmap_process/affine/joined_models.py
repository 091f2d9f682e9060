"""Models of parts of a capture, joined by the matches of all pairs of images between them.

Views of two heights may have too few matches for any pair to be verified, though those of all pairs together agree on
one alignment of the models: most pairs have a dozen right ones, and of a match whose features both have a point, the
reprojection is known and not only the epipolar line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from luxel.scenes.captures.colmap_process import features
from luxel.scenes.captures.colmap_process.affine.model_alignment import MatchedPoints, sure_alignment
from luxel.scenes.captures.colmap_process.lens_refinement import adjust
from luxel.scenes.captures.colmap_process.mapping import copy_database, map_incrementally
from luxel.scenes.captures.colmap_process.model_parts import (
    copied_cameras,
    feature_points,
    poses_of,
    triangulated_parts,
)
from luxel.scenes.captures.colmap_process.two_view import that_fit

if TYPE_CHECKING:
    from luxel.scenes.captures.capture_format import Progress

FITTING = "fitting.db"
MIN_PART = 5  # images that a model adds
TOLERANCES = (10.0, 5.0, 4.0)  # of points in the first rounds, pixels
FINAL_ROUNDS, FINAL_TOLERANCE = 2, 4.0  # further ones, and the tolerance in mean reprojection errors
MIN_FITTING, FITTING_SHARE = 8, 0.25  # matches of a pair that fit the poses, where it is used
GROWTHS = 2  # rounds of placing further images and adjusting all
MIN_SUPPORT = 20  # points that an image must see
Matches = dict[tuple[int, int], np.ndarray]  # rows of the features of both images, int [M, 2], by image ids


@dataclass(frozen=True)
class _View:
    """An image of a model.

    Args:
        points: of its features, [K, 3]; NaN: a feature has none.
        at: directions x/z, y/z of the features, [K, 2].
        pose: world to camera, [3, 4].
        focal: mean focal length, pixels.
    """

    points: np.ndarray
    at: np.ndarray
    pose: np.ndarray
    focal: float


def join_models(
    pycolmap: Any, folder: Path, database: Path, base: Any, others: Sequence[Any], on_progress: Progress
) -> Any | None:
    """The model of all images of a model, of those that can be aligned to it, and of those that can be placed then.

    Args:
        pycolmap: the module.
        folder: with the folder ``images``; also for what is made.
        database: with the matches before verification.
        base, others: pycolmap.Reconstructions; they stay as they are.
        on_progress: called with (stage, fraction done in [0, 1]).

    Returns:
        None: no other model can be aligned.
    """
    with pycolmap.Database.open(str(database)) as opened:
        keys, rows = opened.read_all_matches()
        count = opened.num_images()
    pairs = map(pycolmap.pair_id_to_image_pair, keys)
    matches = {tuple(pair): np.asarray(index, np.int64) for pair, index in zip(pairs, rows, strict=True)}
    joined = None
    for other in sorted(others, key=lambda model: -model.num_reg_images()):
        known = base if joined is None else joined
        if len(set(other.reg_image_ids()) - set(known.reg_image_ids())) < MIN_PART:
            continue
        on_progress("joining models", 0.0)
        poses = poses_of(other)
        made = sure_alignment(_matched(known, other, matches), np.stack([*poses.values()]), features.SEED)
        if made is not None:
            placed = {key: made.pose(pose) for key, pose in poses.items()} | poses_of(known)
            cameras = copied_cameras(pycolmap, other) | copied_cameras(pycolmap, known)
            joined = _adjusted(pycolmap, folder, database, placed, cameras, matches)
    if joined is None:
        return None
    paths = folder / FITTING, folder / "images", folder / "grown"
    for _ in range(GROWTHS):
        grown = map_incrementally(pycolmap, *paths, count, on_progress, loose=True, start=joined)
        if grown is None or grown.num_reg_images() <= joined.num_reg_images():
            break
        cameras = copied_cameras(pycolmap, grown)
        joined = _adjusted(pycolmap, folder, database, poses_of(grown), cameras, matches)
    return joined


def _matched(first: Any, second: Any, matches: Matches) -> MatchedPoints:
    """Matches between the images of two models whose features have points, each pair of points once, from any of the
    pairs of images."""
    views = [
        {key: _view(model, key, pose) for key, pose in poses_of(model).items()} for model in (first, second)
    ]
    parts: list[list[np.ndarray]] = [[] for _ in range(5)]
    for pair, index in matches.items():
        for ids, rows in ((pair, index), (pair[::-1], index[:, ::-1])):
            if ids[0] in views[0] and ids[1] in views[1]:
                sides = [views[k][ids[k]] for k in (0, 1)]
                ends = np.stack([side.points[rows[:, k]] for k, side in enumerate(sides)], axis=1)
                known = np.isfinite(ends).all(axis=(1, 2))
                count = int(known.sum())
                parts[0].append(ends[known])
                parts[1].append(np.tile(np.stack([side.pose for side in sides]), (count, 1, 1, 1)))
                parts[2].append(np.stack([side.at[rows[known, k]] for k, side in enumerate(sides)], axis=1))
                parts[3].append(np.tile([side.focal for side in sides], (count, 1)))
                parts[4].append(np.tile(ids, (count, 1)))
    shapes = ((0, 2, 3), (0, 2, 3, 4), (0, 2, 2), (0, 2), (0, 2))
    every = MatchedPoints(*(np.concatenate([np.zeros(s), *p]) for s, p in zip(shapes, parts, strict=True)))
    mixed = every.chosen(np.random.default_rng(features.SEED).permutation(len(every)))
    _, once = np.unique(mixed.points.reshape(-1, 6), axis=0, return_index=True)
    return mixed.chosen(np.sort(once))


def _view(model: Any, key: int, pose: np.ndarray) -> _View:
    image = model.images[key]
    camera = model.cameras[image.camera_id]
    at = np.array([point.xy for point in image.points2D]).reshape(-1, 2)
    rays = np.asarray(camera.cam_from_img(at), np.float64).reshape(-1, 2)
    return _View(feature_points(model, key), rays, pose, float(camera.mean_focal_length()))


def _adjusted(
    pycolmap: Any,
    folder: Path,
    database: Path,
    poses: dict[int, np.ndarray],
    cameras: dict[int, Any],
    matches: Matches,
) -> Any:
    """A model with these poses after rounds of triangulation and bundle adjustment over the matches that fit them."""
    fitting, model = folder / FITTING, None
    for done in range(len(TOLERANCES) + FINAL_ROUNDS):
        tolerance = TOLERANCES[min(done, len(TOLERANCES) - 1)]
        if model is not None and done >= len(TOLERANCES):
            tolerance = min(tolerance, FINAL_TOLERANCE * model.compute_mean_reprojection_error())
        _write_fitting(pycolmap, database, fitting, poses, cameras, matches, tolerance)
        model = triangulated_parts(pycolmap, folder, fitting, poses, cameras, tolerance)
        adjust(pycolmap, model, distortion=False)
        poses, cameras = poses_of(model), copied_cameras(pycolmap, model)
    assert model is not None
    for key in [key for key in poses if model.images[key].num_points3D < MIN_SUPPORT]:
        model.deregister_frame(model.images[key].frame_id)
    return model


def _write_fitting(
    pycolmap: Any,
    database: Path,
    target: Path,
    poses: dict[int, np.ndarray],
    cameras: dict[int, Any],
    matches: Matches,
    tolerance: float,
) -> None:
    """Copies a database; the verified matches of images with poses become those that fit the poses."""
    target.unlink(missing_ok=True)
    copy_database(database, target)
    with pycolmap.Database.open(str(target)) as opened, pycolmap.DatabaseTransaction(opened):
        lens = {
            image.image_id: cameras[image.camera_id]
            for image in opened.read_all_images()
            if image.image_id in poses
        }
        rays = {
            key: np.asarray(lens[key].cam_from_img(np.asarray(opened.read_keypoints(key), np.float64)[:, :2]))
            for key in poses
        }
        for (a, b), rows in matches.items():
            if a not in poses or b not in poses:
                continue
            if opened.exists_two_view_geometry(a, b):
                opened.delete_two_view_geometry(a, b)
            limit = tolerance / lens[a].mean_focal_length()
            fits = that_fit(poses[a], poses[b], rays[a][rows[:, 0]], rays[b][rows[:, 1]], limit)
            if fits.sum() >= max(MIN_FITTING, FITTING_SHARE * len(rows)):
                geometry = pycolmap.TwoViewGeometry()
                geometry.config = pycolmap.TwoViewGeometryConfiguration.CALIBRATED
                geometry.inlier_matches = rows[fits].astype(np.uint32)
                opened.write_two_view_geometry(a, b, geometry)
