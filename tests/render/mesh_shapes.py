"""Meshes for the tests: made with marching cubes from functions whose surface is known, or by hand."""

from __future__ import annotations

import torch
from torch import Tensor

from luxel.render.mesh.marching_cubes import field_surface
from luxel.render.mesh.triangles import TriangleMesh


def ball(x: Tensor) -> Tensor:
    """Distance to a sphere of radius 0.35 in the middle of the unit box."""
    return (x - 0.5).norm(dim=-1) - 0.35


def ring(x: Tensor) -> Tensor:
    """Distance to a torus of radii 0.3 and 0.1 in the middle of the unit box."""
    local = x - 0.5
    around = local[..., :2].norm(dim=-1) - 0.3
    return torch.stack([around, local[..., 2]], -1).norm(dim=-1) - 0.1


SHAPES = {"ball": ball, "ring": ring}


def shape_mesh(name: str, resolution: int = 24, dtype: torch.dtype = torch.float32) -> TriangleMesh:
    """One of the shapes as triangles."""
    return field_surface(SHAPES[name], resolution, dtype=dtype)


def wedge(dtype: torch.dtype = torch.float64) -> TriangleMesh:
    """A tetrahedron with a sharp edge, where the normal of a face alone would give wrong signs."""
    vertices = torch.tensor([[0, 0, 0], [1, 0, 0], [0.9, 0.05, 0.2], [0.9, 0.05, -0.2]], dtype=dtype)
    faces = torch.tensor([[0, 1, 2], [0, 3, 1], [0, 2, 3], [1, 3, 2]], dtype=torch.int32)
    mesh = TriangleMesh(vertices, faces)
    return mesh if mesh.volume() > 0 else mesh.flipped()


def icosphere(divisions: int, dtype: torch.dtype = torch.float32) -> TriangleMesh:
    """A closed sphere of radius 1 about the origin, of 20 * 4^divisions triangles."""
    g = (1 + 5**0.5) / 2
    places = [[-1, g, 0], [1, g, 0], [-1, -g, 0], [1, -g, 0]]
    vertices = torch.tensor(
        [[row[(k - r) % 3] for k in range(3)] for r in range(3) for row in places]
    ).double()
    apart = torch.cdist(vertices, vertices)
    near = (apart > 0) & (apart < 2.1)  # the edges have length 2
    faces = [
        [a, b, c]
        for a in range(12)
        for b in range(a)
        for c in range(b)
        if near[a, b] and near[b, c] and near[a, c]
    ]
    mesh = TriangleMesh(vertices, torch.tensor(faces))
    inward = (mesh.face_vectors() * mesh.corners().mean(1)).sum(1) < 0
    vertices = torch.nn.functional.normalize(vertices, dim=1)
    faces = torch.where(inward[:, None], mesh.faces[:, [0, 2, 1]], mesh.faces)
    for _ in range(divisions):
        edges, which = TriangleMesh(vertices, faces).edges()
        middles = torch.nn.functional.normalize(vertices[edges].sum(1), dim=1)
        (a, b, c), (ab, bc, ca) = faces.unbind(1), (which + len(vertices)).unbind(1)
        vertices = torch.cat([vertices, middles])
        parts = ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca))
        faces = torch.cat([torch.stack(part, 1) for part in parts])
    return TriangleMesh(vertices.to(dtype), faces.int())
