"""Points by a plane sweep (Collins 1996, "A Space-Sweep Approach to True Multi-Image Matching") over small images.

Each of some views is compared with its neighbours at planes of equal steps in inverse depth, by the normalised cross
correlation of small windows, which does not depend on the exposure. Where two views find the same depth there is a
point. All is torch on one device: no features, no matching.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from luxel.render.geometry.camera import Camera, Pixels, Points
from luxel.scenes.captures.images.images import for_each, resize


@dataclass(frozen=True)
class SweepOptions:
    """Options of `sweep`.

    Args:
        views: that are compared at most, spread evenly over all.
        side: pixels of the longer side of the small images.
        planes: number of depths that are compared.
        neighbours: of each view.
        reach: disparity of the nearest plane between a view and its middle neighbour, as a share of ``side``.
        window: pixels along a side of the windows that are compared.
        correlation: least correlation of a match.
        margin: by which a match is better than those at all but the adjacent planes.
        agreement: largest difference of the depths of a point in two views, in planes.
        agreeing: views that must agree with a view.
        spacing: side of the cells that have one point each, pixels at the depth of the point, rounded up to a power
            of two in units of the capture: parts that many views show do not have more points. 0: all.
        count: points at most.
    """

    views: int = 64
    side: int = 192
    planes: int = 96
    neighbours: int = 4
    reach: float = 0.6
    window: int = 5
    correlation: float = 0.6
    margin: float = 0.05
    agreement: float = 1.0
    agreeing: int = 2
    spacing: float = 1.0
    count: int = 50_000


Posed = tuple[Camera, Callable[[], Pixels]]  # a pinhole camera, and what reads its image
ON_GPU = SweepOptions()
ON_CPU = SweepOptions(views=32, side=128, planes=64, neighbours=3, agreeing=1)
FLAT = (2 / 255) ** 2  # variance of the noise of an image, which matches with nothing
ANGLE = 0.9  # radians between the viewing directions of neighbours at most
MIN_BASELINE = 0.02  # between neighbours, of the typical distance of the cameras from their middle


@dataclass
class _View:
    """A small image on the device.

    Args:
        grey: [h, w] in [0, 1].
        rgb: uint8 [h, w, 3], on the CPU.
        covered: whether a pixel counts, [h, w]; None: all do.
        world_to_cam: [4, 4].
        intrinsics: [3, 3], of the small image.
        step: inverse depth of the plane next to that at infinity.
        plane: of each pixel, fractional [h, w]; negative: unknown.
    """

    grey: Tensor
    rgb: np.ndarray
    covered: Tensor | None
    world_to_cam: Tensor
    intrinsics: Tensor
    step: float = 0.0
    plane: Tensor | None = None


def sweep(
    posed: Sequence[Posed], device: torch.device, options: SweepOptions | None = None, seed: int = 0
) -> Points:
    """Points where neighbouring views agree on the depth: fewer where there is little texture, none without parallax.

    Args:
        posed: pinhole cameras and readers of the images.
        device: where to compute.
        options: None: `ON_GPU` or `ON_CPU`, by the device.
        seed: of the choice among all points.
    """
    chosen = options or (ON_GPU if device.type == "cuda" else ON_CPU)
    rows = np.unique(np.linspace(0, len(posed) - 1, chosen.views).astype(int))
    views = _small([posed[row] for row in rows], chosen.side, device)
    poses = np.stack([posed[row][0].cam_to_world.double().numpy() for row in rows])
    around = neighbours_by_parallax(poses, chosen.neighbours)
    with torch.no_grad():
        for view, others in zip(views, around, strict=True):
            if len(others):
                _match(view, [views[other] for other in others], chosen)
        agreeing = [torch.zeros(0, dtype=torch.bool, device=device)]
        clouds = [torch.zeros(0, 4, device=device)]
        rgb = [np.zeros((0, 3), np.uint8)]
        for view, others in zip(views, around, strict=True):
            known = [views[other] for other in others if views[other].plane is not None]
            if view.plane is not None and len(known) >= chosen.agreeing:
                agree, points = _agreement(view, known, chosen)
                agreeing.append(agree.flatten())
                clouds.append(points.reshape(-1, 4))
                rgb.append(view.rgb.reshape(-1, 3))
        agree = torch.cat(agreeing)  # once for all views: each transfer waits for the device
        cloud = torch.cat(clouds)[agree].cpu().numpy()
    everything, size = cloud[:, :3], chosen.spacing * cloud[:, 3]
    colours = np.concatenate(rgb)[agree.cpu().numpy()]
    order = np.random.default_rng(seed).permutation(len(everything))
    if chosen.spacing > 0:
        order = order[one_per_cell(everything[order], size[order])]
    pick = np.sort(order[: chosen.count])
    return Points(everything[pick].astype(np.float32), np.ascontiguousarray(colours[pick]))


def one_per_cell(xyz: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Rows of points that are the first of their cell of a grid, in order.

    Args:
        xyz: [P, 3].
        size: of the cell of each point, rounded up to a power of two, [P].
    """
    level = np.ceil(np.log2(np.maximum(size, 1e-30))).astype(np.int64)
    cell = np.floor(xyz / np.exp2(level)[:, None]).astype(np.int64)
    hashed = level * 73_856_093 ^ cell[:, 0] * 19_349_663 ^ cell[:, 1] * 83_492_791 ^ cell[:, 2] * 50_331_653
    return np.sort(np.unique(hashed, return_index=True)[1])


def neighbours_by_parallax(cam_to_world: np.ndarray, count: int) -> list[list[int]]:
    """For each view the nearest that look in a similar direction from elsewhere.

    Args:
        cam_to_world: OpenCV poses, [V, 4, 4].
        count: of neighbours at most.
    """
    position, direction = cam_to_world[:, :3, 3], cam_to_world[:, :3, 2]
    distance = np.linalg.norm(position[:, None] - position[None], axis=-1)
    typical = float(np.median(np.linalg.norm(position - position.mean(axis=0), axis=1))) or 1.0
    angle = np.arccos(np.clip(direction @ direction.T, -1, 1))
    cost = np.where((angle < ANGLE) & (distance > MIN_BASELINE * typical), distance / typical + angle, np.inf)
    order = np.argsort(cost, axis=1, kind="stable")[:, :count]
    return [[int(j) for j in row if np.isfinite(cost[i, j])] for i, row in enumerate(order)]


def _small(posed: Sequence[Posed], side: int, device: torch.device) -> list[_View]:
    """Small versions of the images, on the device."""
    out: list[_View | None] = [None] * len(posed)

    def load(index: int) -> None:
        camera, reader = posed[index]
        pixels = reader()
        small = camera.scaled(min(1.0, side / max(camera.width, camera.height)))
        rgb = resize(pixels.rgb, small.width, small.height)
        grey = rgb.astype(np.float32) @ np.array([0.299, 0.587, 0.114], np.float32) / 255
        cover = pixels.alpha if pixels.alpha is not None else pixels.weight
        covered = None
        if cover is not None:
            retained = resize(cover, small.width, small.height) >= 128
            covered = torch.from_numpy(retained)
            grey[~retained] = 0.5
        fx, fy, cx, cy = small.intrinsics.double().tolist()
        matrix = torch.tensor([[fx, 0, cx], [0, fy, cy], [0, 0, 1]], dtype=torch.float64)
        out[index] = _View(torch.from_numpy(grey), rgb, covered, small.world_to_cam.double(), matrix)

    for_each(load, len(posed))
    views = [view for view in out if view is not None]
    greys = torch.cat([view.grey.flatten() for view in views]).to(device)
    for view, grey in zip(views, greys.split([view.grey.numel() for view in views]), strict=True):
        view.grey = grey.reshape(view.grey.shape)
        view.covered = None if view.covered is None else view.covered.to(device)
    return views


def _mapped(view: _View, matrix: Tensor) -> list[Tensor]:
    """Components of a matrix [3, 3] times the homogeneous centres of the pixels, 3 of [h, w].

    Its elements are numbers of the host, so that nothing waits for a transfer or begins to use a library of matrices.
    """
    height, width = view.grey.shape
    row = torch.arange(height, device=view.grey.device)[:, None] + 0.5
    column = torch.arange(width, device=view.grey.device) + 0.5
    return [a * column + (b * row + c) for a, b, c in matrix.tolist()]


def _between(view: _View, other: _View) -> tuple[Tensor, list[float]]:
    """M [3, 3] and v [3]: a pixel p of inverse depth w in a view is the homogeneous pixel M p + w v in another one."""
    relative = other.world_to_cam @ torch.linalg.inv(view.world_to_cam)
    matrix = other.intrinsics @ relative[:3, :3] @ torch.linalg.inv(view.intrinsics)
    return matrix, (other.intrinsics @ relative[:3, 3]).tolist()


def _match(view: _View, others: Sequence[_View], options: SweepOptions) -> None:
    """Finds the plane of each pixel of a view that its neighbours match best."""
    positions = [torch.linalg.inv(v.world_to_cam)[:3, 3] for v in (view, *others)]
    baseline = float(torch.stack([(p - positions[0]).norm() for p in positions[1:]]).median())
    view.step = (
        options.reach * options.side / (float(view.intrinsics[0, 0]) * baseline) / (options.planes - 1)
    )
    inverse = torch.arange(options.planes, device=view.grey.device)[:, None, None] * view.step
    windows = _Windows(options.window, view.grey)
    mean, variance = windows.moments(view.grey)
    first = second = torch.full((options.planes, *view.grey.shape), -1.0, device=view.grey.device)
    for other in others:
        matrix, shift = _between(view, other)
        x, y, z = (
            m + inverse * v for m, v in zip(_mapped(view, matrix), shift, strict=True)
        )  # [planes, h, w]
        tall, wide = other.grey.shape
        near = z.clamp_min(1e-6)
        grid = torch.stack([x / near * (2 / wide) - 1, y / near * (2 / tall) - 1], -1)
        inside = (z > 1e-6) & (grid[..., 0].abs() < 1) & (grid[..., 1].abs() < 1)
        if other.covered is not None:
            inside = inside & (_looked_up(other.covered.float(), grid, "nearest") > 0.5)
        warped = _looked_up(other.grey, grid, "bilinear")
        own, spread = windows.moments(warped)
        both = windows.mean(warped * view.grey) - own * mean
        score = both / ((spread + FLAT) * (variance + FLAT)).sqrt()
        score = torch.where(inside, score, -1.0)
        first, second = torch.maximum(first, score), torch.maximum(second, torch.minimum(first, score))
    # Where one view does not see a point, two others may.
    best = 0.5 * (first + second) if len(others) > 1 else first
    top, plane = best.max(0)
    index = torch.arange(options.planes, device=best.device)[:, None, None]
    rival = best.masked_fill((index - plane).abs() <= 2, -1.0).max(0).values
    left = best.gather(0, (plane - 1).clamp_min(0)[None])[0]
    right = best.gather(0, (plane + 1).clamp_max(options.planes - 1)[None])[0]
    curve = (left - 2 * top + right).clamp_max(-1e-6)
    offset = ((left - right) / (2 * curve)).clamp(-0.5, 0.5)
    sure = (top > options.correlation) & (rival < top - options.margin)
    if view.covered is not None:
        sure = sure & view.covered
    sure = sure & (plane < options.planes - 1) & (plane > 0)
    view.plane = torch.where(sure, plane + offset, -1.0)


def _looked_up(image: Tensor, grid: Tensor, mode: str) -> Tensor:
    """An image [h, w] at positions in [-1, 1], [planes, h, w, 2]: [planes, h, w]."""
    source = image[None, None].expand(len(grid), -1, -1, -1)
    return F.grid_sample(source, grid, mode, padding_mode="border", align_corners=False)[:, 0]


class _Windows:
    """Means in the window around each pixel, as far as the image reaches.

    Sums of shifted images: of one channel, pooling and convolutions take several times as long on a CPU.

    Args:
        side: of a window, pixels.
        image: of the size of all images, [h, w].
    """

    def __init__(self, side: int, image: Tensor) -> None:
        self.side = side
        self.share = 1 / self._sum(torch.ones_like(image))

    def mean(self, image: Tensor) -> Tensor:
        """[..., h, w]."""
        return self._sum(image) * self.share

    def moments(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance, [..., h, w]."""
        mean = self.mean(image)
        return mean, (self.mean(image * image) - mean * mean).clamp_min(0)

    def _sum(self, image: Tensor) -> Tensor:
        half = self.side // 2
        for axis, padding in ((-1, (half, half)), (-2, (0, 0, half, half))):
            padded, length = F.pad(image, padding), image.shape[axis]
            image = padded.narrow(axis, 0, length).clone()
            for start in range(1, self.side):
                image += padded.narrow(axis, start, length)
        return image


def _agreement(view: _View, others: Sequence[_View], options: SweepOptions) -> tuple[Tensor, Tensor]:
    """Which pixels have a depth that others find too, [h, w], and their points: position in world coordinates and size
    of a pixel there, [h, w, 4]."""
    assert view.plane is not None
    inverse = (view.plane * view.step).clamp_min(0.25 * view.step)
    times = torch.zeros_like(view.plane)
    for other in others:
        assert other.plane is not None
        matrix, shift = _between(view, other)
        x, y, z = (m + inverse * v for m, v in zip(_mapped(view, matrix), shift, strict=True))
        tall, wide = other.plane.shape
        near = z.clamp_min(1e-6)
        column, row = x / near, y / near
        inside = (z > 1e-6) & (column >= 0) & (column < wide) & (row >= 0) & (row < tall)
        plane = other.plane[row.clamp(0, tall - 1).long(), column.clamp(0, wide - 1).long()]
        expected = inverse / near / other.step  # z is the depth in the other view over that in this one
        times += inside & (plane >= 0) & ((plane - expected).abs() < options.agreement)
    agree = (view.plane >= 0) & (times >= options.agreeing)
    pose = torch.linalg.inv(view.world_to_cam)
    rays = _mapped(view, pose[:3, :3] @ torch.linalg.inv(view.intrinsics))
    xyz = [ray / inverse + at for ray, at in zip(rays, pose[:3, 3].tolist(), strict=True)]
    return agree, torch.stack([*xyz, 1 / (inverse * float(view.intrinsics[0, 0]))], -1)
