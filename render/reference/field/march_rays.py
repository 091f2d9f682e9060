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
    places = int(steps.max().item()) + 1 if len(begin) else 0
    k = torch.arange(places, device=origins.device, dtype=origins.dtype)
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
