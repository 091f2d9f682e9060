"""Which points several images show, and which of them lie in the visual hull of their masks (Laurentini 1994).

`luxel.render.fields.capture.silhouettes` asks the same of spheres, and forgives a share of the masks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from luxel.render.geometry.camera import Camera, Pixels
from luxel.scenes.captures.images.images import for_each

AT_ONCE = 1 << 15  # points: arrays that stay in the cache of a processor
WORKERS = 4  # threads at most: more of them wait for each other, as each operation takes microseconds
COVERED = 64  # alpha, of 255, from which a pixel shows the object
NEAREST = np.float32(1e-6)  # depth of a point that is in front of a camera
T = TypeVar("T")


class _Projection(NamedTuple):
    """Homogeneous pixels of points relative to an origin [3, 4], size of the image, and alpha [H * W] or None."""

    rows: list[list[float]]
    width: int
    height: int
    alpha: np.ndarray | None


def visible_points(
    points: np.ndarray, looked: Sequence[tuple[Camera, Pixels]], *, carve: bool, least: int
) -> np.ndarray:
    """Which points project into at least ``least`` images and, with ``carve``, into the mask of each of these.

    Args:
        points: world coordinates, [N, 3].
        looked: pinhole cameras and their images.
        carve: whether points outside of the mask of an image that has one are dropped.
        least: number of images, all of them where there are fewer.

    Returns:
        bool [N].
    """
    origin = np.mean([camera.position.double().numpy() for camera, _ in looked], axis=0)
    projections = [_projection(camera, pixels, origin) for camera, pixels in _far_apart(looked)]
    retained = np.zeros(len(points), bool)

    def look(part: int) -> None:
        rows = slice(part * AT_ONCE, (part + 1) * AT_ONCE)
        retained[rows] = _seen(points[rows] - origin, projections, carve, min(least, len(looked)))

    for_each(look, -(-len(points) // AT_ONCE), workers=WORKERS)
    return retained


def _projection(camera: Camera, pixels: Pixels, origin: np.ndarray) -> _Projection:
    pose, (fx, fy, cx, cy) = camera.world_to_cam.double().numpy(), camera.intrinsics.tolist()
    pose = np.column_stack([pose[:3, :3], pose[:3, :3] @ origin + pose[:3, 3]])
    rows = (np.array([[fx, 0, cx], [0, fy, cy], [0, 0, 1]]) @ pose).tolist()
    alpha = None if pixels.alpha is None else np.ascontiguousarray(pixels.alpha).ravel()
    return _Projection(rows, camera.width, camera.height, alpha)


def _seen(points: np.ndarray, projections: Sequence[_Projection], carve: bool, least: int) -> np.ndarray:
    """`visible_points` of points relative to the origin of the projections, [N, 3], in float32."""
    x, y, z = points.T.astype(np.float32, order="C")
    live, times = np.arange(len(x)), np.zeros(len(x), np.int32)
    for rows, width, height, alpha in projections:
        # Written out: of so narrow matrices BLAS makes work for all its threads, which takes longer.
        column, row, depth = (a * x + b * y + c * z + d for a, b, c, d in rows)
        visible = depth > NEAREST
        np.maximum(depth, NEAREST, out=depth)
        column /= depth
        row /= depth
        for position, size in ((column, width), (row, height)):
            visible &= (position >= 0) & (position < size)
        times += visible
        if not carve or alpha is None:
            continue
        shown = np.flatnonzero(visible)
        pixel = row[shown].astype(np.int64) * width + column[shown].astype(np.int64)
        outside = shown[alpha[pixel] < COVERED]
        if len(outside):  # those left are few after some views
            inside = np.ones(len(x), bool)
            inside[outside] = False
            x, y, z, live, times = (values[inside] for values in (x, y, z, live, times))
    retained = np.zeros(len(points), bool)
    retained[live] = times >= least
    return retained


def _far_apart(looked: Sequence[T]) -> list[T]:
    """The same in another order: neighbours, which hide much the same, far from each other."""
    number = len(looked)
    stride = next((n for n in range(round(0.382 * number), number) if math.gcd(n, number) == 1), 1)
    return [looked[i * stride % number] for i in range(number)]
