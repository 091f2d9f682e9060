"""Which splats touch which tile, nearest first."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from luxel.render.reference.raster.project_gaussians import Splats

TILE = 16  # pixels along a side


@torch.no_grad()
def bin_splats_reference(splats: Splats, width: int, height: int) -> tuple[Tensor, Tensor]:
    """Lists the splats of each tile by depth; ties keep the order of the Gaussians.

    A splat belongs to a tile if the ellipse in which its alpha reaches 1/255 meets the rectangle of the tile's
    pixel centres. Tiles at the right and lower border count in full, also beyond the image.

    Args:
        splats: V visible splats.
        width, height: image size in pixels.

    Returns:
        instances [M], positions among the V splats, tile after tile (row-major); ranges [T, 2], the first and
        one past the last instance of each tile.
    """
    low, high = splats.mean2d - splats.half_extent, splats.mean2d + splats.half_extent

    def meets(which: Tensor, column: Tensor, row: Tensor) -> Tensor:
        return _ellipse_meets_tile(splats, which, column, row)

    return list_tiles_reference(low, high, splats.depth, meets, width, height)


@torch.no_grad()
def list_tiles_reference(
    low: Tensor,
    high: Tensor,
    depth: Tensor,
    meets: Callable[[Tensor, Tensor, Tensor], Tensor],
    width: int,
    height: int,
) -> tuple[Tensor, Tensor]:
    """Lists the splats of each tile by depth, for any primitive; see `bin_splats_reference`.

    Args:
        low, high: corners of boxes outside of which the splats are not visible, px, [V, 2].
        depth: what to sort by, [V].
        meets: given splats, columns and rows of tiles, [m] each: whether the splat belongs to the tile, [m] bool.
        width, height: image size in pixels.
    """
    across, down = -(-width // TILE), -(-height // TILE)
    device = depth.device
    limit = torch.tensor([across - 1, down - 1], device=device)
    first = (low / TILE).floor().clamp(-1, 1 << 24).long()
    last = (high / TILE).floor().clamp(-1, 1 << 24).long()
    first, last = first.clamp_min(0), last.minimum(limit)
    box = (last - first + 1).clamp_min(0)

    # One candidate per splat and tile of its box, in the order of depth: a stable sort by tile completes the lists.
    order = depth.sort(stable=True).indices
    counts = box.prod(-1)[order]
    which = order.repeat_interleave(counts)
    position = torch.arange(which.numel(), device=device)
    position = position - (counts.cumsum(0) - counts).repeat_interleave(counts)
    column = first[which, 0] + position % box[which, 0].clamp_min(1)
    row = first[which, 1] + position // box[which, 0].clamp_min(1)
    touches = meets(which, column, row)
    which, tile = which[touches], (row * across + column)[touches]

    tile, by_tile = tile.sort(stable=True)
    ends = torch.bincount(tile, minlength=across * down).cumsum(0)
    starts = torch.cat([ends.new_zeros(1), ends[:-1]])
    return which[by_tile], torch.stack([starts, ends], -1)


def _ellipse_meets_tile(splats: Splats, which: Tensor, column: Tensor, row: Tensor) -> Tensor:
    """Whether the least exponent over the rectangle of pixel centres is within ln(255 opacity)."""
    corner = torch.stack([column, row], -1) * TILE + 0.5
    x0, y0 = (corner - splats.mean2d[which]).unbind(-1)
    x1, y1 = x0 + TILE - 1, y0 + TILE - 1
    a, b, c = splats.conic[which].unbind(-1)

    def power(dx: Tensor, dy: Tensor) -> Tensor:
        return (a * dx * dx + c * dy * dy) / 2 + b * dx * dy

    # A convex function whose minimum is outside of a rectangle is least on one of its edges.
    edges = [power(x, (-b / c * x).maximum(y0).minimum(y1)) for x in (x0, x1)]
    edges += [power((-b / a * y).maximum(x0).minimum(x1), y) for y in (y0, y1)]
    inside = (x0 <= 0) & (x1 >= 0) & (y0 <= 0) & (y1 >= 0)
    return inside | (torch.stack(edges).amin(0) <= (255 * splats.opacity[which]).log())
