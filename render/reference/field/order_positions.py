"""Positions along a Hilbert curve, in plain torch."""

from __future__ import annotations

import torch
from torch import Tensor

KEY_BITS = 20


def hilbert_keys_reference(x: Tensor) -> Tensor:
    """Keys of positions along the Hilbert curve, int64 [N]; the largest key for positions with a NaN.

    Skilling 2004, "Programming the Hilbert curve": the coordinates of a cell to the transpose of its index.

    Args:
        x: positions, clamped to [0, 1], [N, D].
    """
    dimensions = x.shape[1]
    bits = -(-KEY_BITS // dimensions)
    broken = x.isnan().any(1)
    cells = (x.nan_to_num(0.0).clamp(0, 1) * 2**bits).long().clamp_max(2**bits - 1)
    at = list(cells.unbind(1))
    for bit in reversed(range(1, bits)):
        lower = 2**bit - 1
        for d in range(dimensions):
            is_set = (at[d] >> bit & 1).bool()
            exchanged = (at[0] ^ at[d]) & lower
            if d > 0:
                at[d] = torch.where(is_set, at[d], at[d] ^ exchanged)
            at[0] = torch.where(is_set, at[0] ^ lower, at[0] ^ exchanged if d > 0 else at[0])
    for d in range(1, dimensions):
        at[d] = at[d] ^ at[d - 1]
    flip = torch.zeros_like(at[0])
    for bit in range(1, bits):
        flip = torch.where((at[-1] >> bit & 1).bool(), flip ^ (2**bit - 1), flip)
    key = torch.zeros_like(flip)
    for bit in reversed(range(bits)):
        for d in range(dimensions):
            key = key << 1 | ((at[d] ^ flip) >> bit & 1)
    return torch.where(broken, 2**KEY_BITS - 1, key >> (dimensions * bits - KEY_BITS))


def order_positions_reference(x: Tensor) -> tuple[Tensor, Tensor]:
    """The order, int32 [N], and x[order], as `luxel.render.ops.field.order_positions.order_positions`."""
    order = hilbert_keys_reference(x).argsort(stable=True)
    return order.int(), x[order]
