"""Grids that the tests of the grid encoding share, and how they compare gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from luxel.render.fields.encodings.grid import Grid

D = torch.float64

HASHED = Grid(3, 5, 2, 5, 1.9, 9, hashed=True)  # 2 levels in order, 3 hashed

BLOCKS = Grid(3, 5, 2, 5, 1.9, 9, hashed="blocks")

GRIDS = {
    "hash": HASHED,
    "blocks": BLOCKS,
    "dense": Grid(3, 4, 2, 4, 1.405, None, hashed=False),
    "wrapped": Grid(3, 3, 8, 17, 1.0, 10, hashed=False),
    **{f"{d}d hash": Grid(d, 4, 4, 6, 1.7, 6, hashed=True) for d in (1, 2, 4)},
    **{
        f"{d}d blocks, {f}": Grid(d, 4, f, 6, 1.7, 6, hashed="blocks")
        for d, f in ((1, 4), (2, 2), (3, 1), (4, 2))
    },
    **{f"{d}d wrapped": Grid(d, 3, 1, 5, 1.7, 6, hashed=False) for d in (1, 2, 4)},
    "32 levels": Grid(2, 32, 1, 2, 1.2, 8, hashed=True),
    "fine": Grid(2, 2, 2, 2048, 1.0, 12, hashed=True),
    "dense blocks": Grid(3, 4, 2, 4, 1.405, None, hashed="blocks"),
    "dense blocks, 2d": Grid(2, 4, 2, 4, 1.405, None, hashed="blocks"),
    "fine blocks": Grid(3, 2, 2, 2048, 1.0, 12, hashed="blocks"),
}


def inputs(
    grid: Grid, n: int, device: Any = "cpu", dtype: torch.dtype = torch.float32, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Positions and a table; the same numbers (rounded to float32) in every float type."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(n, grid.dimensions, generator=generator)
    table = torch.randn(grid.entries, grid.features, generator=generator)
    return x.to(device, dtype), table.to(device, dtype)


def levels_of(grid: Grid) -> tuple[Any, ...]:
    return grid.offsets, grid.scales, grid.hashed


def all_gradients(function: Any, x: Tensor, table: Tensor, grid: Grid, half: Any = None) -> dict[str, Tensor]:
    """Features, gradients, and the gradients of the gradient by x, from the same random weights everywhere."""
    x, table = x.detach().clone().requires_grad_(), table.detach().clone().requires_grad_()
    generator = torch.Generator().manual_seed(3)
    g_out = torch.randn(x.shape[0], grid.width, generator=generator).to(x).requires_grad_()
    gg_x = torch.randn(x.shape, generator=generator).to(x)
    gg_table = torch.randn(table.shape, generator=generator).to(x)
    out = function(x, table, *levels_of(grid), *(() if half is None else (half,)))
    g_x, g_table = torch.autograd.grad(out, (x, table), g_out, create_graph=True)
    named = {"out": out, "g_x": g_x, "g_table": g_table}
    for title, value in (
        ("of g_x", (g_x * gg_x).sum()),
        ("of g_table", (g_table * gg_table).sum()),
        ("of both", (g_x * gg_x).sum() + (g_table * gg_table).sum()),
    ):
        leaves = (g_out, x) if title == "of g_table" else (g_out, x, table)
        actual = torch.autograd.grad(value, leaves, retain_graph=True, allow_unused=True)
        for name, leaf, g in zip(("g_out", "x", "table"), leaves, actual, strict=False):
            named[f"{name} {title}"] = torch.zeros_like(leaf) if g is None else g
    return {name: tensor.detach() for name, tensor in named.items()}


def assert_same(
    actual: dict[str, Tensor], expected: dict[str, Tensor], forward: float, backward: float
) -> None:
    for name, true in expected.items():
        bound = forward if name == "out" else backward
        scale = max(1.0, true.abs().max().item()) if true.numel() else 1.0
        torch.testing.assert_close(
            actual[name].cpu().to(D), true, rtol=0, atol=bound * scale, msg=lambda m, n=name: f"{n}: {m}"
        )
