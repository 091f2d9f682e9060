"""Stage: the nearest neighbours of points (kernels of the same name)."""

from __future__ import annotations

import torch
from torch import Tensor

from luxel.render.native import library_for
from luxel.render.ops.registry import define, register_implementation, require
from luxel.render.ops.train.neighbour_count import MOST

define("neighbours(Tensor points, Tensor? mask, int k) -> Tensor")


def neighbours(points: Tensor, k: int, mask: Tensor | None = None) -> Tensor:
    """The k nearest others of each of N points, exactly; nothing waits for the device.

    Distances are Euclidean in the coordinates as they are: scale an axis such as time beforehand.

    Args:
        points: [N, 3] or [N, 4], float32 or (CPU only) float64.
        k: 1 to 16.
        mask: bool [N], points that count; None: all that are finite. The others are no point's neighbours.

    Returns:
        int32 [N, k], nearest first, of equally near ones the lower index; a point is not its own neighbour. Where
        there are fewer than k others, and in rows of points that do not count, the rest is the row's own index.
        No gradient.

    Raises:
        ValueError: shapes, types or devices do not fit.
    """
    return torch.ops.luxel.neighbours(points.detach(), mask, k)


def _run(points: Tensor, mask: Tensor | None, k: int) -> Tensor:
    if points.dim() != 2 or points.shape[1] not in (3, 4):
        raise ValueError(f"neighbours: points must be [N, 3] or [N, 4], got {list(points.shape)}")
    if points.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"neighbours: points must be float32 or float64, got {points.dtype}")
    if not 1 <= k <= MOST:
        raise ValueError(f"neighbours: k must be 1 to {MOST}, got {k}")
    require("neighbours", points.device, {"mask": (mask, torch.bool, (points.shape[0],))})
    out = _fake(points, mask, k)
    if not out.numel():
        return out
    library, device, dtype = library_for(points.device), points.device, points.dtype
    sizes = {"count": points.shape[0], "dimensions": points.shape[1], "k": k}
    needed = library.call("neighbours_workspace", device, dtype, **sizes)
    library.call(
        "neighbours",
        device,
        dtype,
        points=points.contiguous(),
        mask=None if mask is None else mask.contiguous(),
        **sizes,
        neighbours=out,
        workspace=torch.empty(needed, dtype=torch.uint8, device=device),
        workspace_bytes=needed,
    )
    return out


def _fake(points: Tensor, mask: Tensor | None, k: int) -> Tensor:
    return points.new_empty(points.shape[0], k, dtype=torch.int32)


register_implementation("neighbours", _run, _fake)
