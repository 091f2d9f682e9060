"""The images of a model adjusted on the path of a turn, see `turn_adjustment`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from luxel.scenes.captures.colmap_process.turn_adjustment import TurnBundle, about_z, adjusted
from luxel.scenes.captures.colmap_process.turn_path import across, fit_path

MIN_GROUP = 4  # images of a camera position
MAX_TURNED, MAX_MOVED = np.radians(4.0), 0.06  # off the path: an image that is left out
LOSS_RATIO, LOSS_MARGIN = 1.5, 0.25  # of the median error, and pixels: more than that, and it is no such path


def adjust_on_path(pycolmap: Any, model: Any, groups: Sequence[Sequence[int]]) -> bool:
    """Adjusts poses, points and the focal length of a model in place, with one angle for each image.

    Args:
        pycolmap: the module.
        model: a pycolmap.Reconstruction after bundle adjustment.
        groups: image ids of each camera position.

    Returns:
        False: it stays as it is, since its images do not follow one, or have several lenses.
    """
    placed = set(model.reg_image_ids())
    sorted_groups = sorted(([key for key in g if key in placed] for g in groups), key=len, reverse=True)
    chosen = [group for group in sorted_groups if len(group) >= MIN_GROUP]
    lenses = {model.images[key].camera_id for group in chosen for key in group}
    if len(lenses) != 1:
        return False
    camera = model.cameras[lenses.pop()]
    base = fit_path(np.stack([_pose(model, key) for key in chosen[0]]))
    if base is None:
        return False
    frame = np.column_stack([across(base.axis), base.axis])
    turns, shifts, angles, numbers, keys = [], [], [], [], []
    for group in chosen:
        made = _position(np.stack([_in_frame(_pose(model, key), frame, base.point) for key in group]))
        if made is None:
            continue
        turn, shift, at, right = made
        turns.append(turn)
        shifts.append(shift)
        angles.extend(at[right])
        numbers.extend([len(turns) - 1] * int(right.sum()))
        keys.extend(np.array(group)[right].tolist())
    if not keys:
        return False
    image, point, at = _observations(model, keys, camera)
    used, rows = np.unique(point, return_inverse=True)
    points = (np.array([model.points3D[int(key)].xyz for key in used]) - base.point) @ frame
    focal = float(camera.mean_focal_length())
    bundle = TurnBundle(
        np.stack(turns),
        np.stack(shifts),
        np.array(angles),
        np.array(numbers),
        focal,
        points,
        image,
        rows,
        focal * at,
    )
    before = _free_error(model, keys, camera)
    made = adjusted(bundle)
    after = float(np.median(np.linalg.norm(made.residuals(), axis=1)))
    if not after <= LOSS_RATIO * before + LOSS_MARGIN:
        return False
    for key, pose in zip(keys, made.poses(), strict=True):
        rotation = pose[:, :3] @ frame.T
        shift = pose[:, 3] - rotation @ base.point
        stored = model.images[key]
        model.frames[stored.frame_id].set_cam_from_world(
            stored.camera_id, pycolmap.Rigid3d(np.column_stack([rotation, shift]))
        )
    for key, xyz in zip(used, made.points @ frame.T + base.point, strict=True):
        model.points3D[int(key)].xyz = xyz
    parameters = np.array(camera.params, np.float64)
    parameters[list(camera.focal_length_idxs())] *= made.focal / focal
    camera.params = parameters
    model.update_point_3d_errors()
    return True


def _pose(model: Any, key: int) -> np.ndarray:
    return np.asarray(model.images[key].cam_from_world().matrix())


def _in_frame(pose: np.ndarray, frame: np.ndarray, origin: np.ndarray) -> np.ndarray:
    """A pose in the frame of axes, columns [3, 3], at an origin."""
    return np.column_stack([pose[:, :3] @ frame, pose[:, :3] @ origin + pose[:, 3]])


def _position(poses: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
    """T of a camera position that turns about z, [3, 3] and [3], the angles [V] and which images follow it [V]."""
    path = fit_path(poses)
    if path is None:
        return None
    turned, moved = path.deviations(poses)
    right = (turned < MAX_TURNED) & (moved < MAX_MOVED)
    if right.sum() < MIN_GROUP:
        return None
    angles = path.angles(poses) * np.sign(path.axis[2])
    total = (poses[right, :, :3] @ np.swapaxes(about_z(angles[right]), 1, 2)).sum(0)
    u, _, vt = np.linalg.svd(total)
    turn = u @ np.diag([1, 1, np.linalg.det(u @ vt)]) @ vt
    return turn, np.median(poses[right, :, 3], axis=0), angles, right


def _observations(model: Any, keys: Sequence[int], camera: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row of the image [M], id of the point [M] and direction x/z, y/z [M, 2] of all observations."""
    image, point, at = [], [], []
    for row, key in enumerate(keys):
        stored = model.images[key]
        index = list(stored.get_observation_point2D_idxs())
        features = [stored.points2D[k] for k in index]
        image.append(np.full(len(index), row))
        point.append(np.array([feature.point3D_id for feature in features], np.int64))
        if features:
            at.append(np.asarray(camera.cam_from_img(np.array([f.xy for f in features]))).reshape(-1, 2))
    return np.concatenate(image), np.concatenate(point), np.concatenate(at)


def _free_error(model: Any, keys: Sequence[int], camera: Any) -> float:
    """Median reprojection error of the images as they are, pixels."""
    image, point, at = _observations(model, keys, camera)
    poses = np.stack([_pose(model, key) for key in keys])[image]
    xyz = np.array([model.points3D[int(key)].xyz for key in point])
    local = np.einsum("mij,mj->mi", poses[:, :, :3], xyz) + poses[:, :, 3]
    return float(
        camera.mean_focal_length() * np.median(np.linalg.norm(local[:, :2] / local[:, 2:] - at, axis=1))
    )
