"""Models of parts of a capture: their poses and points, and models of given poses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from luxel.scenes.captures.colmap_process import features


def poses_of(model: Any) -> dict[int, np.ndarray]:
    """World to camera by image id, [3, 4] each."""
    return {
        int(key): np.asarray(model.images[key].cam_from_world().matrix()) for key in model.reg_image_ids()
    }


def feature_points(model: Any, key: int) -> np.ndarray:
    """The point of each feature of an image, [K, 3]; NaN: it has none."""
    image = model.images[key]
    out = np.full((image.num_points2D(), 3), np.nan)
    for row in image.get_observation_point2D_idxs():
        out[row] = model.points3D[image.points2D[row].point3D_id].xyz
    return out


def copied_cameras(pycolmap: Any, model: Any) -> dict[int, Any]:
    """Copies of the lenses of a model, which outlive it, by id."""
    return {int(key): pycolmap.Camera(camera.todict()) for key, camera in model.cameras.items()}


def triangulated_parts(
    pycolmap: Any,
    folder: Path,
    database: Path,
    poses: dict[int, np.ndarray],
    cameras: dict[int, Any],
    tolerance: float,
) -> Any:
    """A pycolmap.Reconstruction of points triangulated with fixed poses and known lenses."""
    options = pycolmap.IncrementalPipelineOptions()
    options.random_seed = features.SEED
    options.mapper.filter_max_reproj_error = tolerance
    options.triangulation.create_max_angle_error = 0.5 * tolerance
    options.triangulation.continue_max_angle_error = 0.5 * tolerance
    options.triangulation.complete_max_reproj_error = tolerance
    options.triangulation.merge_max_reproj_error = tolerance
    out = folder / "triangulated"
    out.mkdir(exist_ok=True)
    model = pycolmap.Reconstruction()
    with pycolmap.Database.open(str(database)) as opened:
        for camera in opened.read_all_cameras():
            model.add_camera_with_trivial_rig(cameras.get(camera.camera_id, camera))
        for stored in opened.read_all_images():
            if stored.image_id in poses:
                image = pycolmap.Image(stored.name, np.zeros((0, 2)), stored.camera_id, stored.image_id)
                model.add_image_with_trivial_frame(image, pycolmap.Rigid3d(poses[stored.image_id]))
    paths = str(database), str(folder / "images"), str(out)
    return pycolmap.triangulate_points(model, *paths, options=options)
