"""The cameras of a run as a COLMAP model, for `luxel export --cameras`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from luxel.render.geometry.camera import Camera
from luxel.scenes import ReadOptions
from luxel.scenes.captures.contents import shorten_names
from luxel.scenes.captures.formats.colmap import COLMAP
from luxel.scenes.captures.formats.colmap_writing import names_beside_images, save_colmap
from luxel.scenes.captures.open_capture import read_contents
from luxel.scenes.geometry import nearest_rigid
from luxel.scenes.large_coordinates import shifted_pose
from luxel.viewer.exports.coordinates import Coordinates
from luxel.viewer.progress import opening
from luxel.viewer.scene_loading.capture_options import load_origin
from luxel.viewer.scene_loading.learned_views import refined_views, refines_poses


def write_cameras(
    run: Path, out: Path, coordinates: Coordinates, capture: Path | None = None, *, force: bool = False
) -> str:
    """Writes the cameras and points that a run was trained on; returns what was written, in words.

    The names of the images are relative to their folder images/, beside which programs expect the model. The lenses
    are those of the original images. Poses are those of the training: refined by bundle adjustment with `--poses
    refine`, and of the training views as they were learnt with `--refine-poses`.

    Args:
        run: folder of the run.
        out: folder of the model.
        coordinates: of the model, those of the capture unless they were changed.
        capture: instead of the one that the run names.
        force: replace files of a model there that luxel did not write.

    Raises:
        LuxelError: the capture cannot be opened, or a file cannot be written.
    """
    origin = load_origin(run, capture)
    refined = origin.poses == "refine" or refines_poses(run)
    with opening("opening the capture") as on_progress:
        options = ReadOptions(
            masks=origin.masks,
            on_progress=on_progress,
            frames=origin.frames,
            cut_object=origin.cut_object,
            panorama=origin.panorama,
        )
        contents = read_contents(Path(origin.path), options)
        points, poses = contents.points, {}
        if points is None or refined:
            opened = origin.open(on_progress)
            if points is None:
                points = replace(opened.points, xyz=opened.points.xyz.astype(np.float64) + opened.shift)
            views = [*refined_views(run, opened), *opened.test]
            poses = {view.name: _in_world(view.camera, opened.shift) for view in views}
    if refined:
        names = shorten_names(contents.images)
        for image in contents.images:
            image.world_to_cam = poses.get(names[image.name], image.world_to_cam)
    if coordinates.changed:
        transform = coordinates.from_capture
        for image in contents.images:
            image.world_to_cam = transform.pose(image.world_to_cam)
        points = replace(
            points, xyz=transform.apply(torch.from_numpy(np.asarray(points.xyz, np.float64))).numpy()
        )
    names = names_beside_images(contents.images, relative=contents.format == COLMAP.name)
    for image in contents.images:
        image.name = names[image.name]
    save_colmap(out, contents.images, points, force=force)
    of_these = " with refined poses" if refined else ""
    return f"{len(contents.images)} cameras{of_these} and {len(points.xyz):,} points"


def _in_world(camera: Camera, shift: np.ndarray) -> np.ndarray:
    """The pose of a camera among the coordinates of the capture, float64 [4, 4].

    Its rotation is that of float32 made exact: far from 0 a rotation that is off by 1e-7 would move the camera.
    """
    pose = camera.world_to_cam.double().numpy()
    return shifted_pose(nearest_rigid(pose), -shift) if shift.any() else pose
