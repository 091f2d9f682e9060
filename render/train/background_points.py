"""Points behind the scene, for what the images show where no point of the capture is."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera, Points, View, near_views
from luxel.render.geometry.lens import project_points

SAMPLED_VIEWS = 64
SAMPLED_POINTS = 200_000
CELLS = 24  # along the longer side of an image
INSIDE = 0.99  # share of the points that the ball around the scene holds; the others may be wrong
LITTLE = 0.02  # share of all cells of the images up to which empty ones are left as they are
BEYOND = 5.0  # the farthest points, times the distance at which their ray leaves that ball
ALIKE = 4  # of 255: a colour that differs by no more from that behind the scene needs no points
READERS = 8  # at most; each holds an image


def background_points(
    points: Points, views: Sequence[View], count: int, seed: int, behind: int | None = None
) -> Points:
    """Points where rays of pixels without a point of the capture nearby have left the scene.

    Structure from motion finds no points in dark, blurred or plain backgrounds. Primitives that start on an object
    would have to explain such a background too, and settle between the cameras and the object, where other cameras
    look through them. The scene ends at the ball that holds cameras and points; along a ray, inverse distances are
    uniform between the distance at which it leaves the ball and five times that.

    Args:
        points: of the capture, with finite coordinates.
        views: for training, of which at most 64 are used, evenly spread; those with a lens, and those far from all
            others, are not.
        count: most points.
        seed: of the random numbers.
        behind: grey value, of 255, that is drawn behind the scene, so that pixels of it need nothing; None: it varies.

    Returns:
        At most ``count`` points with the colours of the pixels; none where all but a fiftieth of the cells show points.
    """
    random = np.random.default_rng([seed, 2])
    near = [view for view in near_views(views) if view.camera.lens is None]
    sampled = np.unique(np.linspace(0, max(0, len(near) - 1), SAMPLED_VIEWS).round().astype(int))
    chosen = [near[i] for i in sampled] if near else []
    step = max(1, -(-len(points.xyz) // SAMPLED_POINTS))
    xyz = torch.from_numpy(np.ascontiguousarray(points.xyz[::step], np.float64))
    cells = [empty_cells(view.camera, xyz) for view in chosen]
    view_of = np.repeat(np.arange(len(chosen)), [len(each) for each in cells])
    if len(view_of) <= LITTLE * sum(math.prod(grid(view.camera)) for view in chosen):
        view_of = view_of[:0]
    picked = np.sort(random.permutation(len(view_of))[: max(0, count)])
    ball = _ball(xyz.numpy(), near)

    def of_view(number: int) -> tuple[np.ndarray, np.ndarray]:
        view, rows = chosen[number], picked[view_of[picked] == number] - int(np.searchsorted(view_of, number))
        numbers = np.random.default_rng([seed, 2, number]).random((3, len(rows)))
        return _on_rays(view, cells[number][rows], numbers, behind, *ball)

    parts = [(np.zeros((0, 3)), np.zeros((0, 3), np.uint8))]
    with ThreadPoolExecutor(min(READERS, os.cpu_count() or 1)) as pool:
        parts += pool.map(of_view, np.unique(view_of[picked]).tolist())
    positions, colours = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Points(positions.astype(np.float32), colours)


def empty_cells(camera: Camera, xyz: Tensor) -> np.ndarray:
    """Cells of an image that show no point, nor do the eight around them: columns and rows, int64 [M, 2].

    Args:
        camera: of the image, which is divided into square cells, 24 along its longer side.
        xyz: points, [P, 3].
    """
    side = cell_side(camera)
    pixels, _, visible = project_points(camera, xyz)
    size = xyz.new_tensor([camera.width, camera.height])
    visible &= ((pixels >= 0) & (pixels < size)).all(-1)
    columns, rows = grid(camera)
    shown = np.zeros((rows + 2, columns + 2), bool)
    column, row = (pixels[visible] / side).long().numpy().T + 1
    shown[row, column] = True
    around = shown[:, :-2] | shown[:, 1:-1] | shown[:, 2:]
    return np.argwhere(~(around[:-2] | around[1:-1] | around[2:]))[:, ::-1]


def grid(camera: Camera) -> tuple[int, int]:
    """Numbers of columns and rows of cells."""
    side = cell_side(camera)
    return math.ceil(camera.width / side), math.ceil(camera.height / side)


def cell_side(camera: Camera) -> float:
    """Side of a cell, pixels."""
    return max(camera.width, camera.height) / CELLS


def _ball(xyz: np.ndarray, views: Sequence[View]) -> tuple[np.ndarray, float]:
    """Centre [3] and radius of the ball around the cameras and nearly all points."""
    if not views or not len(xyz):
        return np.zeros(3), 0.0
    cameras = torch.stack([view.camera.position.double() for view in views]).numpy()
    centre = cameras.mean(0)
    distances = (np.linalg.norm(at - centre, axis=1) for at in (cameras, xyz))
    return centre, max(float(next(distances).max()), float(np.quantile(next(distances), INSIDE)))


def _on_rays(
    view: View, cells: np.ndarray, random: np.ndarray, behind: int | None, centre: np.ndarray, radius: float
) -> tuple[np.ndarray, np.ndarray]:
    """Points behind a ball on rays of a pixel in each cell, [M, 3], and the colours of the pixels, uint8 [M, 3].

    Args:
        view: whose pixels that do not count are left out; with alpha it has no background.
        cells: columns and rows, [M, 2].
        random: numbers in [0, 1): places in the cells, and inverse distances, [3, M].
        behind: see `background_points`.
        centre, radius: of the ball, which holds the camera.
    """
    camera, pixels = view.camera, view.read()
    place = np.minimum(
        (cells + random[:2].T) * cell_side(camera), [camera.width - 1e-6, camera.height - 1e-6]
    )
    column, row = place.astype(int).T
    if pixels.rgb.shape[:2] != (
        camera.height,
        camera.width,
    ):  # which the data set names when it reads the image
        return np.zeros((0, 3)), np.zeros((0, 3), np.uint8)
    rgb = pixels.rgb[row, column]
    counts = np.full(len(cells), pixels.alpha is None)
    if behind is not None:
        counts &= (np.abs(rgb.astype(int) - behind) > ALIKE).any(1)
    if pixels.weight is not None:
        counts &= pixels.weight[row, column] > 0
    pose = camera.cam_to_world.double().numpy()
    fx, fy, cx, cy = camera.intrinsics.double().numpy()
    local = np.stack([(place[:, 0] - cx) / fx, (place[:, 1] - cy) / fy, np.ones(len(cells))], 1)
    ahead = local / np.linalg.norm(local, axis=1, keepdims=True) @ pose[:3, :3].T
    start = pose[:3, 3] - centre
    along = ahead @ start
    leaves = np.sqrt(np.maximum(along**2 - start @ start + radius**2, 0)) - along
    distance = leaves / (1 - random[2] * (1 - 1 / BEYOND))
    points = pose[:3, 3] + distance[:, None] * ahead
    return points[counts], rgb[counts]
