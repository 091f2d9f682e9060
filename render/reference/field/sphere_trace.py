"""Rays to the surface of a distance field in plain torch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def camera_rays_reference(cam_to_unit: Tensor, intrinsics: Tensor, width: int, height: int) -> Tensor:
    """Origins and unit directions of the rays through the centres of a camera's pixels, row by row, [H W, 6].

    Args:
        cam_to_unit: camera axes to those of the result, a scaled rotation and a translation, [3, 4].
        intrinsics: fx, fy, cx, cy in pixels, [4].
        width, height: in pixels.
    """
    fx, fy, cx, cy = intrinsics.unbind()
    across = (torch.arange(width, dtype=cam_to_unit.dtype, device=cam_to_unit.device) + 0.5 - cx) / fx
    down = (torch.arange(height, dtype=cam_to_unit.dtype, device=cam_to_unit.device) + 0.5 - cy) / fy
    v, u = torch.meshgrid(down, across, indexing="ij")
    rays = torch.stack([u, v, torch.ones_like(u)], -1).view(-1, 3) @ cam_to_unit[:, :3].T
    directions = torch.nn.functional.normalize(rays, dim=-1)
    return torch.cat([cam_to_unit[:, 3].expand_as(directions), directions], -1)


def clip_to_box_reference(rays: Tensor) -> tuple[Tensor, Tensor]:
    """Where rays [M, 6] enter the unit box, 0 at the least, and leave it, [M] each; they meet it if enter <= leave."""
    origin, direction = rays[:, :3], rays[:, 3:]
    ends = torch.stack([-origin / direction, (1 - origin) / direction])
    still = direction == 0
    within = (origin >= 0) & (origin <= 1)
    low = torch.where(still, -torch.inf, ends.amin(0)).amax(-1).clamp(min=0)
    high = torch.where(still, torch.where(within, torch.inf, -1.0), ends.amax(0)).amin(-1)
    return low, high


def sphere_trace_reference(
    rays: Tensor,
    distance: Callable[[Tensor], Tensor],
    tolerance: float = 2e-4,
    widening: float = 0.0,
    steps: int = 32,
) -> tuple[Tensor, Tensor]:
    """Rays to where a distance becomes 0 (Hart 1996, "Sphere Tracing"); all of them are evaluated at each step.

    Args:
        rays: origins and unit directions in the unit box, [M, 6].
        distance: gives the distance at positions, [M, 3] to [M].
        tolerance: a distance below this, plus ``widening`` times ray_t, is a hit.
        steps: of each ray.

    Returns:
        whether each ray hit, bool [M], and the distance along the ray to where it ended, [M].
    """
    ray_t, leave = clip_to_box_reference(rays)
    alive = ray_t <= leave
    hit = torch.zeros_like(alive)
    for _ in range(steps):
        distances = distance(rays[:, :3] + ray_t[:, None] * rays[:, 3:])
        near = alive & (distances < tolerance + widening * ray_t)
        hit |= near
        ray_t = torch.where(alive, ray_t + distances, ray_t)
        alive = alive & ~near & (ray_t < leave)
    return hit, ray_t
