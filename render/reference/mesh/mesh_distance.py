"""Distances of points to a triangle mesh in plain torch."""

from __future__ import annotations

import torch
from torch import Tensor


def nearest_of_triangles(points: Tensor, corners: Tensor) -> Tensor:
    """The nearest point of each triangle to each point.

    The foot of the perpendicular where it lies in the triangle, else the nearest point of the three sides.

    Args:
        points: [N, 3].
        corners: [F, 3, 3].

    Returns:
        [N, F, 3].
    """
    p = points[:, None]
    a, b, c = (corners[None, :, k] for k in range(3))
    best = torch.full((len(points), len(corners)), torch.inf, dtype=points.dtype, device=points.device)
    nearest = torch.zeros(len(points), len(corners), 3, dtype=points.dtype, device=points.device)
    candidates = []
    for start, end in ((a, b), (b, c), (c, a)):
        side = end - start
        whole = (side * side).sum(-1)
        part = ((p - start) * side).sum(-1) / torch.where(whole > 0, whole, 1)
        candidates.append(
            (start + part.clamp(0, 1)[..., None] * side, torch.ones_like(best, dtype=torch.bool))
        )
    normal = torch.linalg.cross(b - a, c - a)
    area = (normal * normal).sum(-1)
    unit = torch.where(area > 0, area, 1)
    foot = p - (((p - a) * normal).sum(-1) / unit)[..., None] * normal
    within = torch.ones_like(best, dtype=torch.bool) & (area > 0)
    for start, end in ((a, b), (b, c), (c, a)):
        within &= (torch.linalg.cross(end - start, foot - start) * normal).sum(-1) >= 0
    for point, allowed in [*candidates, (foot, within)]:
        distance = torch.where(allowed, (p - point).square().sum(-1), torch.inf)
        nearer = distance < best
        best = torch.where(nearer, distance, best)
        nearest = torch.where(nearer[..., None], point, nearest)
    return nearest


def solid_angles(points: Tensor, corners: Tensor) -> Tensor:
    """Solid angles of triangles viewed from points (van Oosterom and Strackee 1983), steradians, [N, F].

    Negative where the corners run anticlockwise as viewed from the point: those of a closed mesh sum to 4 pi inside.
    """
    a, b, c = (corners[None, :, k] - points[:, None] for k in range(3))
    la, lb, lc = a.norm(dim=-1), b.norm(dim=-1), c.norm(dim=-1)
    volume = (a * torch.linalg.cross(b, c)).sum(-1)
    base = la * lb * lc + (a * b).sum(-1) * lc + (b * c).sum(-1) * la + (c * a).sum(-1) * lb
    return 2 * torch.atan2(volume, base)


def mesh_distance_reference(
    points: Tensor, vertices: Tensor, faces: Tensor, signed: bool = True
) -> tuple[Tensor, Tensor]:
    """The exact distance of points to a triangle mesh, negative inside, and the nearest points; all pairs at once.

    Inside is where the solid angles of all triangles sum up to more than half the sphere (Jacobson et al. 2013,
    "Robust Inside-Outside Segmentation using Generalized Winding Numbers").

    Args:
        points: [N, 3].
        vertices: [V, 3], as points.
        faces: integers [F, 3], anticlockwise viewed from outside.
        signed: whether inside is negative.

    Returns:
        distance [N] and nearest [N, 3].
    """
    corners = vertices[faces.long()]
    nearest = nearest_of_triangles(points, corners)
    distance = (points[:, None] - nearest).norm(dim=-1)
    best = distance.argmin(1, keepdim=True)
    value = distance.gather(1, best)[:, 0]
    if signed:
        inside = solid_angles(points, corners).sum(1) > 2 * torch.pi
        value = torch.where(inside, -value, value)
    return value, nearest.gather(1, best[..., None].expand(-1, -1, 3))[:, 0]
