"""Stage: votes of label maps on splats, in place in a table of sums (kernels of the same name)."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from luxel.render.native import library_for
from luxel.render.ops.raster.bin_splats import binned_fields
from luxel.render.ops.raster.policies import policy
from luxel.render.ops.registry import define, register_implementation, require

MAX_LABELS = 255  # 0 to 254
NO_LABEL = 255  # of a pixel: no vote; of a primitive: undecided
SLOTS = 8  # labels of a primitive in a sparse table, see cuda/abi/raster.h
MAX_DENSE = 32  # labels of a dense table
_COARSE, _FINE_HIGH, _FINE = 2.0**-24, 2.0**-20, 2.0**-52  # units of the sums

define(
    "label_votes_(Tensor(a!) votes, Tensor(b!)? keys, Tensor(c!)? rows, Tensor(d!)? pool, Tensor(e!)? pool_used, "
    "Tensor splats, Tensor instances, Tensor ranges, Tensor plan, Tensor maps, int labels, int width, int height, "
    "float max_alpha, bool centre_rule, str primitive) -> ()"
)


class VoteTable(NamedTuple):
    """Fixed-point sums of the votes for L labels on N primitives; see `vote_table`.

    Args:
        votes: int64 [N, L + 1], or [N, 9] of a sparse table; fine ones have a last dimension of 2.
        keys: int64 [N] of a sparse table: the labels of eight slots, a byte each.
        rows, pool, pool_used: int32 [N], int64 [M, 255], int32 [1] of a sparse table: rows for primitives with
            more than eight labels.
    """

    votes: Tensor
    keys: Tensor | None
    rows: Tensor | None
    pool: Tensor | None
    pool_used: Tensor | None

    @property
    def fine(self) -> bool:
        """Whether sums have 52 bits after the point, in two numbers, instead of 24."""
        return self.votes.dim() == 3


def vote_table(count: int, labels: int, device: torch.device | str, fine: bool = False) -> VoteTable:
    """A table of zeros.

    Up to 32 labels it has a column for each. Beyond, eight slots per primitive, which the first eight of its labels
    take; the ninth and further ones go to a row of a pool with all labels, of which there are N / 32 + 1024. Where
    those are used up, such votes count as observed only.

    Args:
        count: N.
        labels: L, 1 to 255.
        device: of the splats.
        fine: for comparisons in float64, on the CPU only.
    """
    parts = (2,) if fine else ()

    def zeros(rows: int, columns: int) -> Tensor:
        return torch.zeros(rows, columns, *parts, dtype=torch.int64, device=device)

    if labels <= MAX_DENSE:
        return VoteTable(zeros(count, labels + 1), None, None, None, None)
    return VoteTable(
        zeros(count, SLOTS + 1),
        torch.full((count,), -1, dtype=torch.int64, device=device),
        torch.full((count,), -1, dtype=torch.int32, device=device),
        zeros(min(count, count // 32 + 1024), MAX_LABELS),
        torch.zeros(1, dtype=torch.int32, device=device),
    )


def to_weights(sums: Tensor, fine: bool, dtype: torch.dtype) -> Tensor:
    """Fixed-point sums as numbers of pixels: of [..., 2] if fine, else of [...]."""
    if not fine:
        return sums.to(dtype) * _COARSE
    high, low = sums.double().unbind(-1)
    return (high * _FINE_HIGH + low * _FINE).to(dtype)


def slot_labels(keys: Tensor) -> Tensor:
    """The labels of the eight slots, uint8 [N, 8]; NO_LABEL: free."""
    return keys.view(torch.uint8).reshape(keys.shape[0], SLOTS)


def _run(
    votes: Tensor,
    keys: Tensor | None,
    rows: Tensor | None,
    pool: Tensor | None,
    pool_used: Tensor | None,
    splats: Tensor,  # [C, N, R]
    instances: Tensor,  # [capacity] int32
    ranges: Tensor,  # [C * T, 2] int32
    plan: Tensor,
    maps: Tensor,  # [C, H, W] uint8
    labels: int,
    width: int,
    height: int,
    max_alpha: float,
    centre_rule: bool,
    primitive: str,
) -> None:
    c, n = splats.shape[:2]
    fine, device = votes.dim() == 3, splats.device
    row = policy(primitive, "label_votes").row
    most = MAX_DENSE if keys is None else MAX_LABELS
    if not 1 <= labels <= most:
        raise ValueError(f"label_votes: labels must be 1 to {most} in such a table, got {labels}")
    if fine and device.type != "cpu":
        raise ValueError(
            f"label_votes: votes must be [N, columns] on {device}: fine tables are for the CPU only"
        )
    parts, columns = (2,) if fine else (), labels + 1 if keys is None else SLOTS + 1
    require(
        "label_votes",
        device,
        {
            "splats": (splats, splats.dtype, (c, n, row)),
            "maps": (maps, torch.uint8, (c, height, width)),
            "votes": (votes, torch.int64, (n, columns, *parts)),
            "keys": (keys, torch.int64, (n,)),
        },
    )
    if not votes.is_contiguous():
        raise ValueError("label_votes: votes must be contiguous")
    if not (splats.numel() and instances.numel() and maps.numel()):
        return
    library = library_for(device)
    library.call(
        "label_votes",
        device,
        splats.dtype,
        **binned_fields(library, primitive, splats, instances, ranges, plan, width, height, max_alpha),
        maps=maps.contiguous(),
        labels=labels,
        centre_rule=int(centre_rule),
        fine=int(fine),
        votes=votes,
        keys=keys,
        rows=rows,
        pool=pool,
        pool_rows=0 if pool is None else pool.shape[0],
        pool_used=pool_used,
    )


def _fake(*_: Any) -> None:
    return None


register_implementation("label_votes_", _run, _fake)


def label_votes_(
    table: VoteTable,
    splats: Tensor,
    instances: Tensor,
    ranges: Tensor,
    plan: Tensor,
    maps: Tensor,
    *,
    labels: int,
    width: int,
    height: int,
    max_alpha: float,
    centre_rule: bool = False,
    primitive: str = "gaussians",
) -> None:
    """Adds the votes of label maps to a table, in place: sums of T alpha over the pixels of each label.

    T and alpha are those of `blend_splats`; so the sums are the gradient of blended features by the features (of a
    one-hot image). Their argmax is the optimum of FlashSplat's programme (Shen et al. 2024, "FlashSplat", equation 6).
    Sums are fixed point: two runs give the same bits on every device. Nothing has a gradient.

    Args:
        table: of N primitives and ``labels`` labels, see `vote_table`.
        splats: [C, N, R]. instances, ranges, plan: from `bin_splats`.
        maps: uint8 [C, H, W]; labels and above: no vote, but observed.
        labels: L.
        width, height: image size in pixels.
        max_alpha: cap on the alpha of one splat at a pixel.
        centre_rule: count votes as SAGOnline does (Sun et al. 2025) instead of summing T alpha: one of each pixel
            within 2 px of the splat's centre while T is above 0.01, in the tiles that the splat reaches.
        primitive: as in `bin_splats`.

    Raises:
        ValueError: shapes, types or devices do not fit, more labels than the capacity of the table, or a fine table
            on a GPU.
    """
    torch.ops.luxel.label_votes_(
        *table,
        splats.detach(),
        instances,
        ranges,
        plan,
        maps,
        labels,
        width,
        height,
        max_alpha,
        centre_rule,
        primitive,
    )
