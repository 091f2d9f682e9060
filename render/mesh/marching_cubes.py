"""Surfaces from values on a grid: marching cubes, also of values that come a slab at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from luxel.render.mesh.cube_cases import CORNERS, EDGES, cube_cases
from luxel.render.mesh.triangles import TriangleMesh

MAX_POINTS = 1 << 18  # of a grid that are evaluated at a time
MIN_SHARE = 1e-4  # how near to a point of the grid a vertex may come, in sides of a cell


def marching_cubes(
    values: Tensor, level: float = 0.0, origin: Sequence[float] = (0, 0, 0), spacing: float = 1.0
) -> TriangleMesh:
    """The surface where a function on a grid passes through a level (Lorensen and Cline 1987, "Marching Cubes").

    Below the level is inside; triangles face outward. A vertex is shared by all triangles around it. Where the corners
    of a cell's face alternate, those inside are kept apart, by the same rule in both cells at the face: the surface is
    closed and without seams, except where it leaves the grid.

    Args:
        values: at the points of the grid, [X, Y, Z], on any device; NaN counts as outside.
        level: of the surface.
        origin: where the point 0, 0, 0 is.
        spacing: between points of the grid.

    Returns:
        Vertices [V, 3] of the type of the values, and int32 faces [F, 3]; none where nothing crosses.

    Raises:
        ValueError: values are not [X, Y, Z] with two points or more along each axis.
    """
    if values.dim() != 3 or min(values.shape) < 2:
        raise ValueError(f"marching_cubes: values must be [X, Y, Z] of 2 or more, got {list(values.shape)}")
    part = _march(values, level, 0, (values.shape[1], values.shape[2]))
    return _joined([part], values.new_tensor(origin), spacing)


def field_surface(
    field: Callable[[Tensor], Tensor],
    resolution: int,
    *,
    low: Sequence[float] = (0, 0, 0),
    side: float = 1.0,
    level: float = 0.0,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> TriangleMesh:
    """`marching_cubes` of a function in a cube, of which a slab of the grid is held at a time.

    Args:
        field: positions [n, 3] to values [n] or [n, 1], negative inside; called without gradients.
        resolution: cells along an axis; there is one point more. Memory grows with its square.
        low: lowest corner of the cube.
        side: its length.
        level: of the surface.
        device, dtype: of the positions.

    Raises:
        ValueError: resolution below 1.
    """
    if resolution < 1:
        raise ValueError(f"field_surface: resolution must be 1 or more, got {resolution}")
    count, spacing = resolution + 1, side / resolution
    base = torch.tensor(list(low), dtype=dtype, device=device)
    along = torch.arange(count, device=device, dtype=dtype) * spacing
    y, z = torch.meshgrid(along + base[1], along + base[2], indexing="ij")
    thick = max(2, min(count, MAX_POINTS // count**2))  # of a slab; neighbours share a plane
    parts, last = [], None
    for first in range(0, resolution, thick - 1):
        planes = range(first if last is None else first + 1, min(first + thick, count))
        rows = []
        for plane in planes:
            x = torch.stack([(along[plane] + base[0]).expand_as(y), y, z], -1).view(-1, 3)
            with torch.no_grad():
                values = [field(part).reshape(-1) for part in x.split(MAX_POINTS)]
            rows.append(torch.cat(values).view(count, count))
        slab = torch.stack(rows if last is None else [last, *rows])
        last = slab[-1]
        parts.append(_march(slab, level, first, (count, count)))
    return _joined(parts, base, spacing)


def _march(
    values: Tensor, level: float, first: int, across: tuple[int, int]
) -> tuple[Tensor, Tensor, Tensor]:
    """The triangles of a slab: vertices by the number of the edge of the grid that they lie on.

    Args:
        values: [X, Y, Z] of which plane 0 is plane ``first`` of the complete grid.
        across: Y and Z.

    Returns:
        edges [V], increasing; places [V, 3] in cells; triangles of edges [F, 3].
    """
    inside = values < level
    spans = [slice(None, -1), slice(1, None)]
    case = torch.zeros([side - 1 for side in values.shape], dtype=torch.uint8, device=values.device)
    for bit, corner in enumerate(CORNERS):
        case |= inside[tuple(spans[offset] for offset in corner)].to(torch.uint8) << bit
    cells = ((case != 0) & (case != 255)).nonzero()
    at = cells[:, None] + torch.tensor(CORNERS, device=values.device)
    corners = values[tuple(at.movedim(-1, 0))]
    cells[:, 0] += first
    crossed = march_cells(cells, corners, level, across)
    return crossed.edges, crossed.positions, crossed.triangles


class Crossed(NamedTuple):
    """Where a surface crosses cells of a grid.

    Args:
        edges: of the grid, that are crossed, by number, increasing, int64 [V].
        positions: of the vertices on them, in cells, [V, 3].
        triangles: of edges, by number, int64 [F, 3].
        cells: for each edge a row of the cells that were given at whose border it is, int64 [V].
        ends: its lower and its upper corner there, int64 [V, 2].
        share: where the vertex is between these, 0 to 1, [V].
    """

    edges: Tensor
    positions: Tensor
    triangles: Tensor
    cells: Tensor
    ends: Tensor
    share: Tensor


def march_cells(cells: Tensor, corners: Tensor, level: float, across: tuple[int, int]) -> Crossed:
    """The surface in some cells of a grid.

    Args:
        cells: their lowest corners, int64 [M, 3].
        corners: values at their corners in the order of `CORNERS`, [M, 8]; a point has one value in all cells.
        level: of the surface.
        across: points of the grid along the second and third axis; for numbers of edges.
    """
    device, (rows, columns) = corners.device, across
    bits = 2 ** torch.arange(8, device=device)
    kinds = ((corners < level) * bits).sum(1)
    cases, starts = (t.to(device) for t in cube_cases())
    counts = starts[kinds + 1] - starts[kinds]
    cell = torch.arange(len(cells), device=device).repeat_interleave(counts)
    within = torch.arange(len(cell), device=device) - (counts.cumsum(0) - counts)[cell]
    sides = cases[starts[kinds[cell]] + within]  # edges of a cell, [F, 3]

    table = torch.tensor(EDGES, device=device)  # axis, lower and upper corner
    offsets = torch.tensor(CORNERS, device=device)
    at = cells[cell][:, None] + offsets[table[sides, 1]]
    triangles = ((at[..., 0] * rows + at[..., 1]) * columns + at[..., 2]) * 3 + table[sides, 0]

    edges, which = triangles.flatten().unique(return_inverse=True)
    # Cells at an edge agree about it: any of them does.
    one = torch.zeros_like(edges).scatter_(0, which, torch.arange(len(which), device=device))
    owner, ends = cell[one // 3], table[sides.flatten()[one], 1:]
    a, b = corners[owner[:, None], ends].unbind(1)
    share = ((level - a) / (b - a)).nan_to_num(0.5, 0.5, 0.5).clamp(MIN_SHARE, 1 - MIN_SHARE)
    low, high = (cells[owner] + offsets[end] for end in ends.unbind(1))
    return Crossed(edges, low + share[:, None] * (high - low), triangles, owner, ends, share)


def _joined(parts: list[tuple[Tensor, Tensor, Tensor]], origin: Tensor, spacing: float) -> TriangleMesh:
    """One mesh of slabs: what lies on a plane of two of them is one vertex."""
    every = torch.cat([part[0] for part in parts])
    edges, which = every.unique(return_inverse=True)
    positions = origin.new_empty(len(edges), 3)
    positions[which] = torch.cat([part[1] for part in parts]).to(origin)
    faces = torch.searchsorted(edges, torch.cat([part[2] for part in parts]))
    return TriangleMesh(origin + spacing * positions, faces.to(torch.int32))
