"""Stage: per tile, the list of splats that touch it, nearest first (kernels of the same name)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from luxel.render.native import Library, library_for
from luxel.render.ops.raster.policies import policy, policy_number
from luxel.render.ops.registry import aligned, define, register_implementation

TILE = 16  # pixels along a tile's side, see cuda/abi/raster.h

define(
    "bin_splats(Tensor splats, Tensor tile_counts, Tensor totals, int width, int height, "
    'SymInt visible_capacity, SymInt capacity, str primitive="gaussians") -> (Tensor, Tensor, Tensor, Tensor)'
)


def tile_grid(width: int, height: int) -> tuple[int, int]:
    """Columns and rows of tiles that cover an image."""
    return -(-width // TILE), -(-height // TILE)


def _plan(splats: Tensor, tiles: int, capacity: int, primitive: str) -> Tensor:
    return splats.new_empty(
        4 * tiles + 2 * (capacity // policy(primitive, "bin_splats").piece) + 1 if splats.is_cuda else 0,
        dtype=torch.int32,
    )


def _run(
    splats: Tensor,  # [C, N, R]
    tile_counts: Tensor,  # [C, N] int32
    totals: Tensor,  # [2] int64
    width: int,
    height: int,
    visible_capacity: int,
    capacity: int,
    primitive: str = "gaussians",
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    c, n = tile_counts.shape
    row = policy(primitive, "bin_splats").row
    if splats.shape != (c, n, row):
        raise ValueError(f"bin_splats: splats of {primitive} must be {[c, n, row]}, got {list(splats.shape)}")
    columns, rows = tile_grid(width, height)
    device = splats.device
    instances = torch.empty(capacity, dtype=torch.int32, device=device)
    if not (c and n and capacity and visible_capacity):
        ranges = torch.zeros(c * columns * rows, 2, dtype=torch.int32, device=device)
        plan = _plan(splats, ranges.shape[0], capacity, primitive).fill_(-1)
        if plan.numel():  # every list is empty
            plan[: ranges.shape[0]] = torch.arange(ranges.shape[0], device=device)
        return instances, ranges, (totals[1:] > capacity).int(), plan
    ranges = torch.empty(c * columns * rows, 2, dtype=torch.int32, device=device)
    overflow = torch.empty(1, dtype=torch.int32, device=device)
    plan = _plan(splats, ranges.shape[0], capacity, primitive)
    library = library_for(device)
    sizes = {
        "count": n,
        "cameras": c,
        "policy": policy_number(primitive, library, "bin_splats"),
        "width": width,
        "height": height,
        "visible_capacity": visible_capacity,
        "capacity": capacity,
    }
    needed = library.call("bin_splats_workspace", device, splats.dtype, **sizes)
    library.call(
        "bin_splats",
        device,
        splats.dtype,
        **sizes,
        splats=splats.contiguous(),
        tile_counts=tile_counts,
        totals=totals,
        instances=instances,
        ranges=ranges,
        overflow=overflow,
        plan=plan if plan.numel() else None,
        workspace=torch.empty(needed, dtype=torch.uint8, device=device),
        workspace_bytes=needed,
    )
    return instances, ranges, overflow, plan


def _fake(
    splats: Tensor,
    tile_counts: Tensor,
    totals: Tensor,
    width: int,
    height: int,
    visible_capacity: int,
    capacity: int,
    primitive: str = "gaussians",
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    columns, rows = tile_grid(width, height)
    return (
        splats.new_empty(capacity, dtype=torch.int32),
        splats.new_empty(tile_counts.shape[0] * columns * rows, 2, dtype=torch.int32),
        splats.new_empty(1, dtype=torch.int32),
        _plan(splats, tile_counts.shape[0] * columns * rows, capacity, primitive),
    )


register_implementation("bin_splats", _run, _fake)


def bin_splats(
    splats: Tensor,
    tile_counts: Tensor,
    totals: Tensor,
    *,
    width: int,
    height: int,
    visible_capacity: int,
    capacity: int,
    primitive: str = "gaussians",
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sorts splats by depth and lists them per 16x16 tile, by an exact test of their outline against the rectangle.

    Args:
        splats [C, N, R], tile_counts [C, N], totals [2]: from `project_gaussians` or the like.
        width, height: image size in pixels.
        visible_capacity: capacity for visible splats; totals[0] of them are.
        capacity: for tile instances; totals[1] of them are needed.
        primitive: name of a policy: "gaussians" (outlined by an ellipse), "convexes" (by a polygon), "surfels" (by two
            ellipses); all in `luxel.render.ops.raster.policies`.

    Returns:
        instances [capacity] int32 (indices c * N + n), ranges [C * T, 2] int32 (first and one past the last
        instance of a tile; tiles row by row, camera after camera), overflow [1] int32 (1: capacity was too small
        and lists were cut), plan int32 (in which order and in which pieces the GPU walks the lists; empty on the
        CPU). Nothing has a gradient.
    """
    return torch.ops.luxel.bin_splats(
        splats.detach(), tile_counts, totals, width, height, visible_capacity, capacity, primitive
    )


def binned_fields(
    library: Library,
    primitive: str,
    splats: Tensor,
    instances: Tensor,
    ranges: Tensor,
    plan: Tensor,
    width: int,
    height: int,
    max_alpha: float,
) -> dict[str, Any]:
    """The fields of ``luxel_binned_splats`` (cuda/abi/raster.h), for the stages that read the lists of `bin_splats`."""
    return {
        "splats": aligned(splats),
        "instances": instances,
        "ranges": ranges,
        "capacity": instances.shape[0],
        "plan": plan if plan.numel() else None,
        "count": splats.shape[1],
        "cameras": splats.shape[0],
        "policy": policy_number(primitive, library, "splats in tiles"),
        "width": width,
        "height": height,
        "max_alpha": max_alpha,
    }


__all__ = ["TILE", "bin_splats", "binned_fields", "tile_grid"]
