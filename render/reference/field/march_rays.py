"""Samples along rays through the occupied cells of a box, in plain torch: one operation after another."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def pixel_rays_reference(
    pixels: Tensor, views: Tensor, world_to_cam: Tensor, intrinsics: Tensor
) -> tuple[Tensor, Tensor]:
    """Origins and unit directions of the rays through the centres of pixels, [R, 3] each.

    Args:
        pixels: numbers of pixels over the images of all views, integers [R], none negative.
        views: number of the first pixel and width of each, integers [V, 2].
        world_to_cam, intrinsics: of the views, [V, 4, 4], [V, 4].
    """
    view = torch.searchsorted(views[:, 0].contiguous(), pixels, right=True) - 1
    first, width = views[view].unbind(-1)
    column, row = (pixels - first) % width, (pixels - first) // width
    fx, fy, cx, cy = intrinsics[view].unbind(-1)
    local = torch.stack([(column + 0.5 - cx) / fx, (row + 0.5 - cy) / fy, torch.ones_like(fx)], -1)
    rotation = world_to_cam[view, :3, :3].mT
    directions = (rotation @ local[:, :, None])[..., 0]
    origins = -(rotation @ world_to_cam[view, :3, 3:])[..., 0]
    return origins, directions / directions.norm(dim=-1, keepdim=True)


def march_rays_reference(
    origins: Tensor,
    directions: Tensor,
    box: Sequence[float],
    step: float,
    occupied: Tensor | None,
    *,
    near: float = 0.0,
    far: float = float("inf"),
    jitter: Tensor | float = 0.5,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Every place begin + (k + jitter) step of each ray that is in the box, before far and in an occupied cell.

    Args:
        origins, directions: rays, the directions of unit length, [R, 3]; none where they are not finite.
        box: low x, y, z, high x, y, z.
        step: between places.
        occupied: bool [G, G, G], indexed [z, y, x]; None: all.
        near, far: along the ray.
        jitter: of each ray, [R], or of all.

    Returns:
        Rays of the samples, in order, [S]; positions in the box as [0, 1]^3, [S, 3]; t, [S]; and how near each place of
        any ray (in or not, K of each) is to a face of its cell or to an end of its ray, in cells and steps, [R, K].
    """
    low, high = (origins.new_tensor(part) for part in (box[:3], box[3:]))
    origin, direction = (origins - low) / (high - low), directions / (high - low)
    held = torch.where(direction < 0, direction.clamp_max(-1e-9), direction.clamp_min(1e-9))
    ends = torch.stack([-origin / held, (1 - origin) / held])
    begin = ends.amin(0).amax(-1).clamp_min(near)
    end = ends.amax(0).amin(-1).clamp_max(far)
    end = torch.where((origins + directions).isfinite().all(-1), end, -torch.inf)
    steps = ((end - begin) / step).ceil().nan_to_num(0.0).clamp_min(0)
    positions = int(steps.max().item()) + 1 if len(begin) else 0
    k = torch.arange(positions, device=origins.device, dtype=origins.dtype)
    k = k + (jitter[:, None] if isinstance(jitter, Tensor) else jitter)
    t = begin[:, None] + k * step
    points = origin[:, None] + t[..., None] * direction[:, None]
    inside = t < end[:, None]
    margin = (t - end[:, None]).abs() / step
    if occupied is not None:
        resolution = occupied.shape[0]
        cells = (points * resolution).long().clamp(0, resolution - 1)
        inside &= occupied[cells[..., 2], cells[..., 1], cells[..., 0]]
        scaled = points * resolution
        margin = torch.minimum(margin, (scaled - scaled.round()).abs().amin(-1))
    rows = inside.nonzero()[:, 0]
    return rows, points[inside].clamp(0, 1), t[inside], margin


def contracted_reference(p: Tensor) -> Tensor:
    """Positions relative to a box, [S, 3], contracted to [0, 1]: Barron et al. 2022, "Mip-NeRF 360", equation
    10, with the largest coordinate instead of the norm."""
    x = 2 * p - 1
    reach = x.abs().amax(-1, keepdim=True)
    c = torch.where(reach <= 1, x, (2 - 1 / reach) * x / reach)
    return (2 + c) / 4


def march_cascades_reference(
    origins: Tensor,
    directions: Tensor,
    box: Sequence[float],
    step: float,
    occupied: Tensor,
    *,
    growth: float,
    near: float = 0.0,
    jitter: float = 0.5,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Every place of each ray in the outermost of K boxes whose cell is occupied; steps are max(step, growth t) long.

    Args:
        origins, directions: rays, the directions of unit length, [R, 3].
        box: low x, y, z, high x, y, z of the innermost box; each other is twice as large around the same centre.
        step: least length of a step.
        occupied: bool [K, G, G, G], indexed [cascade, z, y, x].
        growth: of steps with the distance, 0 or more.
        near: along the ray.
        jitter: of all rays.

    Returns:
        Rays of the samples, in order, [S]; positions relative to the innermost box, [S, 3]; t, [S]; lengths
        of the steps, [S]; and how near each place is to a face of a cell or to the end of its ray, [R, K].
    """
    cascades, resolution = occupied.shape[:2]
    low, high = (origins.new_tensor(part) for part in (box[:3], box[3:]))
    origin, direction = (origins - low) / (high - low), directions / (high - low)
    held = torch.where(direction < 0, direction.clamp_max(-1e-9), direction.clamp_min(1e-9))
    half = 2 ** (cascades - 1) / 2
    ends = torch.stack([(0.5 - half - origin) / held, (0.5 + half - origin) / held])
    begin, end = ends.amin(0).amax(-1).clamp_min(near), ends.amax(0).amin(-1)
    end = torch.where(end > begin, end, -torch.inf)

    def arc(t: Tensor) -> Tensor:
        if growth == 0:
            return t / step
        return torch.where(
            t * growth <= step, t / step, (1 + (t * growth / step).clamp_min(1).log()) / growth
        )

    most = (arc(end.clamp_min(1e-9)) - arc(begin)).nan_to_num(0).amax().clamp_min(0)
    u = arc(begin)[:, None] + torch.arange(int(most.item()) + 2, dtype=origins.dtype) + jitter
    t = u * step
    if growth > 0:
        t = torch.where(u * growth <= 1, t, step / growth * (u * growth - 1).exp())
    points = origin[:, None] + t[..., None] * direction[:, None]
    reach = 2 * (points - 0.5).abs().amax(-1)
    cascade = reach.clamp_min(1e-30).log2().ceil().clamp(0, cascades - 1)
    local = (points - 0.5) / 2 ** cascade[..., None] + 0.5
    cells = (local * resolution).floor().long().clamp(0, resolution - 1)
    inside = (t < end[:, None]) & occupied[cascade.long(), cells[..., 2], cells[..., 1], cells[..., 0]]
    scaled = local * resolution
    margin = torch.minimum((t - end[:, None]).abs() / step, (scaled - scaled.round()).abs().amin(-1))
    rows = inside.nonzero()[:, 0]
    lengths = torch.maximum(t * growth, torch.full_like(t, step))
    return rows, points[inside], t[inside], lengths[inside], margin
