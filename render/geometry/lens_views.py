"""Views of scenes that were trained behind lenses: pinhole cameras by sigma points, and their fields of view."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from luxel.render.geometry.camera import Camera
from luxel.render.geometry.lens import FISHEYE, LIMIT, MODEL, radial_distances, radial_lens

WIDEST = math.radians(120)  # field of view of a frustum that stands for a lens


def without_distortion(camera: Camera) -> Camera:
    """A pinhole camera, or a batch, with a lens that leaves rays straight, so that it is projected to by sigma points.

    Cameras with a lens stay as they are.
    """
    if camera.lens is not None:
        return camera
    lens = radial_lens().to(camera.intrinsics)
    return replace(camera, lens=lens.expand(*camera.intrinsics.shape[:-1], len(lens)).contiguous())


def vertical_field(camera: Camera) -> float:
    """The angle between the rays of the middle of the upper and the lower edge, radians.

    That of a camera with a lens is at most 120 degrees, so that a frustum can be rendered. The principal point counts
    as the middle of the image, and tangential distortion as none.
    """
    half = camera.height / (2 * float(camera.intrinsics[1]))
    if camera.lens is None:
        return 2 * math.atan(half)
    lens = camera.lens.double().cpu().numpy()
    x = np.linspace(0, min(lens[LIMIT], 5 * half + 1), 4096)
    at = float(np.interp(half, radial_distances(lens, x), x))
    return min(WIDEST, 2 * (at if lens[MODEL] == FISHEYE else math.atan(at)))
