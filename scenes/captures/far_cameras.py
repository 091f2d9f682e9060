"""Cameras that lie far from all others, as structure from motion places some images: they do not set the size of a
scene, and where the scene is too small to be visible from them they are left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from luxel.scenes.captures.contents import CaptureContents, SourceImage
from luxel.scenes.geometry import axes_meet, invert_rigid
from luxel.scenes.unused import LOST, Unused

FAR = 30.0  # times the size of the scene, with no camera in between
FAR_WITHOUT_SIZE = 1e5  # times the spread of the cameras, where they do not show how far the scene is
NEAR_SHARE = 0.75  # of the cameras, at least, are not far
MAX_POINTS = 100_000  # of which the size is taken
MIN_PIXELS = 8.0  # across the scene in an image: with fewer it shows nothing of it


class FarCameras(NamedTuple):
    """Which cameras lie far from the others.

    Args:
        far: bool [V].
        middle: of the cameras, world coordinates, [3].
        size: of the scene: the radius that most cameras and points lie within, capture units.
    """

    far: np.ndarray
    middle: np.ndarray
    size: float


def find_far(cam_to_world: np.ndarray, points: np.ndarray) -> FarCameras:
    """The cameras that a gap of `FAR` times the size of the scene separates from at least `NEAR_SHARE` of all.

    The size is the distance of these from their middle, or that of half of the points, or of the point that the cameras
    look at, if it is larger: cameras on one tripod are near each other, and far from nothing.

    Args:
        cam_to_world: OpenCV poses, float64 [V, 4, 4].
        points: point cloud, [P, 3]; may be empty.
    """
    middle = np.median(cam_to_world[:, :3, 3], axis=0)
    local = cam_to_world.copy()
    local[:, :3, 3] -= middle
    away = np.linalg.norm(local[:, :3, 3], axis=1)
    order = np.argsort(away, kind="stable")
    near = int(np.ceil(NEAR_SHARE * len(away)))
    size, factor = float(away[order[near - 1]]), FAR
    points = points[:: 1 + len(points) // MAX_POINTS]
    if len(points):
        size = max(size, float(np.median(np.linalg.norm(np.asarray(points, np.float64) - middle, axis=1))))
    elif (centre := axes_meet(local[order[:near]])) is not None:
        size = max(size, float(np.linalg.norm(centre)))
    else:
        factor = FAR_WITHOUT_SIZE
    reach, far = size, np.zeros(len(away), bool)
    for rank in range(near, len(away)):
        if size > 0 and away[order[rank]] > factor * reach:
            far[order[rank:]] = True
            break
        reach = max(reach, float(away[order[rank]]))
    return FarCameras(far, middle, size)


def leave_out_far(contents: CaptureContents) -> None:
    """Moves the images of far cameras that show nothing of the scene to ``contents.left_out``, and names them in
    ``contents.unused``."""
    poses = np.stack([invert_rigid(image.world_to_cam) for image in contents.images])
    cameras = find_far(poses, _xyz(contents))
    if not cameras.far.any():
        return
    away = np.linalg.norm(poses[:, :3, 3] - cameras.middle, axis=1)
    blind = [
        cameras.far[row] and _pixels(image, away[row], cameras.size) < MIN_PIXELS
        for row, image in enumerate(contents.images)
    ]
    left_out = [image for image, is_blind in zip(contents.images, blind, strict=True) if is_blind]
    if not left_out:
        return
    farthest = int(np.argmax(np.where(blind, away, 0)))
    contents.unused.append(_entry(left_out, len(contents.images), away[farthest], cameras.size))
    contents.used_files.update(image.path for image in left_out)
    contents.left_out = left_out
    contents.images = [image for image, is_blind in zip(contents.images, blind, strict=True) if not is_blind]


def _xyz(contents: CaptureContents) -> np.ndarray:
    return np.zeros((0, 3)) if contents.points is None else contents.points.xyz


def _pixels(image: SourceImage, away: float, size: float) -> float:
    """How many pixels a scene of a radius covers across, from a distance."""
    return 2 * size / away * max(image.lens.fx, image.lens.fy)


def _entry(left_out: Sequence[SourceImage], total: int, away: float, size: float) -> Unused:
    count, name = len(left_out), left_out[0].name
    one = count == 1
    return Unused(
        "far cameras",
        count,
        name,
        f"{count} of {total} cameras {'lies' if one else 'lie'} so far from the others that the scene covers less than "
        f"{MIN_PIXELS:.0f} pixels from there ({name}; {'' if one else 'up to '}{away:.3g} units away, the radius of "
        f"the scene is {size:.3g}). {'Its image is' if one else 'Their images are'} left out.",
        f"Correct {'its pose, or remove the image' if one else 'their poses, or remove the images'}.",
        LOST,
    )
