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
