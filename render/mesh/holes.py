"""Closing of small holes in a triangle mesh."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from luxel.render.mesh.depth_fusion import FusedSurface
from luxel.render.mesh.triangles import TriangleMesh

LONGEST_POLYGON = (
    96  # sides up to which the smallest area is looked for: its work grows with their third power
)


class FilledHoles(NamedTuple):
    """A surface, and the numbers of openings that were closed and that stay."""

    surface: FusedSurface
    closed: int
    left: int


def boundary_loops(mesh: TriangleMesh) -> list[list[int]]:
    """The openings of a mesh as rings of vertices, in the direction in which new triangles run along them.

    Where openings touch at a vertex, each is a ring of its own. Waits for the device.
    """
    faces = mesh.faces.long().cpu().numpy()
    sides = np.stack([faces, np.roll(faces, -1, 1)], -1).reshape(-1, 2)
    count = len(mesh.vertices)
    open_sides = sides[~np.isin(sides[:, 1] * count + sides[:, 0], sides[:, 0] * count + sides[:, 1])]
    following = defaultdict(list)
    for start, end in open_sides[:, ::-1].tolist():
        following[start].append(end)
    rings = []
    for first in sorted(following):
        while following[first]:
            rings += _walk(first, following)
    return rings


def _walk(first: int, following: dict[int, list[int]]) -> list[list[int]]:
    """Follows sides from a vertex until none is left; gives the rings without a repeated vertex on the route."""
    rings, route, position = [], [first], {first: 0}
    while following[route[-1]]:
        vertex = following[route[-1]].pop()
        if vertex not in position:
            position[vertex] = len(route)
            route.append(vertex)
            continue
        ring = route[position[vertex] :]
        for other in ring[1:]:
            del position[other]
        del route[position[vertex] + 1 :]
        if len(ring) > 2:
            rings.append(ring)
    return rings


def fill_holes(surface: FusedSurface, longest: float) -> FilledHoles:
    """Closes openings that are not longer than ``longest`` around; larger ones stay.

    Up to `LONGEST_POLYGON` sides the triangulation has the smallest area without new vertices (Barequet and Sharir
    1995, "Filling Gaps in the Boundary of a Polyhedron"); else it is a fan around the centroid, with the mean colour.

    Args:
        surface: triangles with colours.
        longest: length around an opening, units of the vertices.
    """
    mesh, colours = surface
    rings = boundary_loops(mesh)
    positions = mesh.vertices.double().cpu().numpy()
    lengths = [
        float(np.linalg.norm(positions[ring] - positions[np.roll(ring, -1)], axis=1).sum()) for ring in rings
    ]
    chosen = [ring for ring, length in zip(rings, lengths, strict=True) if length <= longest]
    if not chosen:
        return FilledHoles(surface, 0, len(rings))
    taken = _sides_between(mesh.faces, {vertex for ring in chosen for vertex in ring})
    new_faces: list[np.ndarray] = []
    new_positions: list[np.ndarray] = []
    sources: list[tuple[list[int], np.ndarray]] = []  # whose colours a new vertex mixes, and their shares
    for ring in chosen:
        inner = (
            _smallest_area(positions[ring], _blocked(ring, taken)) if len(ring) <= LONGEST_POLYGON else None
        )
        if inner is not None:
            triangles = np.array(ring)[inner]
            taken.update(_sides(triangles))
        else:
            centre = len(positions) + len(new_positions)
            triangles = np.array([[a, b, centre] for a, b in zip(ring, [*ring[1:], ring[0]], strict=True)])
            steps = np.linalg.norm(positions[ring] - positions[np.roll(ring, -1)], axis=1)
            share = steps + np.roll(steps, 1)  # of the boundary at each vertex
            share = share / share.sum() if share.sum() > 0 else np.full(len(ring), 1 / len(ring))
            new_positions.append(share @ positions[ring])
            sources.append((ring, share))
        new_faces.append(triangles)
    device = mesh.vertices.device
    faces = torch.cat([mesh.faces, torch.from_numpy(np.concatenate(new_faces)).to(mesh.faces)])
    vertices = mesh.vertices
    if new_positions:
        vertices = torch.cat([vertices, torch.from_numpy(np.stack(new_positions)).to(vertices)])
        mixed = [
            torch.from_numpy(share).to(colours) @ colours[torch.tensor(ring, device=device)]
            for ring, share in sources
        ]
        colours = torch.cat([colours, torch.stack(mixed)])
    filled = FusedSurface(TriangleMesh(vertices, faces), colours)
    return FilledHoles(filled, len(chosen), len(rings) - len(chosen))


def _sides(triangles: np.ndarray) -> set[tuple[int, int]]:
    """The sides of triangles [F, 3], lower vertex first."""
    pairs = np.stack([triangles, np.roll(triangles, -1, 1)], -1).reshape(-1, 2)
    return set(map(tuple, np.sort(pairs, 1).tolist()))


def _sides_between(faces: Tensor, vertices: set[int]) -> set[tuple[int, int]]:
    """The sides of triangles both of whose ends are among some vertices."""
    rows = faces.long().cpu().numpy()
    among = np.isin(rows, np.fromiter(vertices, np.int64, len(vertices)))
    rows = rows[among.sum(1) > 1]
    return {side for side in _sides(rows) if side[0] in vertices and side[1] in vertices}


def _blocked(ring: list[int], taken: set[tuple[int, int]]) -> np.ndarray:
    """Which pairs of a ring's vertices, not neighbours, are a side of the mesh, bool [n, n] above the diagonal."""
    n = len(ring)
    blocked = np.zeros((n, n), bool)
    for i in range(n):
        for j in range(i + 2, n - (i == 0)):
            a, b = ring[i], ring[j]
            blocked[i, j] = ((a, b) if a < b else (b, a)) in taken
    return blocked


def _smallest_area(ring: np.ndarray, blocked: np.ndarray) -> np.ndarray | None:
    """The triangulation [n - 2, 3] of a ring of points [n, 3] with the least area; None: blocked sides leave none."""
    n = len(ring)
    cost = np.full((n, n), np.inf)
    middle = np.zeros((n, n), np.int64)
    cost[np.arange(n - 1), np.arange(1, n)] = 0
    for gap in range(2, n):
        i = np.arange(n - gap)
        k = i[:, None] + np.arange(1, gap)
        j = (i + gap)[:, None]
        across = np.cross(ring[k] - ring[i][:, None], ring[j] - ring[i][:, None])
        total = cost[i[:, None], k] + cost[k, j] + np.linalg.norm(across, axis=-1)
        total = np.where(blocked[i, i + gap][:, None], np.inf, total)
        best = total.argmin(1)
        cost[i, i + gap], middle[i, i + gap] = total[i, best], k[i, best]
    if not np.isfinite(cost[0, n - 1]):
        return None
    triangles, waiting = [], [(0, n - 1)]
    while waiting:
        i, j = waiting.pop()
        if j - i > 1:
            k = int(middle[i, j])
            triangles.append((i, k, j))
            waiting += [(i, k), (k, j)]
    return np.array(triangles)
