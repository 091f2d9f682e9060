"""Fewer triangles for the same surface: edges are collapsed where it changes least.

Garland and Heckbert 1997, "Surface Simplification Using Quadric Error Metrics", by the package fast-simplification.
"""

from __future__ import annotations

import numpy as np
import torch

from luxel.render.mesh.depth_fusion import FusedSurface
from luxel.render.mesh.extras import mesh_package
from luxel.render.mesh.triangles import TriangleMesh, without_degenerate

AGGRESSIVENESS = (7.0, 5.0, 3.0)  # of the package; the first that keeps a closed mesh closed
MAX_SHEETS = 64  # triangles on one side of an edge that are joined with others
NEIGHBOURS = 3  # vertices of the original surface that give a new one its colour


def decimated(surface: FusedSurface, triangles: int) -> FusedSurface:
    """The surface with at most so many triangles, where that can be reached; colours come from the nearest vertices.

    A closed mesh stays closed: it keeps more triangles where fewer would open it.

    Args:
        surface: triangles with colours.
        triangles: the most that stay, at least 4.

    Raises:
        LuxelError: the package is not installed.
    """
    package = mesh_package("fast_simplification")
    mesh, colours = surface
    if len(mesh.faces) <= triangles:
        return surface
    closed = mesh.is_closed()
    vertices = mesh.vertices.double().cpu().numpy()
    faces = mesh.faces.to(torch.int32).cpu().numpy()
    fewer = mesh
    for aggressiveness in AGGRESSIVENESS:
        made = package.simplify(vertices, faces, target_count=triangles, agg=aggressiveness)
        fewer = mended(TriangleMesh(*(torch.from_numpy(np.array(part)) for part in made[:2])))
        if len(fewer.faces) and (not closed or fewer.is_closed()):
            break
    else:
        return surface
    moved = TriangleMesh(fewer.vertices.to(mesh.vertices), fewer.faces.to(mesh.faces))
    return FusedSurface(moved, _colours_at(fewer.vertices.numpy(), vertices, colours))


def mended(mesh: TriangleMesh) -> TriangleMesh:
    """Without the flaws of collapsed edges: pairs of triangles back to back, and sides of more than two triangles.

    Back-to-back pairs are removed. At a side of several triangles, each is joined with one that runs along it in the
    opposite direction, and the vertices are doubled where that takes the sheets apart.
    """
    mesh_package("scipy")
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    faces = _without_pairs(without_degenerate(mesh))
    rows = faces.faces.long().numpy()
    if not len(rows):
        return faces
    corner = np.arange(rows.size).reshape(-1, 3)
    starts, ends = rows.ravel(), np.roll(rows, -1, 1).ravel()
    at_start, at_end = corner.ravel(), np.roll(corner, -1, 1).ravel()
    forward = starts < ends
    key = np.minimum(starts, ends) * (rows.max() + 1) + np.maximum(starts, ends)
    one, other = (_ranked(key, which) for which in (np.flatnonzero(forward), np.flatnonzero(~forward)))
    _, i, j = np.intersect1d(one[0], other[0], return_indices=True)
    a, b = one[1][i], other[1][j]
    joined = np.concatenate([at_start[a], at_end[a]]), np.concatenate([at_end[b], at_start[b]])
    graph = coo_matrix((np.ones(len(joined[0]), np.int8), joined), shape=(rows.size, rows.size))
    count, part = connected_components(graph, directed=False)
    vertex = np.zeros(count, np.int64)
    vertex[part] = rows.ravel()
    separate = TriangleMesh(faces.vertices[torch.from_numpy(vertex)], torch.from_numpy(part.reshape(-1, 3)))
    return TriangleMesh(separate.vertices, separate.faces.to(mesh.faces.dtype))


def _ranked(key: np.ndarray, sides: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sides in the order of their keys, and numbers of (key, rank among the sides of this key), each once."""
    order = sides[np.argsort(key[sides], kind="stable")]
    ordered = key[order]
    rank = np.arange(len(ordered)) - np.searchsorted(ordered, ordered)
    return ordered * MAX_SHEETS + np.minimum(rank, MAX_SHEETS - 1), order


def _without_pairs(mesh: TriangleMesh) -> TriangleMesh:
    """Of triangles with the same three vertices one stays, and none where as many face one way as the other."""
    faces = mesh.faces.long()
    sets, which = faces.sort(1).values.unique(dim=0, return_inverse=True)
    turned = faces.roll(-1, 1)
    up = (
        (faces < turned).sum(1) == 2
    ).long() * 2 - 1  # whether the corners ascend in the order of the triangle
    balance = torch.zeros(len(sets), dtype=torch.int64).index_add_(0, which, up)
    keep = balance[which].sign() == up
    order = torch.arange(len(faces))
    first = torch.full((len(sets),), len(faces)).scatter_reduce(0, which[keep], order[keep], "amin")
    keep &= first[which] == order
    return without_degenerate(TriangleMesh(mesh.vertices, mesh.faces[keep]))


def _colours_at(positions: np.ndarray, vertices: np.ndarray, colours: torch.Tensor) -> torch.Tensor:
    """Colours [V, 3] at places, of the nearest vertices, weighted by the inverse of the squared distance."""
    from scipy.spatial import KDTree

    distance, near = KDTree(vertices).query(positions, k=min(NEIGHBOURS, len(vertices)))
    distance, near = distance.reshape(len(positions), -1), near.reshape(len(positions), -1)
    weight = 1 / np.maximum(distance**2, 1e-12 * max(float(np.ptp(vertices, axis=0).max()), 1e-30) ** 2)
    weight /= weight.sum(1, keepdims=True)
    mixed = (weight[..., None] * colours.double().cpu().numpy()[near]).sum(1)
    return torch.from_numpy(mixed).to(colours)
