"""The cases of `sanitize.py` of neural fields: the grid encoding and its first and second gradients."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from luxel.render.fields.encodings import Grid
from luxel.render.ops.encode_grid import encode_grid


def encode(grid: Grid, count: int, half: bool, device: torch.device) -> dict[str, Tensor]:
    """Features of random positions, at edges, beyond them and broken ones; gradients, and those of the gradients.

    Float16 tables are read on the GPU; the CPU reads the same numbers in float32.
    """
    generator = torch.Generator().manual_seed(count)
    x = torch.rand(count, grid.dimensions, generator=generator)
    for k, value in enumerate((0.0, 1.0, -0.5, 1.5, math.nan, math.inf, -math.inf)):
        x[k::50] = value
    table = torch.randn(grid.entries, grid.features, generator=generator)
    halved = table.half().to(device) if half and device.type == "cuda" else None
    table = table.half().float() if half else table
    g_out = torch.randn(count, grid.width, generator=generator).to(device).requires_grad_()
    gg_x = torch.randn(x.shape, generator=generator).to(device)
    leaves = x.to(device).requires_grad_(), table.to(device).requires_grad_()
    out = encode_grid(*leaves, grid.offsets, grid.scales, grid.hashed, halved)
    named = {"out": out}
    if count:
        g_x, g_table = torch.autograd.grad(out, leaves, g_out, create_graph=True)
        second = torch.autograd.grad(g_x, (g_out, *leaves), gg_x)
        named |= {"g_x": g_x, "g_table": g_table}
        named |= {f"{name} of g_x": t for name, t in zip(("g_out", "x", "table"), second, strict=True)}
    return {name: t.detach().cpu() for name, t in named.items()}


def field_cases() -> dict[str, Callable[..., Any]]:
    """Every case by name, as a function of the device."""
    out: dict[str, Callable[..., Any]] = {}
    for dimensions, features, hashed, half in itertools.product(
        (1, 2, 3, 4), (1, 2, 4, 8), (False, True), (False, True)
    ):
        grid = Grid(dimensions, 5, features, 4, 1.7, 9, hashed)
        name = f"grid {dimensions}d, {features} features, hashed={hashed}, half={half}"
        out[name] = partial(encode, grid, 533, half)
    for count in (0, 1, 256, 20_001):
        for half in (False, True):
            name = f"grid of {count} positions, half={half}"
            out[name] = partial(encode, Grid.multi_resolution_hash(3), count, half)
    out["grid, dense"] = partial(encode, Grid.multi_resolution_dense(3), 3001, False)
    out["grid, low dense"] = partial(encode, Grid.low_resolution_dense(3), 3001, False)
    out["grid, 32 levels"] = partial(encode, Grid(2, 32, 2, 2, 1.2, 8, hashed=True), 3001, False)
    return out
