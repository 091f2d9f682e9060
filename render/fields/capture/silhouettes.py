"""Where an object can be by the outlines that the alpha of its images shows: its visual hull, and a box around it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import max_pool2d

from luxel.render.fields.capture.posed_images import Box, DeviceImages
from luxel.render.geometry.camera import Camera
from luxel.render.ops.field.march_rays import Region

COVERED = 8  # alpha, of 255, from which a pixel shows the object
MAX_OUTSIDE = 0.1  # share of the views of a point that may show nothing there: masks and poses have errors
MIN_VIEWS = 2  # that must show nothing at a point outside
SEARCHED = 40  # cells along the box so far, within which a smaller one is looked for
SEARCHES = 2
MIN_OBSERVED = 0.5  # share of the views that show the parts of the hull which the box holds
SMALLER = 0.7  # side of the box, of that of the cameras, above which that one serves as well
MARGIN = 1.05  # side of the box, of the hull's
PIXELS, PROJECTIONS = 1 << 25, 1 << 22  # of images, and of points into them, at a time
BLOCKS = (
    4,
    2,
)  # cells along the sides of what is tested together, first everywhere, then within the hull so far


def silhouette_box(images: DeviceImages, cameras: Sequence[Camera], around: Box) -> Box:
    """A cube around the visual hull within the box that follows from the cameras alone.

    It is that box unless the hull is much smaller.

    Args:
        images: with alpha.
        cameras: of the images.
        around: the box that follows from the cameras alone.
    """
    box = around
    for _ in range(SEARCHES):
        low, high = (torch.tensor(box[i : i + 3], device=images.pixels.device) for i in (0, 3))
        middle, half = (low + high) / 2, (high - low) / 2
        cell = 2 * half / SEARCHED
        along = (torch.arange(SEARCHED, device=low.device) + 0.5) / SEARCHED * 2 - 1
        points = middle + half * torch.cartesian_prod(along, along, along)
        hull, observed = in_hull(points, float(cell.max()) / 2, images, cameras)
        inside = points[hull & (observed >= MIN_OBSERVED * len(cameras))]
        if not len(inside):
            return around
        first, last = inside.amin(0) - cell / 2, inside.amax(0) + cell / 2
        middle, half = (first + last) / 2, MARGIN * (last - first).max() / 2
        x, y, z = (middle - half).tolist()
        u, v, w = (middle + half).tolist()
        if u - x >= box[3] - box[0]:
            break
        box = x, y, z, u, v, w
    return box if box[3] - box[0] < SMALLER * (around[3] - around[0]) else around


def hull_cells(region: Region, images: DeviceImages, cameras: Sequence[Camera]) -> Tensor:
    """The cells of a box that the visual hull reaches, bool [1, G, G, G], indexed [cascade, z, y, x].

    Args:
        region: box, and resolution G of the occupancy.
        images: with alpha.
        cameras: of the images.
    """
    device, g = images.pixels.device, region.resolution
    low, high = (torch.tensor(region.box[i : i + 3], device=device, dtype=torch.float32) for i in (0, 3))
    cells = torch.ones(g, g, g, dtype=torch.bool, device=device)
    for block in BLOCKS:
        corners = cells[::block, ::block, ::block].nonzero()
        points = low + (high - low) * (corners.flip(1) + 0.5) * block / g
        kept = corners[in_hull(points, float((high - low).norm()) * block / g / 2, images, cameras)[0]]
        cells = torch.zeros(3 * [g // block], dtype=torch.bool, device=device)
        cells[tuple(kept.T)] = True
        for axis in range(3):
            cells = cells.repeat_interleave(block, axis)
    return cells[None]


def in_hull(
    points: Tensor, radius: float, images: DeviceImages, cameras: Sequence[Camera]
) -> tuple[Tensor, Tensor]:
    """Whether spheres reach into the visual hull (Laurentini 1994), bool [N], and how many views show them, [N].

    A sphere is outside where more than a tenth of the views that show all of it, and at least `MIN_VIEWS`, have no
    alpha there.

    Args:
        points: their centres, [N, 3].
        radius: of all.
        images: with alpha.
        cameras: of the images.
    """
    outside, observed = (torch.zeros(len(points), dtype=torch.int32, device=points.device) for _ in range(2))
    for numbers in _batches(cameras, len(points)):
        width, height = cameras[numbers[0]].width, cameras[numbers[0]].height
        firsts = images.table[numbers, 0].tolist()
        masks = torch.stack([images.pixels[first : first + width * height, 3] for first in firsts]) >= COVERED
        poses = torch.stack([cameras[i].world_to_cam for i in numbers]).to(points)
        lenses = torch.stack([cameras[i].intrinsics for i in numbers]).to(points)
        fx, fy, cx, cy = lenses.T[:, :, None]
        x, y, z = (points @ poses[:, :3, :3].mT + poses[:, None, :3, 3]).unbind(-1)
        ahead = z > max(2 * radius, images.near)
        z = torch.where(ahead, z, 1.0)
        column, row, reach = x / z * fx + cx, y / z * fy + cy, radius * torch.maximum(fx, fy) / z + 1
        shown = (
            ahead & (column >= reach) & (column <= width - reach) & (row >= reach) & (row <= height - reach)
        )
        observed += shown.sum(0)
        covered = _covered(masks.view(-1, height, width), column, row, reach)
        outside += (shown & ~covered).sum(0)
    return ~((outside > MAX_OUTSIDE * observed) & (outside >= MIN_VIEWS)), observed


def _batches(cameras: Sequence[Camera], points: int) -> list[list[int]]:
    """Numbers of cameras with images of one size, as many as `PIXELS` and `PROJECTIONS` of so many points allow."""
    of_size: dict[tuple[int, int], list[int]] = {}
    for number, camera in enumerate(cameras):
        of_size.setdefault((camera.width, camera.height), []).append(number)
    out: list[list[int]] = []
    for (width, height), numbers in of_size.items():
        most = max(1, min(PIXELS // (width * height), PROJECTIONS // max(1, points)))
        out += [numbers[i : i + most] for i in range(0, len(numbers), most)]
    return out


def _covered(masks: Tensor, column: Tensor, row: Tensor, reach: Tensor) -> Tensor:
    """Whether masks [V, H, W] are set anywhere in squares of half a side ``reach``, at least 1 pixel, [V, N].

    Read from the level of a pyramid of maxima whose pixels are as large as the square, so that 2 x 2 of them hold it;
    these may reach farther.

    Args:
        masks: of V images.
        column, row, reach: of N squares in each, pixels, [V, N].
    """
    covered = torch.zeros_like(column, dtype=torch.bool)
    level = torch.log2(2 * reach).ceil()
    pooled = masks.float()[:, None]
    for k in range(int(level.max()) + 1):
        if k:
            pooled = max_pool2d(pooled, 2, ceil_mode=True)
        view, rows = squares = (level == k).nonzero(as_tuple=True)
        if not len(rows):
            continue
        height, width = pooled.shape[-2:]
        u = ((column[squares] - reach[squares]) / 2**k).long().clamp(0, width - 1)
        v = ((row[squares] - reach[squares]) / 2**k).long().clamp(0, height - 1)
        right, below = (u + 1).clamp_max(width - 1), (v + 1).clamp_max(height - 1)
        values = [pooled[view, 0, b, a] for a in (u, right) for b in (v, below)]
        covered[squares] = torch.stack(values).amax(0) > 0
    return covered
