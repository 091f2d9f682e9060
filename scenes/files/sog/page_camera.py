"""Where the camera of an exported page starts, and the rotation that brings its scene upright."""

from __future__ import annotations

from math import degrees, radians, sin
from typing import NamedTuple

import numpy as np
import torch

from luxel.render.geometry.camera import Camera
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.primitives.similarity import Similarity

UP = (0.0, -1.0, 0.0)  # in luxel's axes, of scenes of which nothing else is known
FOV = 60.0  # degrees, along the longer side of the window, where there is no view
SHORTER_FOV = 36.0  # the same along the shorter side, at 16:9
FROM = (0.0, -0.35, -1.0)  # direction from the scene to the camera, where there is no view
SHARE = 0.9  # of the Gaussians that are in the image, where there is no view
SAMPLE = 200_000  # Gaussians by which a scene is framed


class Pose(NamedTuple):
    """A camera without roll.

    Args:
        position, target: world coordinates; the distance of the target is that of the scene.
        fov: field of view along the longer side of the image, degrees.
    """

    position: tuple[float, float, float]
    target: tuple[float, float, float]
    fov: float

    def turned(self, turn: Similarity) -> Pose:
        """The pose in a scene that has been turned."""
        points = turn.apply(torch.tensor([self.position, self.target], dtype=torch.float64)).numpy()
        return Pose(_triple(points[0]), _triple(points[1]), self.fov)


def upright(up: tuple[float, float, float] | None) -> Similarity:
    """The rotation that turns ``up`` into `UP`, by the shortest way; none where it is not known."""
    if up is None or not 0 < float(np.linalg.norm(up)) < np.inf:
        return Similarity()
    return Similarity.between(up, UP)


def pose_of_view(camera: Camera, gaussians: Gaussians) -> Pose:
    """The pose of a view; the target is as far in front of it as the middle of the scene, at least."""
    to_world = camera.cam_to_world.detach().double().cpu().numpy()
    position, forward = to_world[:3, 3], to_world[:3, 2]
    middle, radius = extent(gaussians)
    distance = max(float((middle - position) @ forward), 0.25 * radius, 1e-3)
    fx, fy = camera.intrinsics[:2].tolist()
    fov = 2 * degrees(np.arctan(max(camera.width / fx, camera.height / fy) / 2))
    return Pose(_triple(position), _triple(position + distance * forward), fov)


def pose_around(gaussians: Gaussians) -> Pose:
    """A pose from which most of the scene is in the image."""
    middle, radius = extent(gaussians)
    direction = np.array(FROM) / np.linalg.norm(FROM)
    position = middle + direction * radius / sin(radians(SHORTER_FOV / 2))
    return Pose(_triple(position), _triple(middle), FOV)


def extent(gaussians: Gaussians) -> tuple[np.ndarray, float]:
    """The median of the centres of visible Gaussians, [3], and the radius around it that holds `SHARE` of them."""
    step = max(1, gaussians.count // SAMPLE)
    means, logits = gaussians.means[::step].detach().cpu(), gaussians.opacity_logits[::step].detach().cpu()
    finite = means.isfinite().all(1)
    visible = finite & (logits > -2)
    points = means[visible if bool(visible.any()) else finite].double().numpy()
    if not len(points):
        return np.zeros(3), 1.0
    middle = np.median(points, axis=0)
    radius = float(np.quantile(np.linalg.norm(points - middle, axis=1), SHARE))
    return middle, max(radius, 1e-3)


def _triple(point: np.ndarray) -> tuple[float, float, float]:
    x, y, z = point.tolist()
    return x, y, z
