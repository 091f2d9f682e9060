"""Random points in the cameras' views; of cut-outs, in the visual hull of their masks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from luxel.render.geometry.camera import Camera, Pixels, Points
from luxel.scenes.captures.initial_points.carving import visible_points
from luxel.scenes.captures.poses.triangulate import PosedImage
from luxel.scenes.geometry import axes_meet

RANDOM_POINTS = 50_000
CARVING_VIEWS = 32
AWAY = 3.0  # times the median distance of the cameras from their middle: what they look at where axes do not meet
SPARE = 1.1  # times the points that are needed are drawn: their share in the hull is an estimate
DEPTHS = 0.4, 1.6  # between which points of cut-outs are drawn, times that distance
MARGIN = (
    0.1  # of the range of depths of the first points that are kept, on both sides: others are drawn in it
)
MIN_KEPT = 100  # with fewer points in the hull, masks and poses do not fit, and all points are used


def scatter(posed: Sequence[PosedImage], count: int = RANDOM_POINTS, seed: int = 0) -> Points:
    """Random points on rays of random pixels, with the pixel's colour, that several cameras see.

    Of cut-outs, points that project outside the object in any view are dropped. Of other captures, depths are uniform
    in inverse depth, around the distance of the point that the cameras look at; where they look at none, around a
    multiple of the distances between them.

    Args:
        posed: cameras and readers.
        count: approximate number of points.
        seed: of the random numbers.
    """
    random = np.random.default_rng(seed)
    poses = np.stack([camera.cam_to_world.numpy().astype(np.float64) for camera, _ in posed])
    distances = _distances(poses)
    chosen = np.unique(np.linspace(0, len(posed) - 1, CARVING_VIEWS).astype(int))
    looked = [(posed[i][0], posed[i][1]()) for i in chosen]
    cutout = all(pixels.alpha is not None for _, pixels in looked)
    most = max(64, (24 if cutout else 3) * count // len(looked))
    rays = [
        _Rays.of(*view, distance, most, random)
        for view, distance in zip(looked, distances[chosen], strict=True)
    ]
    rays = [some for some in rays if len(some.rows)]
    if not rays:
        middle = (poses[:, :3, 3] + distances[:, None] * poses[:, :3, 2]).mean(axis=0, keepdims=True)
        return Points(middle.astype(np.float32), np.full((1, 3), 128, np.uint8))
    # Points that few cameras see are hardly tested by carving; most cameras see most of an object.
    least = (len(looked) + 1) // 2 if cutout else 2
    tried, kept = [], []
    retained, begin, end = 0, 0, min(most, max(64, count // len(looked)))
    while begin < end:  # as many more of each view as the share of those so far that is in the hull requires
        drawn = [some.points(begin, end, cutout, random) for some in rays]
        xyz, rgb = (np.concatenate(parts) for parts in zip(*drawn, strict=True))
        keep = visible_points(xyz, looked, carve=cutout, least=least)
        tried.append((xyz, rgb))
        kept.append((xyz[keep], rgb[keep]))
        retained += int(keep.sum())
        share = retained / (end * len(rays))
        if cutout and not begin and retained >= MIN_KEPT:
            narrow = [some.narrowed(xyz[keep]) for some in rays]
            share *= sum(some.span for some in rays) / sum(some.span for some in narrow)
            rays = narrow
        needed = math.ceil(SPARE * (count - retained) / (share * len(rays))) if share else most
        begin, end = end, min(most, end + max(0, needed))
    points, colours = (
        np.concatenate(parts) for parts in zip(*(kept if retained >= MIN_KEPT else tried), strict=True)
    )
    pick = random.permutation(len(points))[:count]
    return Points(points[pick].astype(np.float32), np.ascontiguousarray(colours[pick]))


@dataclass(frozen=True)
class _Rays:
    """Rays of random pixels of a view that may show the scene.

    Args:
        camera: pinhole.
        rgb: of the image, uint8 [H, W, 3].
        distance: depth around which points are.
        rows, columns: of the pixels, int [R].
        depths: least and greatest of points of cut-outs, times that distance.
    """

    camera: Camera
    rgb: np.ndarray
    distance: float
    rows: np.ndarray
    columns: np.ndarray
    depths: tuple[float, float] = DEPTHS

    @property
    def span(self) -> float:
        """The length of the range of depths, times the distance."""
        return self.depths[1] - self.depths[0]

    def narrowed(self, points: np.ndarray) -> _Rays:
        """With the depths of points in the hull, [P, 3], and a margin."""
        pose = self.camera.world_to_cam.double().numpy()
        depths = (points @ pose[2, :3] + pose[2, 3]) / self.distance
        near, far = float(depths.min()), float(depths.max())
        margin = MARGIN * (far - near)
        return replace(self, depths=(max(DEPTHS[0], near - margin), min(DEPTHS[1], far + margin)))

    @staticmethod
    def of(camera: Camera, pixels: Pixels, distance: float, count: int, random: np.random.Generator) -> _Rays:
        """``count`` rays; none where no pixel shows the scene."""
        allowed = pixels.alpha if pixels.alpha is not None else pixels.weight
        if allowed is None:
            rows, columns = random.integers(0, camera.height, count), random.integers(0, camera.width, count)
        else:
            inside = np.flatnonzero(allowed >= 128)
            some = inside[random.integers(0, len(inside), count)] if len(inside) else inside
            rows, columns = np.divmod(some, camera.width)
        return _Rays(camera, pixels.rgb, distance, rows, columns)

    def points(
        self, begin: int, end: int, cutout: bool, random: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """A random point on each of some rays, float64 [P, 3], and their colours, uint8 [P, 3]."""
        rows, columns = self.rows[begin:end], self.columns[begin:end]
        if cutout:
            depth = self.distance * random.uniform(*self.depths, len(rows))
        else:
            depth = self.distance / random.uniform(0.2, 3.0, len(rows))
        fx, fy, cx, cy = self.camera.intrinsics.double().numpy()
        local = np.stack([(columns + 0.5 - cx) / fx, (rows + 0.5 - cy) / fy, np.ones(len(rows))], -1)
        pose = self.camera.cam_to_world.double().numpy()
        return (local * depth[:, None]) @ pose[:3, :3].T + pose[:3, 3], self.rgb[rows, columns]


def _distances(cam_to_world: np.ndarray) -> np.ndarray:
    """Distance of each camera from the point that all look at, or from what they may look at, [V]."""
    position, centre = cam_to_world[:, :3, 3], axes_meet(cam_to_world)
    if centre is not None:
        return np.maximum(np.linalg.norm(centre - position, axis=1), 1e-6)
    spread = float(np.median(np.linalg.norm(position - position.mean(axis=0), axis=1)))
    return np.full(len(position), max(AWAY * spread, 1e-6))


def within_masks(points: Points, posed: Sequence[PosedImage]) -> Points:
    """Removes points outside the masks of a cut-out; other captures keep all points."""
    chosen = np.unique(np.linspace(0, len(posed) - 1, CARVING_VIEWS).astype(int))
    looked = [(posed[i][0], posed[i][1]()) for i in chosen]
    if not all(pixels.alpha is not None for _, pixels in looked):
        return points
    keep = visible_points(points.xyz.astype(np.float64), looked, carve=True, least=2)
    return Points(points.xyz[keep], points.rgb[keep])
