"""Points within a polygon or near a stroke: a grid of tiles decides for most points, a test of each edge for the rest.

A tile that the border does not come near lies inside or outside as a whole. With S edges the grid has about
GRID_WORK / S tiles, so that it costs little alongside the points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

GRID_WORK = 1 << 18  # tiles times edges, about
FINEST = 4.0  # pixels, the smallest side of a tile
ROUNDING = 0.05  # pixels by which a tile counts as larger
OUTSIDE, INSIDE, BORDER = 0, 1, 2

Point = Sequence[float]
Test = Callable[[Tensor, Tensor], Tensor]


def within_polygon(x: Tensor, y: Tensor, corners: Sequence[Point]) -> Tensor:
    """Points within a closed polygon by the even-odd rule, bool [P].

    Args:
        x, y: finite, pixels, [P].
        corners: x, y in pixels, at least one.
    """
    edges = _edges(corners, [*corners[1:], corners[0]], x)

    def tiles(u: Tensor, v: Tensor, reach: float) -> Tensor:
        classes = _crossings(u, v, edges).to(torch.uint8)
        return classes.masked_fill(_distances(u, v, edges) <= reach, BORDER)

    def exact(u: Tensor, v: Tensor) -> Tensor:
        odd = torch.zeros_like(u, dtype=torch.bool)
        low, high = edges[:, 1].minimum(edges[:, 3]), edges[:, 1].maximum(edges[:, 3])
        for part, (x0, y0, x1, y1) in _parts(v, low, high, edges):
            if y0 != y1:
                odd[part] ^= u[part] < x0 + (v[part] - y0) * ((x1 - x0) / (y1 - y0))
        return odd

    return _by_tiles(x, y, _grid(x, corners, 0.0), tiles, exact)


def within_stroke(x: Tensor, y: Tensor, points: Sequence[Point], radius: float) -> Tensor:
    """Points at most ``radius`` from a line through ``points``, bool [P].

    Args:
        x, y: finite, pixels, [P].
        points: x, y in pixels, at least one.
        radius: pixels.
    """
    edges = _edges(points, [*points[1:], points[-1]], x)

    def tiles(u: Tensor, v: Tensor, reach: float) -> Tensor:
        distances = _distances(u, v, edges)
        classes = (distances <= radius - reach).to(torch.uint8)
        return classes.masked_fill((distances - radius).abs() < reach, BORDER)

    def exact(u: Tensor, v: Tensor) -> Tensor:
        near = torch.zeros_like(u, dtype=torch.bool)
        low = edges[:, 1].minimum(edges[:, 3]) - radius
        high = edges[:, 1].maximum(edges[:, 3]) + radius
        for part, (x0, y0, x1, y1) in _parts(v, low, high.nextafter(high + 1), edges):
            dx, dy, right, down = x1 - x0, y1 - y0, u[part] - x0, v[part] - y0
            along = ((right * dx + down * dy) / max(dx * dx + dy * dy, 1e-12)).clamp(0, 1)
            near[part] |= (right - along * dx).square() + (down - along * dy).square() <= radius * radius
        return near

    return _by_tiles(x, y, _grid(x, points, radius), tiles, exact)


def _edges(starts: Sequence[Point], ends: Sequence[Point], like: Tensor) -> Tensor:
    """x0, y0, x1, y1 of each edge, [S, 4]."""
    return like.new_tensor([[*start, *end] for start, end in zip(starts, ends, strict=True)])


def _grid(like: Tensor, points: Sequence[Point], margin: float) -> tuple[float, float, float, int, int]:
    """Left, top, side of a tile, columns and rows of a grid around points."""
    columns, lines = [p[0] for p in points], [p[1] for p in points]
    left, top = min(columns) - margin, min(lines) - margin
    width, height = max(columns) + margin - left, max(lines) + margin - top
    side = max(
        FINEST, math.sqrt(max(width * height, 1.0) * len(points) / GRID_WORK), max(width, height) / 1024
    )
    return left, top, side, int(width / side) + 1, int(height / side) + 1


def _by_tiles(
    x: Tensor,
    y: Tensor,
    grid: tuple[float, float, float, int, int],
    tiles: Callable[..., Tensor],
    exact: Test,
) -> Tensor:
    """Points within an area, bool [P].

    Args:
        x, y: [P].
        grid: covers the area.
        tiles: called with the centres of tiles [T] twice and how far they reach; OUTSIDE, INSIDE or BORDER, uint8 [T].
        exact: called with points, in the order of y.
    """
    left, top, side, columns, rows = grid
    u = left + side * (torch.arange(columns, device=x.device, dtype=x.dtype) + 0.5)
    v = top + side * (torch.arange(rows, device=x.device, dtype=x.dtype) + 0.5)
    reach = side * math.sqrt(0.5) + ROUNDING
    classes = tiles(u.repeat(rows), v.repeat_interleave(columns), reach)
    column, row = ((x - left) / side).floor(), ((y - top) / side).floor()
    inside = (column >= 0) & (column < columns) & (row >= 0) & (row < rows)
    tile = (row * columns + column).where(inside, row.new_zeros(())).int()
    of_points = classes.index_select(0, tile).masked_fill(~inside, OUTSIDE)
    result = of_points == INSIDE
    border = (of_points == BORDER).nonzero()[:, 0]
    border = border[y[border].argsort()]
    result[border] = exact(x[border], y[border])
    return result


def _distances(u: Tensor, v: Tensor, edges: Tensor) -> Tensor:
    """From each of T points to the nearest of S edges, [T]."""
    x0, y0, x1, y1 = edges.T
    dx, dy = x1 - x0, y1 - y0
    right, down = u[:, None] - x0, v[:, None] - y0
    along = ((right * dx + down * dy) / (dx * dx + dy * dy).clamp_min(1e-12)).clamp_(0, 1)
    return (right - along * dx).square_().add_((down - along * dy).square_()).amin(1).sqrt()


def _crossings(u: Tensor, v: Tensor, edges: Tensor) -> Tensor:
    """Whether a line from each of T points to the right crosses an odd number of edges, bool [T]."""
    x0, y0, x1, y1 = edges.T
    spanned = (v[:, None] >= y0.minimum(y1)) & (v[:, None] < y0.maximum(y1))
    slope = (x1 - x0) / (y1 - y0).where(y0 != y1, y0.new_ones(()))
    crossed = spanned & (u[:, None] < x0 + (v[:, None] - y0) * slope)
    return crossed.sum(1) % 2 == 1


def _parts(values: Tensor, low: Tensor, high: Tensor, edges: Tensor) -> list[tuple[slice, list[float]]]:
    """Slices of sorted values at least ``low`` and below ``high`` of an edge, with its numbers; no empty ones."""
    bounds = torch.searchsorted(values, torch.stack([low, high])).T.tolist()
    pairs = zip(bounds, edges.tolist(), strict=True)
    return [(slice(first, last), edge) for (first, last), edge in pairs if first < last]
