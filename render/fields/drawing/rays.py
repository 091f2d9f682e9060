"""Rays of a camera, their intersection with a box, and evaluation in chunks."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera


def camera_rays(camera: Camera) -> tuple[Tensor, Tensor]:
    """A ray through the centre of every pixel, row by row.

    Args:
        camera: one; see `luxel.render.geometry.camera` for the conventions.

    Returns:
        origins [H W, 3] and unit directions [H W, 3], world coordinates.

    Raises:
        ValueError: a batch of cameras.
    """
    if camera.batched:
        raise ValueError(f"camera must be a single one, got a batch of {camera.world_to_cam.shape[0]}")
    fx, fy, cx, cy = camera.intrinsics.unbind()
    like = {"device": camera.intrinsics.device, "dtype": camera.intrinsics.dtype}
    x = (torch.arange(camera.width, **like) + 0.5 - cx) / fx
    y = (torch.arange(camera.height, **like) + 0.5 - cy) / fy
    rows, columns = torch.meshgrid(y, x, indexing="ij")
    local = torch.stack([columns, rows, torch.ones_like(rows)], -1).reshape(-1, 3)
    directions = torch.nn.functional.normalize(local @ camera.world_to_cam[:3, :3], dim=-1)
    return camera.position.expand_as(directions), directions


def clip_to_box(origins: Tensor, directions: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """Where rays enter and leave a box (Kay and Kajiya 1986, the slab method).

    Args:
        origins, directions: [R, 3].
        low, high: corners of the box, [3].

    Returns:
        distances along the directions, [R] each, the first at least 0; the second is not above the first where a ray
        misses the box.
    """
    inverse = 1 / directions
    one, other = (low - origins) * inverse, (high - origins) * inverse
    near, far = torch.minimum(one, other), torch.maximum(one, other)
    # 0 * inf: a ray within the plane of a side counts as inside of that slab
    near, far = near.nan_to_num(nan=-torch.inf), far.nan_to_num(nan=torch.inf)
    return near.amax(-1).clamp_min(0), far.amin(-1)


def in_chunks(function: Callable[[Tensor], Tensor], rows: Tensor, size: int) -> Tensor:
    """A function of rows [N, ...], called with at most ``size`` of them at a time."""
    if len(rows) <= size:
        return function(rows)
    return torch.cat([function(part) for part in rows.split(size)])
