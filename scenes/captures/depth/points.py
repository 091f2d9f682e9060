"""Depth of single pixels from points: those of a LiDAR or of structure from motion, where a view sees them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from luxel.render.geometry.camera import Camera

MAX_POINTS = 1_000_000  # of a cloud that are projected
PER_CELL = 4.0  # points on average in a cell of the grid that finds hidden ones
SMALLEST_CELL, LARGEST_CELL = 4, 64  # pixels
BEHIND = 1.05  # times the depth of the nearest point of its cell, beyond which a point is hidden
FAR_BEHIND = 1.25  # times that of the nearest point of the cells around


@dataclass
class PointDepth:
    """Gives the depth of a view at the pixels of points that it sees.

    Args:
        camera: of the view.
        xyz: world coordinates, float [P, 3].
        seen: whether the view is known to see all of them, as those of its own tracks; else hidden ones are left out.
    """

    camera: Camera
    xyz: np.ndarray
    seen: bool = False
    _known: tuple[np.ndarray, np.ndarray] | None = field(default=None, repr=False)

    def __call__(self) -> np.ndarray:
        """Depth along z, float32 [height, width] in capture units, 0 where no point is; of several the nearest."""
        if self._known is None:
            self._known = point_depths(self.camera, self.xyz, self.seen)
        out = np.zeros(self.camera.height * self.camera.width, np.float32)
        out[self._known[0]] = self._known[1]
        return out.reshape(self.camera.height, self.camera.width)


@dataclass(frozen=True)
class FirstOf:
    """Gives the depth of a map, and at pixels where it has none that of points."""

    map: Callable[[], np.ndarray]
    points: Callable[[], np.ndarray]

    def __call__(self) -> np.ndarray:
        """Depth along z, float32 [H, W] in capture units, 0 where neither knows it."""
        depth = self.map()
        return np.where(depth > 0, depth, self.points())


def point_depths(camera: Camera, xyz: np.ndarray, seen: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Pixels that show a point, and its depth.

    Whether a nearer surface hides a point is decided in cells of several pixels, as points leave gaps: hidden is what
    is 5 % farther than the nearest point of its own cell, or 25 % farther than that of the cells around it, beyond the
    slope of the nearest surface.

    Args:
        camera: single, pinhole.
        xyz: world coordinates, [P, 3].
        seen: none is hidden.

    Returns:
        Indices of pixels, row by row, int64 [K], each once; and depths along z, float32 [K].
    """
    world_to_cam = camera.world_to_cam.double().numpy()
    fx, fy, cx, cy = camera.intrinsics.double().tolist()
    with np.errstate(all="ignore"):
        x, y, z = (np.asarray(xyz, np.float64) @ world_to_cam[:3, :3].T + world_to_cam[:3, 3]).T
        column, row = np.floor(fx * x / z + cx), np.floor(fy * y / z + cy)
        inside = (z > max(camera.near, 1e-9)) & (z < min(camera.far, float(np.finfo(np.float32).max)))
        inside &= (column >= 0) & (row >= 0) & (column < camera.width) & (row < camera.height)
    column, row, z = column[inside].astype(np.int64), row[inside].astype(np.int64), z[inside]
    if not seen and len(z):
        retained = ~_hidden(column, row, z, camera.width, camera.height)
        column, row, z = column[retained], row[retained], z[retained]
    order = np.argsort(z, kind="stable")
    pixels, first = np.unique((row * camera.width + column)[order], return_index=True)
    return pixels, z[order][first].astype(np.float32)


def _hidden(column: np.ndarray, row: np.ndarray, z: np.ndarray, width: int, height: int) -> np.ndarray:
    """Which points at pixels are behind others, bool [P]."""
    cell = int(np.clip(np.sqrt(PER_CELL * width * height / len(z)), SMALLEST_CELL, LARGEST_CELL))
    i, j = row // cell, column // cell
    largest = np.zeros(
        (height // cell + 3, width // cell + 3)
    )  # inverse depth, which is linear on planes; with a border
    np.maximum.at(largest, (i + 1, j + 1), 1 / z)
    rows, columns = largest.shape[0] - 2, largest.shape[1] - 2
    around = np.max([largest[a : a + rows, b : b + columns] for a in range(3) for b in range(3)], axis=0)
    slope = _slope(largest[:, 1:-1]) + _slope(largest[1:-1].T).T
    slope, own = slope[i, j], largest[i + 1, j + 1]
    return (1 / z < own / BEHIND - slope) | (1 / z < around[i, j] / FAR_BEHIND - 2 * slope)


def _slope(values: np.ndarray) -> np.ndarray:
    """By how much values change from row to row, [R + 2, C] -> [R, C]: the lesser change of both sides, since an edge
    is on one; 0 at an extremum."""
    change = np.diff(values, axis=0)
    before, after = change[:-1], change[1:]
    return np.where(before * after > 0, np.minimum(np.abs(before), np.abs(after)), 0.0)


def thinned(xyz: np.ndarray) -> np.ndarray:
    """At most `MAX_POINTS` points with finite coordinates, a random part of more."""
    finite = np.asarray(xyz)[np.isfinite(xyz).all(axis=1)]
    if len(finite) <= MAX_POINTS:
        return finite
    return finite[np.sort(np.random.default_rng(0).choice(len(finite), MAX_POINTS, replace=False))]
