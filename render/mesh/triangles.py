"""Triangle meshes as tensors: area, volume, normals, whether they are closed, random points on them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class TriangleMesh(NamedTuple):
    """Triangles; viewed from outside their corners run anticlockwise.

    Args:
        vertices: [V, 3], float32 or float64.
        faces: numbers of the vertices of each triangle, int32 or int64 [F, 3].
    """

    vertices: Tensor
    faces: Tensor

    def to(self, target: torch.device | torch.dtype | str) -> TriangleMesh:
        """On another device, or with vertices of another float type."""
        moved = self.vertices.to(target)
        return TriangleMesh(moved, self.faces.to(moved.device))

    def corners(self) -> Tensor:
        """[F, 3, 3], corner by corner."""
        return self.vertices[self.faces.long()]

    def face_vectors(self) -> Tensor:
        """Outward normals as long as twice the triangle's area, [F, 3]."""
        a, b, c = self.corners().unbind(1)
        return torch.linalg.cross(b - a, c - a)

    def areas(self) -> Tensor:
        """The area of each triangle, [F]."""
        return 0.5 * self.face_vectors().norm(dim=-1)

    def volume(self) -> Tensor:
        """The volume that a closed mesh encloses, negative if its triangles face inward, [] float64."""
        a, b, c = (self.corners().double() - self.vertices.double().mean(0)).unbind(1)
        return (a * torch.linalg.cross(b, c)).sum() / 6

    def flipped(self) -> TriangleMesh:
        """The mesh with its triangles facing the other way."""
        return TriangleMesh(self.vertices, self.faces[:, [0, 2, 1]].contiguous())

    def vertex_normals(self) -> Tensor:
        """Outward, weighted by the area of the triangles around, [V, 3]; 0 where there are none."""
        sums = torch.zeros_like(self.vertices)
        vectors = self.face_vectors()
        for corner in range(3):
            sums.index_add_(0, self.faces[:, corner].long(), vectors)
        return torch.nn.functional.normalize(sums, dim=-1)

    def edges(self) -> tuple[Tensor, Tensor]:
        """Undirected edges [E, 2], lower vertex first, and the edge of each side ab, bc, ca of each face, [F, 3]."""
        faces = self.faces.long()
        sides = torch.stack([faces, faces.roll(-1, 1)], -1)
        low, high = sides.amin(-1), sides.amax(-1)
        count = max(len(self.vertices), 1)
        keys, which = (low * count + high).flatten().unique(return_inverse=True)
        return torch.stack([keys // count, keys % count], -1), which.view(-1, 3)

    def is_closed(self) -> bool:
        """Whether each edge has two triangles that run along it in opposite directions; waits for the device."""
        if not len(self.faces):
            return False
        edges, which = self.edges()
        first = self.faces.long()
        forward = torch.where(first < first.roll(-1, 1), 1, -1)
        turns = torch.zeros(len(edges), dtype=torch.int64, device=first.device)
        uses = torch.bincount(which.flatten(), minlength=len(edges))
        turns.index_add_(0, which.flatten(), forward.flatten())
        return bool(((uses == 2) & (turns == 0)).all())


def without_degenerate(mesh: TriangleMesh) -> TriangleMesh:
    """Without triangles that have a corner twice or that are not finite, and without vertices that nothing uses.

    Slivers of no area but three different corners stay: without them a closed mesh would be open.
    """
    faces = mesh.faces.long()
    good = (faces != faces.roll(-1, 1)).all(1) & mesh.vertices.isfinite().all(1)[faces].all(1)
    used, renamed = faces[good].unique(return_inverse=True)
    return TriangleMesh(mesh.vertices[used], renamed.view(-1, 3).to(mesh.faces.dtype))


def components(mesh: TriangleMesh) -> Tensor:
    """The lowest vertex that each vertex is connected with by edges, int64 [V]; waits for the device."""
    labels = torch.arange(len(mesh.vertices), device=mesh.vertices.device)
    faces = mesh.faces.long()
    while True:
        least = labels[faces].amin(1, keepdim=True).expand(-1, 3)
        lower = labels.scatter_reduce(0, faces.flatten(), least.flatten(), "amin")
        lower = torch.minimum(lower, labels.scatter_reduce(0, labels, lower, "amin"))
        lower = lower[lower]
        if torch.equal(lower, labels):
            return labels
        labels = lower


def merged(mesh: TriangleMesh) -> TriangleMesh:
    """The mesh with vertices at exactly the same place merged."""
    vertices, which = (mesh.vertices + 0.0).unique(dim=0, return_inverse=True)  # -0 and 0 are one place
    return TriangleMesh(vertices, which[mesh.faces.long()].to(mesh.faces.dtype))


def pseudonormals(mesh: TriangleMesh) -> Tensor:
    """Normals of each triangle's features: face, edges ab, bc, ca, corners a, b, c, [F, 7, 3] of length 1 or 0.

    That of an edge is the mean of its faces', that of a corner the sum of those around, each weighted by its angle
    there: Baerentzen and Aanaes 2005, "Signed Distance Computation Using the Angle Weighted Pseudonormal".
    """
    wide = mesh.to(torch.float64)
    corners, faces = wide.corners(), wide.faces.long()
    normals = torch.nn.functional.normalize(wide.face_vectors(), dim=-1)
    edges, which = wide.edges()
    of_edges = torch.zeros(len(edges), 3, dtype=torch.float64, device=normals.device)
    of_corners = torch.zeros_like(wide.vertices)
    for k in range(3):
        of_edges.index_add_(0, which[:, k], normals)
        left, right = (corners[:, (k + j) % 3] - corners[:, k] for j in (1, 2))
        angle = torch.atan2(torch.linalg.cross(left, right).norm(dim=-1), (left * right).sum(-1))
        of_corners.index_add_(0, faces[:, k], angle[:, None] * normals)
    parts = [normals[:, None], of_edges[which], of_corners[faces]]
    return torch.nn.functional.normalize(torch.cat(parts, 1), dim=-1).to(mesh.vertices.dtype)


class SurfaceSampler:
    """Random points on a mesh, uniform by area.

    Args:
        mesh: with some area.

    Raises:
        ValueError: it has none.
    """

    def __init__(self, mesh: TriangleMesh) -> None:
        self.corners = mesh.corners()
        sums = mesh.to(torch.float64).areas().cumsum(0)
        if not len(sums) or not sums[-1] > 0:
            raise ValueError(f"SurfaceSampler: mesh must have an area above 0, got {len(sums)} triangles")
        self.cumulative = (sums / sums[-1]).contiguous()

    def draw(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """[count, 3], of the mesh's type, on its device; nothing waits for the device.

        Args:
            count: of points.
            generator: on the mesh's device.
        """
        device = self.corners.device
        u = torch.rand(3, count, generator=generator, device=device, dtype=torch.float64)
        face = torch.searchsorted(self.cumulative, u[0]).clamp_(max=len(self.cumulative) - 1)
        root = u[1].sqrt()  # uniform over a triangle: Turk 1990, "Generating random points in triangles"
        weights = torch.stack([1 - root, root * (1 - u[2]), root * u[2]], -1).to(self.corners.dtype)
        return (weights[:, :, None] * self.corners[face]).sum(1)
