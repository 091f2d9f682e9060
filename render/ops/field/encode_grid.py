"""Stage: the grid encoding of positions and its first and second gradients (kernels of the same name)."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from luxel.render.native import library_for
from luxel.render.ops.field.grid_layout import Hashed, level_points
from luxel.render.ops.registry import aligned, define, register_implementation, require

MAX_LEVELS = 32
FEATURES = (1, 2, 4, 8)  # per level
# How points of a level share entries where it has more points than entries: wrap around, hash points, hash blocks.
HASHED: dict[Hashed, int] = {False: 0, True: 1, "blocks": 2}
HASHED_NAMES = tuple(HASHED)

_GRID = "Tensor x, Tensor table, Tensor? half_table, int[] offsets, float[] scales, int hashed"
define(f"encode_grid({_GRID}) -> Tensor")
define(f"encode_grid_bwd(Tensor g_out, {_GRID}, bool by_x, bool by_table) -> (Tensor, Tensor)")
define(
    f"encode_grid_bwd_bwd(Tensor gg_x, Tensor g_out, {_GRID}, bool by_g_out, bool by_x, bool by_table)"
    " -> (Tensor, Tensor, Tensor)"
)


def encode_grid(
    x: Tensor,
    table: Tensor,
    offsets: Sequence[int],
    scales: Sequence[float],
    hashed: Hashed = True,
    half_table: Tensor | None = None,
) -> Tensor:
    """Features of positions by interpolation in grids of several resolutions; nothing waits for the device.

    Müller et al. 2022, "Instant Neural Graphics Primitives with a Multiresolution Hash Encoding", section 3. See
    `luxel.render.reference.field.encode_grid.encode_grid_reference`. On the CPU gradients are the same to
    the bit whatever the number of threads; on the GPU the table's is added up in any order.

    Differentiable by x and the table, and so are these gradients once more: by the incoming gradient, the table and x.
    Within a cell the features are linear along each axis, so the second derivative by one coordinate is 0, and only the
    mixed ones are not; jumps of the first derivative between cells count for nothing. There is no third derivative.

    Args:
        x: positions, [N, D] with D from 1 to 4, float32 or (CPU only) float64. Clamped to [0, 1]: beyond it the
            features are those of the edge, without a gradient by that coordinate. Where a coordinate is NaN the
            features are 0, and nothing has a gradient.
        table: [E, F] with F of 1, 2, 4, 8, as x; the entries of all levels, one level after the other.
        offsets: of each level's first entry, and E, [L + 1], L up to 32.
        scales: of each level, above 0, [L], rounded to float32 in every float type. A level has ceil(scale) + 1 points
            along an axis.
        hashed: whether levels of more points than entries are hashed; otherwise they wrap around. Their number of
            entries must be a power of two. "blocks": hashed, and in all levels blocks of 8 neighbouring points are
            neighbours in the table, so that a cell's corners lie in fewer sectors of memory: of levels that begin at
            multiples of 8, and best of 2 features. See `luxel.render.ops.field.grid_layout.grid_index`.
        half_table: read instead of the table, which has the gradient in float32 all the same;
            float16 [E, F], CUDA only.

    Returns:
        Features, coarsest level first, [N, L * F].

    Raises:
        ValueError: shapes, types or devices do not fit, or levels do not fit.
    """
    return torch.ops.luxel.encode_grid(x, table, half_table, list(offsets), list(scales), hashed_code(hashed))


def hashed_code(hashed: Hashed) -> int:
    """``hashed`` as the operations take it.

    Raises:
        ValueError: ``hashed`` is none of False, True and "blocks".
    """
    if hashed not in HASHED:
        raise ValueError(f"encode_grid: hashed must be one of {tuple(HASHED)}, got {hashed!r}")
    return HASHED[hashed]


@functools.lru_cache
def _levels(
    offsets: tuple[int, ...], scales: tuple[float, ...], dimensions: int, hashed: int
) -> tuple[Tensor, Tensor]:
    """Checked offsets and rounded scales in host memory; cached, because every step needs them."""
    count = len(scales)
    if not 1 <= count <= MAX_LEVELS or len(offsets) != count + 1 or offsets[0] != 0:
        raise ValueError(
            f"encode_grid: offsets must be {count} (1 to {MAX_LEVELS}) and one, from 0, got {list(offsets)}"
        )
    rounded = torch.tensor(scales, dtype=torch.float32, device="cpu").double()
    for level, scale in enumerate(rounded.tolist()):
        size = offsets[level + 1] - offsets[level]
        if not 0 < scale < 2**22 or not 0 < size <= 2**31:
            raise ValueError(f"encode_grid: level {level} has scale {scale} and {size} entries")
        points = level_points(math.ceil(scale) + 1, dimensions, HASHED_NAMES[hashed])
        if points > size and size & (size - 1):
            raise ValueError(
                f"encode_grid: level {level} has {size} entries for {points} points; fewer must be a power of two"
            )
    return torch.tensor(offsets, dtype=torch.int64, device="cpu"), rounded


def check_grid(
    x: Tensor,
    table: Tensor,
    half_table: Tensor | None,
    offsets: Sequence[int],
    scales: Sequence[float],
    hashed: int,
) -> dict[str, Any]:
    """The fields of the argument struct that all three share."""
    stage, dtype = "encode_grid", x.dtype
    if x.dim() != 2 or not 1 <= x.shape[1] <= 4 or dtype not in (torch.float32, torch.float64):
        raise ValueError(f"{stage}: x must be [N, 1 to 4], float32 or float64, got {list(x.shape)} {dtype}")
    if table.dim() != 2 or table.shape[1] not in FEATURES:
        raise ValueError(f"{stage}: table must be [E, 1, 2, 4 or 8], got {list(table.shape)}")
    dimensions = x.shape[1]
    firsts, rounded = _levels(tuple(offsets), tuple(scales), dimensions, hashed)
    if offsets[-1] != table.shape[0]:
        raise ValueError(
            f"{stage}: offsets must end at the {table.shape[0]} entries of table, got {offsets[-1]}"
        )
    if half_table is not None and x.device.type != "cuda":
        raise ValueError(
            f"{stage}: half_table must be None unless x is on a CUDA device, got x on {x.device}"
        )
    shape = tuple(table.shape)
    require(
        stage, x.device, {"table": (table, dtype, shape), "half_table": (half_table, torch.float16, shape)}
    )
    return {
        "x": x.contiguous(),
        "table": aligned(table),
        "half_table": None if half_table is None else aligned(half_table),
        "offsets": firsts,
        "scales": rounded,
        "count": x.shape[0],
        "dimensions": dimensions,
        "levels": len(scales),
        "features": shape[1],
        "hashed": hashed,
    }


def _check_gradients(x: Tensor, table: Tensor, scales: Sequence[float], **given: Tensor) -> dict[str, Tensor]:
    """g_out and gg_x, contiguous."""
    shapes = {"g_out": (x.shape[0], len(scales) * table.shape[1]), "gg_x": tuple(x.shape)}
    require("encode_grid_bwd", x.device, {name: (t, x.dtype, shapes[name]) for name, t in given.items()})
    return {name: t.contiguous() for name, t in given.items()}


def _forward(x: Tensor, table: Tensor, *rest: Any) -> Tensor:
    arguments = check_grid(x, table, *rest)
    out = _fake_forward(x, table, *rest)
    library_for(x.device).call("encode_grid_fwd", x.device, x.dtype, **arguments, out=out)
    return out


def _backward(g_out: Tensor, x: Tensor, table: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    *grid, by_x, by_table = rest
    arguments = check_grid(x, table, *grid) | _check_gradients(x, table, grid[2], g_out=g_out)
    g_x, g_table = grads = _fake_backward(g_out, x, table, *rest)
    arguments |= {"g_x": g_x if by_x else None, "g_table": g_table.zero_() if by_table else None}
    library_for(x.device).call("encode_grid_bwd", x.device, x.dtype, **arguments)
    return grads


def _second_backward(
    gg_x: Tensor, g_out: Tensor, x: Tensor, table: Tensor, *rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    *grid, by_g_out, by_x, by_table = rest
    arguments = check_grid(x, table, *grid) | _check_gradients(x, table, grid[2], g_out=g_out, gg_x=gg_x)
    gg_out, g_x, g_table = grads = _fake_second_backward(gg_x, g_out, x, table, *rest)
    arguments |= {"gg_out": gg_out if by_g_out else None, "g_x": g_x if by_x else None}
    arguments |= {"g_table": g_table.zero_() if by_table else None}
    library_for(x.device).call("encode_grid_bwd_bwd", x.device, x.dtype, **arguments)
    return grads


def _fake_forward(
    x: Tensor, table: Tensor, half_table: Tensor | None, offsets: Any, scales: Sequence[float], hashed: int
) -> Tensor:
    return x.new_empty(x.shape[0], len(scales) * table.shape[1])


def _empty_if_unused(tensor: Tensor, used: bool) -> Tensor:
    return tensor.new_empty(tensor.shape if used else (0,))


def _fake_backward(g_out: Tensor, x: Tensor, table: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    by_x, by_table = rest[-2:]
    return _empty_if_unused(x, by_x), _empty_if_unused(table, by_table)


def _fake_second_backward(
    gg_x: Tensor, g_out: Tensor, x: Tensor, table: Tensor, *rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    by_g_out, by_x, by_table = rest[-3:]
    return _empty_if_unused(g_out, by_g_out), _empty_if_unused(x, by_x), _empty_if_unused(table, by_table)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, table, half_table, *ctx.grid = inputs
    ctx.save_for_backward(x, table, half_table)


def _differentiate(ctx: Any, g_out: Tensor) -> tuple[Tensor | None, ...]:
    by_x, by_table = ctx.needs_input_grad[:2]
    g_x, g_table = torch.ops.luxel.encode_grid_bwd(g_out, *ctx.saved_tensors, *ctx.grid, by_x, by_table)
    return g_x if by_x else None, g_table if by_table else None, None, None, None, None


def _save_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *tensors, offsets, scales, hashed, ctx.by_x, ctx.by_table = inputs
    ctx.grid = offsets, scales, hashed
    ctx.save_for_backward(*tensors)
    ctx.set_materialize_grads(False)


def _differentiate_backward(
    ctx: Any, gg_x: Tensor | None, gg_table: Tensor | None
) -> tuple[Tensor | None, ...]:
    """The gradient of <gg_x, g_x> + <gg_table, g_table> by g_out, x and the table."""
    g_out, x, table, half_table = ctx.saved_tensors
    needs = ctx.needs_input_grad[:3]
    grads: list[Tensor | None] = [None, None, None]
    if gg_x is not None and ctx.by_x:
        grads_or_empty = torch.ops.luxel.encode_grid_bwd_bwd(
            gg_x, g_out, x, table, half_table, *ctx.grid, *needs
        )
        grads = [grad if needed else None for grad, needed in zip(grads_or_empty, needs, strict=True)]
    if (
        gg_table is not None and ctx.by_table
    ):  # <gg_table, g_table> is <g_out, the encoding with gg_table for a table>
        if needs[0]:
            more = torch.ops.luxel.encode_grid(x, gg_table, None, *ctx.grid)
            grads[0] = more if grads[0] is None else grads[0] + more
        if needs[1]:
            more, _ = torch.ops.luxel.encode_grid_bwd(g_out, x, gg_table, None, *ctx.grid, True, False)
            grads[1] = more if grads[1] is None else grads[1] + more
    return *grads, None, None, None, None, None, None


register_implementation(
    "encode_grid", _forward, _fake_forward, _differentiate, _save, differentiable_gradient=True
)
register_implementation("encode_grid_bwd", _backward, _fake_backward, _differentiate_backward, _save_backward)
register_implementation("encode_grid_bwd_bwd", _second_backward, _fake_second_backward)
