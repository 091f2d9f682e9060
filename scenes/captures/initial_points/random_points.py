"""Random points in the cameras' views; of cut-outs, in the visual hull of their masks (Laurentini 1994)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from luxel.render.geometry.camera import Camera, Pixels, Points
from luxel.scenes.captures.images.images import for_each
from luxel.scenes.captures.poses.triangulate import PosedImage
from luxel.scenes.geometry import axes_meet

RANDOM_POINTS = 50_000
CARVING_VIEWS = 32
AWAY = 3.0  # times the median distance of the cameras from their middle: what they look at where axes do not meet
CARVED_AT_ONCE = 1 << 15  # points: arrays that stay in the cache of a processor
T = TypeVar("T")


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
    xyz, rgb = [], []
    per_view = max(64, (24 if cutout else 3) * count // len(looked))
    for (camera, pixels), pose, distance in zip(looked, poses[chosen], distances[chosen], strict=True):
        allowed = pixels.alpha if pixels.alpha is not None else pixels.weight
        inside = np.flatnonzero(allowed >= 128) if allowed is not None else None
        if inside is None:
            rows, columns = (
                random.integers(0, camera.height, per_view),
                random.integers(0, camera.width, per_view),
            )
        elif len(inside):
            rows, columns = np.divmod(inside[random.integers(0, len(inside), per_view)], camera.width)
        else:
            continue
        if cutout:
            depth = distance * random.uniform(0.4, 1.6, len(rows))
        else:
            depth = distance / random.uniform(0.2, 3.0, len(rows))
        fx, fy, cx, cy = camera.intrinsics.double().numpy()
        local = np.stack([(columns + 0.5 - cx) / fx, (rows + 0.5 - cy) / fy, np.ones(len(rows))], -1)
        xyz.append((local * depth[:, None]) @ pose[:3, :3].T + pose[:3, 3])
        rgb.append(pixels.rgb[rows, columns])
    if not xyz:
        middle = (poses[:, :3, 3] + distances[:, None] * poses[:, :3, 2]).mean(axis=0, keepdims=True)
        return Points(middle.astype(np.float32), np.full((1, 3), 128, np.uint8))
    points, colours = np.concatenate(xyz), np.concatenate(rgb)
    # Points that few cameras see are hardly tested by carving; most cameras see most of an object.
    keep = visible_points(points, looked, carve=cutout, least=(len(looked) + 1) // 2 if cutout else 2)
    if keep.sum() >= 100:
        points, colours = points[keep], colours[keep]
    pick = random.permutation(len(points))[:count]
    return Points(points[pick].astype(np.float32), np.ascontiguousarray(colours[pick]))


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


def visible_points(
    points: np.ndarray, looked: list[tuple[Camera, Pixels]], *, carve: bool, least: int
) -> np.ndarray:
    """Which points project into at least ``least`` images and, with ``carve``, into the mask of each of these."""
    cameras = [
        (c.width, c.height, c.world_to_cam.double().numpy()[:3], c.intrinsics.double().tolist(), pixels.alpha)
        for c, pixels in _far_apart(looked)
    ]
    retained = np.zeros(len(points), bool)

    def carve_part(part: int) -> None:
        rows = slice(part * CARVED_AT_ONCE, (part + 1) * CARVED_AT_ONCE)
        axes = np.ascontiguousarray(points[rows].T)
        times, inside = np.zeros(axes.shape[1], int), np.ones(axes.shape[1], bool)
        live = np.arange(axes.shape[1])  # those that no mask has carved away yet: most are after a few views
        for width, height, pose, (fx, fy, cx, cy), alpha in cameras:
            x, y, z = axes[:, live]
            # Written out: of so narrow matrices BLAS makes work for all its threads, which takes longer.
            across, down, depth = (r[0] * x + r[1] * y + r[2] * z + r[3] for r in pose)
            near = np.maximum(depth, 1e-9)
            column, row = across / near * fx + cx, down / near * fy + cy
            visible = (depth > 1e-6) & (column >= 0) & (column < width) & (row >= 0) & (row < height)
            times[live] += visible
            if carve and alpha is not None:
                where = np.nonzero(visible)[0]
                outside = alpha[row[where].astype(int), column[where].astype(int)] < 64
                inside[live[where[outside]]] = False
                live = live[inside[live]]
        retained[rows] = inside & (times >= min(least, len(looked)))

    for_each(carve_part, -(-len(points) // CARVED_AT_ONCE))
    return retained


def _far_apart(looked: list[T]) -> list[T]:
    """The same in another order: neighbours, which hide much the same, far from each other."""
    number = len(looked)
    stride = next((n for n in range(round(0.382 * number), number) if math.gcd(n, number) == 1), 1)
    return [looked[i * stride % number] for i in range(number)]
