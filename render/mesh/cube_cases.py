"""The triangles of marching cubes for each of the 256 cases, derived from one rule for the faces of a cell."""

from __future__ import annotations

import functools
import itertools

import torch
from torch import Tensor

CORNERS: list[tuple[int, ...]] = list(
    itertools.product((0, 1), repeat=3)
)  # x, y, z; a case has bit i where corner i is inside
# Axis, and the lower and upper corner, of each of the 12 edges.
EDGES = [
    (axis, low, CORNERS.index(tuple(c + (k == axis) for k, c in enumerate(corner))))
    for axis in range(3)
    for low, corner in enumerate(CORNERS)
    if corner[axis] == 0
]
_EDGE_OF = {frozenset(edge[1:]): number for number, edge in enumerate(EDGES)}


def _faces() -> list[list[int]]:
    """The corners of each of the 6 faces, anticlockwise viewed from outside the cell."""
    faces = []
    for axis, end in itertools.product(range(3), (0, 1)):
        u, v = (axis + 1) % 3, (axis + 2) % 3
        ring = [(0, 0), (1, 0), (1, 1), (0, 1)]
        corners = []
        for a, b in ring if end else ring[::-1]:
            corner = [0, 0, 0]
            corner[axis], corner[u], corner[v] = end, a, b
            corners.append(CORNERS.index((corner[0], corner[1], corner[2])))
        faces.append(corners)
    return faces


FACES = _faces()
_FACES_OF_EDGE = [
    {f for f, face in enumerate(FACES) if low in face and high in face} for _, low, high in EDGES
]


def _next_edges(inside: list[bool]) -> dict[int, int]:
    """From each edge that the surface crosses to the next around its polygon, inside on the right viewed from outside.

    Walking around a face anticlockwise, the surface enters the inside at an edge and leaves it at a later one: each
    run of corners inside is cut off by a segment of its own, so corners that touch only along a diagonal stay apart.
    """
    follows = {}
    for face in FACES:
        entering = []
        for k in range(4):
            before, after = face[k], face[(k + 1) % 4]
            if not inside[before] and inside[after]:
                entering.append(k)
        for k in entering:
            leave = next(
                (k + j) % 4
                for j in range(1, 4)
                if inside[face[(k + j) % 4]] and not inside[face[(k + j + 1) % 4]]
            )
            start = _EDGE_OF[frozenset((face[leave], face[(leave + 1) % 4]))]
            end = _EDGE_OF[frozenset((face[k], face[(k + 1) % 4]))]
            follows[end] = start
    return follows


def _triangulations(polygon: tuple[int, ...]) -> list[list[tuple[int, int, int]]]:
    """Every way to divide a polygon into triangles of its corners."""
    if len(polygon) < 3:
        return [[]]
    triangulations = []
    for k in range(1, len(polygon) - 1):
        middle = (polygon[0], polygon[k], polygon[-1])
        for left in _triangulations(polygon[: k + 1]):
            triangulations += [[*left, middle, *right] for right in _triangulations(polygon[k:])]
    return triangulations


@functools.cache
def _triangulated(polygon: tuple[int, ...]) -> list[tuple[int, int, int]]:
    """The triangles of a polygon of edges, none of whose diagonals lies in a face of the cell.

    In a face it could meet that of the cell beyond, and the surface would touch itself along it.
    """
    sides = {frozenset(pair) for pair in zip(polygon, polygon[1:] + polygon[:1], strict=True)}
    for triangles in _triangulations(polygon):
        diagonals = {frozenset((t[i], t[(i + 1) % 3])) for t in triangles for i in range(3)} - sides
        if not any(set.intersection(*(_FACES_OF_EDGE[edge] for edge in d)) for d in diagonals):
            return triangles
    raise AssertionError(f"no triangulation of {polygon}")


@functools.cache
def cube_cases() -> tuple[Tensor, Tensor]:
    """Triangles of edges of the cell, all cases one after another, [T, 3], and where each case starts, [257]."""
    triangles, starts = [], [0]
    for case in range(256):
        follows = _next_edges([bool(case >> bit & 1) for bit in range(8)])
        while follows:
            first, edge = follows.popitem()
            polygon = [first]
            while edge != first:
                polygon.append(edge)
                edge = follows.pop(edge)
            triangles += _triangulated(tuple(polygon))
        starts.append(len(triangles))
    return torch.tensor(triangles).view(-1, 3), torch.tensor(starts)
