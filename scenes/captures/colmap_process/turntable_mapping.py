"""Models of an object on a turntable, whose sides may look alike, from the order of the images.

Neighbours in order show the same side: models are made of them alone, a part for each position of the camera or where
the chain breaks. Each must follow the path of a turn about one axis. Parts are aligned by the angle that most matches
agree with; then the pairs that contradict the aligned poses are left out, all images are placed by their path, and
bundle adjustment over all other pairs decides. Images that too few points support afterwards, or that are off the path,
have no pose.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from luxel.scenes.captures.colmap_process import features
from luxel.scenes.captures.colmap_process.lens_refinement import adjust
from luxel.scenes.captures.colmap_process.mapping import verify, without_pairs
from luxel.scenes.captures.colmap_process.model_parts import (
    copied_cameras,
    feature_points,
    poses_of,
    triangulated_parts,
)
from luxel.scenes.captures.colmap_process.still_features import Turntable, write_moving
from luxel.scenes.captures.colmap_process.turn_bundle import adjust_on_path
from luxel.scenes.captures.colmap_process.turn_path import TurnPath, align, fit_path, unwrapped
from luxel.scenes.captures.colmap_process.two_view import (
    MIN_MATCHES,
    VerifiedPairs,
    read_pairs,
    share_that_fits,
)

if TYPE_CHECKING:
    from luxel.scenes.captures.capture_format import Progress

WINDOW = 1 / 14  # of a turn of even steps: pairs of neighbours within it begin
MIN_WINDOW = 2  # neighbours on each side
MIN_ORDERED = 0.6  # of the neighbours in order that must be verified pairs
MIN_PART = 4  # images of a part
MAX_TURNED, MAX_MOVED = np.radians(8.0), 0.12  # off the path: wrong in a part
WRONG_TURNED, WRONG_MOVED = np.radians(1.5), 0.02  # the same after adjustment
MIN_AGREEING = 24  # matched points of an alignment
CLEAR = 1.2  # ratio of the agreeing matches to those of the best other angle
TOLERANCES = (16.0, 8.0, 4.0, 4.0)  # of points in each round, pixels
FITS = 0.5  # share of a pair's matches that must fit aligned poses
MIN_COSINE = np.cos(np.radians(75))  # of the angle between two views that show the same
MIN_SUPPORT = 20  # points that an image must see
FEW = 8  # the same before the last round
MIN_PLACED = 0.5  # of the images that must have a pose
MAX_GAP = 4  # missing images in a row that the path may place


@dataclass
class Part:
    """A model of images of one camera position.

    Args:
        group: number of the position.
        model: a pycolmap.Reconstruction, in a frame of its own.
        ids: its images that are on the path, in order.
        path: fitted to them.
    """

    group: int
    model: Any
    ids: list[int]
    path: TurnPath
    points: dict[int, np.ndarray] = field(default_factory=dict)  # of each feature, [K, 3]; NaN: none


def in_order(turntable: Turntable, pairs: VerifiedPairs) -> bool:
    """Whether neighbours in order are verified pairs, of most images."""
    known = {(min(a, b), max(a, b)) for a, b in pairs.ids.tolist()}
    steps = [(min(a, b), max(a, b)) for g in turntable.groups for a, b in pairwise(g)]
    return bool(np.mean([step in known for step in steps] or [0.0]) >= MIN_ORDERED)


def window_pairs(groups: Sequence[Sequence[int]]) -> set[tuple[int, int]]:
    """Pairs of image ids near to each other in the order of their group, the lower id first."""
    out = set()
    for group in groups:
        width = max(MIN_WINDOW, round(WINDOW * len(group)))
        for step in range(1, width + 1):
            out |= {(min(a, b), max(a, b)) for a, b in zip(group, group[step:], strict=False)}
    return out


def map_turntable(
    pycolmap: Any,
    folder: Path,
    turntable: Turntable,
    on_progress: Progress,
) -> tuple[Any, VerifiedPairs, int] | None:
    """A model of the turning object, the verified pairs of its features, and the number of pairs left out.

    Args:
        pycolmap: the module.
        folder: with the folder ``images`` and the database; also for what is made.
        turntable: camera positions, and the features that stand still.
        on_progress: called with (stage, fraction done in [0, 1]).

    Returns:
        None: neighbours in order do not show the same side, or there is no model.
    """
    moving = folder / "moving.db"
    on_progress("matching what turns", 0.0)
    write_moving(pycolmap, folder / "database.db", moving, turntable)
    verify(pycolmap, moving)
    pairs = read_pairs(pycolmap, moving, least=1)
    if not in_order(turntable, pairs):
        return None
    parts = _parts(pycolmap, folder, moving, turntable, on_progress)
    if not parts:
        return None
    return _adjusted(pycolmap, folder, moving, turntable, pairs, parts, on_progress)


def _parts(
    pycolmap: Any, folder: Path, moving: Path, turntable: Turntable, on_progress: Progress
) -> list[Part]:
    """Models of neighbours in order that follow a path, largest first."""
    chosen = window_pairs(turntable.groups)
    narrow = folder / "neighbours.db"
    with pycolmap.Database.open(str(moving)) as opened:
        keys, _ = opened.read_two_view_geometries()
    others = [pair for pair in map(pycolmap.pair_id_to_image_pair, keys) if tuple(pair) not in chosen]
    without_pairs(pycolmap, moving, narrow, others)
    models = placed_by(pycolmap, narrow, folder / "images", folder / "neighbours", on_progress)
    parts = []
    for model in models.values():
        for number, group in enumerate(turntable.groups):
            part = _part(model, number, group)
            if part is not None:
                parts.append(part)
    return sorted(parts, key=lambda part: -len(part.ids))


def placed_by(
    pycolmap: Any, database: Path, images: Path, out: Path, on_progress: Progress
) -> dict[int, Any]:
    """Models of incremental mapping with thresholds for few features."""
    options = pycolmap.IncrementalPipelineOptions()
    options.random_seed = options.mapper.random_seed = options.triangulation.random_seed = features.SEED
    options.min_model_size = MIN_PART
    options.num_threads = os.cpu_count() or 1
    options.ba_refine_extra_params = False  # neighbours alone do not determine it
    options.mapper.abs_pose_refine_extra_params = False
    options.mapper.init_min_tri_angle = 6.0
    options.mapper.init_min_num_inliers = 30
    options.mapper.abs_pose_min_num_inliers = 15
    with pycolmap.Database.open(str(database)) as opened:
        count, placed = opened.num_images(), [0]

    def advance() -> None:
        placed[0] += 1
        on_progress("placing images", min(1.0, placed[0] / count))

    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    paths = str(database), str(images), str(out)
    return pycolmap.incremental_mapping(*paths, options, next_image_callback=advance)


def _part(model: Any, number: int, group: Sequence[int]) -> Part | None:
    """The images of a group in a model that follow a path; None: too few."""
    placed = set(model.reg_image_ids())
    ids = [key for key in group if key in placed]
    if len(ids) < MIN_PART:
        return None
    poses = np.stack([np.asarray(model.images[key].cam_from_world().matrix()) for key in ids])
    path = fit_path(poses)
    if path is None:
        return None
    turned, moved = path.deviations(poses)
    ids = [key for key, a, b in zip(ids, turned, moved, strict=True) if a < MAX_TURNED and b < MAX_MOVED]
    if len(ids) < MIN_PART:
        return None
    return Part(number, model, ids, path, {key: feature_points(model, key) for key in ids})


def _aligned(parts: list[Part], pairs: VerifiedPairs) -> dict[int, np.ndarray]:
    """Poses of the images of the largest part and of those that can be aligned to it, by image id, [3, 4] each."""
    base = parts[0]
    poses = {key: _pose(base, key) for key in base.ids}
    points = dict(base.points)
    left = parts[1:]
    while left:
        best = None
        for part in left:
            a, b = _common(points, part.points, pairs)
            made = align(base.path, part.path, a, b)
            clear = made and made.agreeing >= MIN_AGREEING and made.agreeing > CLEAR * made.second
            if made and clear and (best is None or made.agreeing > best[1].agreeing):
                best = part, made
        if best is None:
            break
        part, made = best
        left.remove(part)
        for key in part.ids:
            if key not in poses:
                poses[key] = made.pose(_pose(part, key))
                points[key] = made.scale * part.points[key] @ made.turn.T + made.shift
    return poses


def _pose(part: Part, key: int) -> np.ndarray:
    return np.asarray(part.model.images[key].cam_from_world().matrix())


def _common(
    points: dict[int, np.ndarray], others: dict[int, np.ndarray], pairs: VerifiedPairs
) -> tuple[np.ndarray, np.ndarray]:
    """Points of both models whose features are matched, each pair of points once, [P, 3] each."""
    rows = []
    for (a, b), index in zip(pairs.ids.tolist(), pairs.matches, strict=True):
        for first, second, order in ((a, b, index), (b, a, index[:, ::-1])):
            if first in points and second in others:
                rows.append(np.concatenate([points[first][order[:, 0]], others[second][order[:, 1]]], axis=1))
    every = np.concatenate(rows) if rows else np.zeros((0, 6))
    every = np.unique(every[np.isfinite(every).all(axis=1)], axis=0)
    return every[:, :3], every[:, 3:]


def _adjusted(
    pycolmap: Any,
    folder: Path,
    moving: Path,
    turntable: Turntable,
    pairs: VerifiedPairs,
    parts: list[Part],
    on_progress: Progress,
) -> tuple[Any, VerifiedPairs, int] | None:
    """The model of all pairs that fit the aligned parts, after rounds of triangulation and bundle adjustment."""
    poses, cameras = _aligned(parts, pairs), copied_cameras(pycolmap, parts[0].model)
    camera_of, fitting = _camera_of(pycolmap, moving), folder / "turntable.db"
    model, contradicting = parts[0].model, np.zeros(len(pairs.ids), bool)
    for done, tolerance in enumerate(TOLERANCES):
        on_progress("placing images on the path", done / len(TOLERANCES))
        poses = {**_predicted(turntable, poses), **poses}
        contradicting = _contradicting(pairs, poses, cameras, camera_of, 2 * tolerance)
        without_pairs(pycolmap, moving, fitting, [tuple(ids) for ids in pairs.ids[contradicting].tolist()])
        model = triangulated_parts(pycolmap, folder, fitting, poses, cameras, tolerance)
        if model.num_points3D() < MIN_SUPPORT:
            return None
        adjust(pycolmap, model, distortion=False)
        adjust_on_path(pycolmap, model, turntable.groups)
        poses = {key: pose for key, pose in poses_of(model).items() if model.images[key].num_points3D >= FEW}
        cameras = copied_cameras(pycolmap, model)
    _prune(model, turntable)
    if model.num_reg_images() < MIN_PLACED * sum(map(len, turntable.groups)):
        return None
    near = window_pairs(turntable.groups)
    used = ~contradicting | np.array([(min(a, b), max(a, b)) in near for a, b in pairs.ids.tolist()], bool)
    used &= pairs.counts >= MIN_MATCHES
    return model, pairs.chosen(used), int((contradicting & (pairs.counts >= MIN_MATCHES)).sum())


def _prune(model: Any, turntable: Turntable) -> None:
    """Takes away the poses of images that too few points support, or that are off the path of their group."""
    wrong = {key for key in poses_of(model) if model.images[key].num_points3D < MIN_SUPPORT}
    for group in turntable.groups:
        poses = poses_of(model)
        ids = [key for key in group if key in poses and key not in wrong]
        path = fit_path(np.stack([poses[key] for key in ids])) if len(ids) >= MIN_PART else None
        if path is not None:
            turned, moved = path.deviations(np.stack([poses[key] for key in ids]))
            off = (turned > WRONG_TURNED) | (moved > WRONG_MOVED)
            wrong |= {key for key, is_off in zip(ids, off, strict=True) if is_off}
    for key in wrong:
        model.deregister_frame(model.images[key].frame_id)


def _predicted(turntable: Turntable, poses: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
    """Poses of missing images between images of their group, by even steps on the path."""
    out = {}
    for group in turntable.groups:
        at = [row for row, key in enumerate(group) if key in poses]
        path = fit_path(np.stack([poses[group[row]] for row in at])) if len(at) >= MIN_PART else None
        if path is None:
            continue
        angles = unwrapped(path.angles(np.stack([poses[group[row]] for row in at])))
        for before, after, first, last in zip(at, at[1:], angles, angles[1:], strict=False):
            for row in range(before + 1, after):
                if after - before - 1 <= MAX_GAP:
                    share = (row - before) / (after - before)
                    out[group[row]] = path.pose(first + share * (last - first))
    return out


def _camera_of(pycolmap: Any, database: Path) -> dict[int, int]:
    """The lens of each image, by their ids in a database."""
    with pycolmap.Database.open(str(database)) as opened:
        return {image.image_id: image.camera_id for image in opened.read_all_images()}


def _contradicting(
    pairs: VerifiedPairs,
    poses: dict[int, np.ndarray],
    cameras: dict[int, Any],
    camera_of: dict[int, int],
    limit: float,
) -> np.ndarray:
    """Whether too few matches of a pair fit the poses, or an image has none, bool [P].

    Args:
        pairs: all of them.
        poses: by image id.
        cameras: lenses by id. camera_of: the lens of each image.
        limit: of the distance between a match and its epipolar line, pixels.
    """
    rays = {
        key: np.asarray(cameras[camera_of[key]].cam_from_img(pairs.keypoints[key]), np.float64).reshape(-1, 2)
        for key in poses
    }
    out = np.ones(len(pairs.ids), bool)
    for row, ((a, b), index) in enumerate(zip(pairs.ids.tolist(), pairs.matches, strict=True)):
        if a in poses and b in poses and poses[a][2, :3] @ poses[b][2, :3] > MIN_COSINE:
            unit = cameras[camera_of[a]].mean_focal_length()
            fit = share_that_fits(
                poses[a], poses[b], rays[a][index[:, 0]], rays[b][index[:, 1]], limit / unit
            )
            out[row] = fit < FITS
    return out
