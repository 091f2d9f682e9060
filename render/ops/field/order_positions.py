"""Stage: positions along a space-filling curve (kernels of the same name)."""

from __future__ import annotations

import torch
from torch import Tensor

from luxel.render.native import library_for
from luxel.render.ops.registry import define, register_implementation, require

define("order_positions(Tensor x) -> (Tensor, Tensor)")


def order_positions(x: Tensor) -> tuple[Tensor, Tensor]:
    """Orders positions along a Hilbert curve, so that neighbours in the list are neighbours in space.

    Skilling 2004, "Programming the Hilbert curve". The unit box has 2^20 cells (2D: 1024 x 1024; 3D: pairs of those of
    128 x 128 x 128); positions of one cell retain order. On a GPU a radix sort of two passes; nothing waits for it.

    Args:
        x: clamped to [0, 1], [N, 2 or 3], float32 or (CPU only) float64, N below 2^30. Those with a NaN have the last
            cell.

    Returns:
        The order, int32 [N], and x[order]. Without gradients.

    Raises:
        ValueError: shape or type of x does not fit.
    """
    return torch.ops.luxel.order_positions(x.detach())


def _run(x: Tensor) -> tuple[Tensor, Tensor]:
    if x.dim() != 2 or x.shape[1] not in (2, 3):
        raise ValueError(f"order_positions: x must be [N, 2 or 3], got {list(x.shape)}")
    dtype = torch.float64 if x.dtype == torch.float64 and x.device.type == "cpu" else torch.float32
    require("order_positions", x.device, {"x": (x, dtype, tuple(x.shape))})
    if x.shape[0] >= 2**30:
        raise ValueError(f"order_positions: x must have below 2^30 rows, got {x.shape[0]}")
    order, ordered = outputs = _fake(x)
    library = library_for(x.device)
    arguments = {
        "x": x.contiguous(),
        "count": x.shape[0],
        "dimensions": x.shape[1],
        "order": order,
        "sorted": ordered,
    }
    needed = library.call("order_positions_workspace", x.device, x.dtype, **arguments)
    workspace = torch.empty(needed, dtype=torch.uint8, device=x.device)
    library.call(
        "order_positions", x.device, x.dtype, **arguments, workspace=workspace, workspace_bytes=needed
    )
    return outputs


def _fake(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape[0], dtype=torch.int32), x.new_empty(x.shape)


register_implementation("order_positions", _run, _fake)
