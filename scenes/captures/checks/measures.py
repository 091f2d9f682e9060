"""What is measured of the views of a capture, each in a small version, and of points that several of them see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import torch

from luxel.render.geometry.camera import View, poses_of
from luxel.render.geometry.lens import project_points
from luxel.scenes.captures.images.images import for_each, resize

SMALL = 320  # pixels of the longer side of the versions that are measured
THUMBNAIL = (32, 24)
POINTS = 4000  # of the cloud that are looked at
CELLS = 24  # along the longer side of an image: a point is hidden where its cell has much nearer ones
HIDDEN = 0.08  # of the depth by which it lies behind them
EDGE = 2  # pixels at the border of an image in which nothing is looked up
WIDE = 7  # pixels
NEIGHBOURS = 8
TURN = 1.0  # radians that count as much as the typical distance of a camera from the middle
MARGIN = 3  # pixels around a mask: its border is not exact
MASK_THRESHOLD = 128  # of 255 from which on a mask keeps a pixel


@dataclass
class Measures:
    """V views, P points.

    Args:
        names: of the views.
        poses: camera to world, float64 [V, 4, 4].
        sharpness: variance of the Laplacian of the luminance (0 to 255) where it counts, [V].
        luminance: mean luminance where it counts, 0 to 255, [V].
        thumbnails: luminance, float32 [V, 24, 32].
        samples: luminance of each point in each view, float32 [V, P]; NaN where it is not visible.
        details: likewise, the luminance minus its mean in the WIDE pixels around: what light does not change.
        shares: fraction of the pixels that count, [V].
        masks: what the mask or alpha of each view keeps, with MARGIN pixels around it, bool [h, w]; None: it has none.
        neighbours: rows of the nearest views of each view, [V, K].
    """

    names: list[str]
    poses: np.ndarray
    sharpness: np.ndarray
    luminance: np.ndarray
    thumbnails: np.ndarray
    samples: np.ndarray
    details: np.ndarray
    shares: np.ndarray
    masks: list[np.ndarray | None]
    neighbours: np.ndarray


def unmeasured(views: Sequence[View], points: int = 0) -> Measures:
    """Names and poses of views, with nothing measured of their images."""
    count = len(views)
    return Measures(
        [view.name for view in views],
        poses_of(views),
        np.zeros(count),
        np.zeros(count),
        np.zeros((count, THUMBNAIL[1], THUMBNAIL[0]), np.float32),
        np.full((count, points), np.nan, np.float32),
        np.full((count, points), np.nan, np.float32),
        np.ones(count),
        [None] * count,
        np.zeros((count, 0), int),
    )


def measure(
    views: Sequence[View],
    points: np.ndarray,
    on_progress: Callable[[float], None] = lambda _: None,
    workers: int | None = None,
) -> Measures:
    """Measures views.

    Args:
        views: V, in any order.
        points: world coordinates, [P, 3]; of many, some are taken.
        on_progress: called with the fraction done in [0, 1]; an exception of it ends the measuring.
        workers: threads, see `for_each`.
    """
    chosen = np.random.default_rng(0).permutation(len(points))[:POINTS]
    cloud = np.asarray(points, np.float64)[np.sort(chosen)]
    out = unmeasured(views, len(cloud))
    for_each(lambda row: _measure_view(out, row, views[row], cloud), len(views), on_progress, workers)
    out.neighbours = nearest_views(out.poses)
    return out


def _measure_view(out: Measures, row: int, view: View, cloud: np.ndarray) -> None:
    pixels = view.read()
    height, width = pixels.rgb.shape[:2]
    scale = min(1.0, SMALL / max(width, height))
    wide, tall = (max(8, round(side * scale)) for side in (width, height))
    grey = cv2.cvtColor(resize(pixels.rgb, wide, tall), cv2.COLOR_RGB2GRAY)
    cover = pixels.alpha if pixels.alpha is not None else pixels.weight
    retained = np.ones((tall, wide), bool) if cover is None else resize(cover, wide, tall) >= MASK_THRESHOLD
    if cover is not None:
        square = np.ones((2 * MARGIN + 1,) * 2, np.uint8)
        out.shares[row] = retained.mean()
        out.masks[row] = cv2.dilate(retained.astype(np.uint8), square) > 0
        grey = np.where(retained, grey, np.uint8(grey[retained].mean() if retained.any() else 0))
    counted = retained if retained.any() else ~retained
    out.sharpness[row] = cv2.Laplacian(grey, cv2.CV_32F)[counted].var()
    out.luminance[row] = grey[counted].mean()
    out.thumbnails[row] = cv2.resize(grey, THUMBNAIL, interpolation=cv2.INTER_AREA)
    column, line, depth = projected(view, cloud, wide / width, tall / height)
    in_image = visible(column, line, depth, wide, tall)
    x, y = column[in_image].astype(int), line[in_image].astype(int)
    fine = cv2.blur(grey.astype(np.float32), (3, 3))
    out.samples[row, in_image] = fine[y, x]
    out.details[row, in_image] = (fine - cv2.blur(fine, (WIDE, WIDE)))[y, x]


def projected(view: View, cloud: np.ndarray, across: float, down: float) -> tuple[np.ndarray, ...]:
    """Column, row and depth of points [P, 3] in a version of a view's image that is scaled by two factors."""
    world_to_cam = view.camera.world_to_cam.double().cpu().numpy()
    if view.camera.lens is not None:
        pixels, depth, in_image = project_points(view.camera, torch.from_numpy(np.asarray(cloud, np.float64)))
        column, line = pixels.numpy().T
        return column * across, line * down, np.where(in_image, depth, -1.0)
    fx, fy, cx, cy = view.camera.intrinsics.double().tolist()
    x, y, z = (cloud @ world_to_cam[:3, :3].T + world_to_cam[:3, 3]).T
    safe = np.where(z > 0, z, 1.0)
    return (fx * x / safe + cx) * across, (fy * y / safe + cy) * down, z


def visible(column: np.ndarray, line: np.ndarray, depth: np.ndarray, width: int, height: int) -> np.ndarray:
    """Which points are in an image and not behind others of their cell or those around it, bool [P]."""
    inside = (
        (depth > 0) & (column >= EDGE) & (column < width - EDGE) & (line >= EDGE) & (line < height - EDGE)
    )
    side = max(width, height) / CELLS
    cells = np.full((int(height / side) + 3, int(width / side) + 3), np.inf, np.float32)
    a, b = (line[inside] / side).astype(int) + 1, (column[inside] / side).astype(int) + 1
    np.minimum.at(cells, (a, b), depth[inside].astype(np.float32))
    nearest = cv2.erode(np.nan_to_num(cells, posinf=1e30), np.ones((3, 3), np.uint8))
    out = inside.copy()
    out[inside] = depth[inside] <= nearest[a, b] * (1 + HIDDEN)
    return out


def nearest_views(poses: np.ndarray) -> np.ndarray:
    """Rows of the nearest other views by position and direction, [V, K]."""
    position, forward = poses[:, :3, 3], poses[:, :3, 2]
    typical = float(np.median(np.linalg.norm(position - position.mean(0), axis=1))) or 1.0
    count = min(NEIGHBOURS, len(poses) - 1)
    rows = np.zeros((len(poses), count), int)
    for row in range(len(poses)):
        apart = np.linalg.norm(position - position[row], axis=1) / typical
        apart += np.arccos(np.clip(forward @ forward[row], -1, 1)) / TURN
        apart[row] = np.inf
        rows[row] = np.argsort(apart, kind="stable")[:count]
    return rows
