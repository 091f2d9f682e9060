"""The first triangles that rays meet, by all pairs at once: the reference of the stage trace_rays."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def trace_rays_reference(
    rays: Tensor, vertices: Tensor, faces: Tensor, near: float = 0.0, far: float = math.inf
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The first triangle that each ray meets, from either side (Moeller and Trumbore 1997).

    With edges p = b - a, q = c - a and s = origin - a, the solution of origin + t d = a + v p + w q by Cramer's rule is
    v = s . (d x q) / D, w = d . (s x p) / D, t = q . (s x p) / D with D = p . (d x q).

    Args:
        rays: origin and direction d, [N, 6].
        vertices: [V, 3], as rays.
        faces: integers [F, 3].
        near, far: first and last t.

    Returns:
        Number of the triangle int64 [N], -1 where there is none; v and w [N, 2]; t [N], infinite where there is none;
        whether the corners run anticlockwise viewed from the origin, bool [N].
    """
    origin, direction = rays[:, None, :3], rays[:, None, 3:]
    a, b, c = (vertices[faces.long()[:, k]][None] for k in range(3))
    p, q, s = b - a, c - a, origin - a
    across = torch.linalg.cross(direction.expand(-1, q.shape[1], -1), q.expand(len(rays), -1, -1))
    full = (p * across).sum(-1)
    over = torch.linalg.cross(s, p.expand(len(rays), -1, -1))
    v, w = (s * across).sum(-1) / full, (direction * over).sum(-1) / full
    t = (q * over).sum(-1) / full
    met = (full != 0) & (v >= 0) & (w >= 0) & (v + w <= 1) & (t >= near) & (t < far)
    first, face = torch.where(met, t, torch.inf).min(1)
    pick = lambda values: values.gather(1, face[:, None])[:, 0]  # noqa: E731
    face_or_none = torch.where(first.isfinite(), face, -1)
    return face_or_none, torch.stack([pick(v), pick(w)], -1), first, pick(full) > 0
