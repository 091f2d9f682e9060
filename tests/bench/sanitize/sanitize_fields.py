"""The cases of `sanitize.py` of neural fields: the grid encoding and its first and second gradients, and the encoding
together with a perceptron, whose names begin with "half"."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from luxel.render.fields.encodings.grid import Grid
from luxel.render.ops.field.encode_grid import HASHED, encode_grid
from luxel.render.ops.field.field import field
from luxel.render.ops.field.mlp import Network
from luxel.render.ops.field.order_positions import order_positions


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


# grid, then width, hidden layers, outputs, activation, output activation; no hidden ReLUs: a sign may differ in half
FIELDS: list[tuple[Grid, tuple[Any, ...]]] = [
    (Grid(3, 16, 2, 16, 1.38191, 12, hashed=True), (64, 2, 16, "softplus", "none")),
    (Grid(3, 5, 2, 5, 1.7, 9, hashed=False), (64, 1, 3, "sigmoid", "sigmoid")),
    (Grid(2, 16, 2, 16, 1.25992, 10, hashed=True), (32, 2, 1, "none", "softplus")),
    (Grid(2, 8, 2, 16, 1.405, 10, hashed=False), (32, 1, 15, "softplus", "none")),
    (Grid(3, 2, 8, 16, 1.0, 10, hashed=False), (64, 2, 4, "softplus", "sigmoid")),
    (Grid(2, 7, 4, 4, 1.5, 8, hashed=True), (32, 2, 7, "sigmoid", "none")),
    (Grid(3, 16, 2, 16, 1.38191, 12, hashed=True), (16, 2, 16, "softplus", "none")),
    (Grid(2, 5, 2, 4, 1.5, 8, hashed=True), (16, 1, 3, "none", "sigmoid")),
    (Grid(3, 16, 2, 16, 1.38191, 12, hashed="blocks"), (64, 2, 16, "softplus", "none")),
    (Grid(2, 16, 2, 16, 1.25992, 10, hashed="blocks"), (32, 2, 1, "none", "softplus")),
    (Grid(3, 8, 4, 4, 1.5, 8, hashed="blocks"), (64, 1, 7, "none", "none")),
]


def asked(which: int, x: Tensor, table: Tensor, weights: Tensor, half: bool, **more: Any) -> Tensor:
    """One of FIELDS at positions, on a GPU with its table in half where that is requested."""
    grid, network = FIELDS[which]
    halved = table.detach().half() if half and x.device.type == "cuda" else None
    levels = grid.offsets, grid.scales, grid.hashed
    return field(x, table, weights, *levels, *network, half_table=halved, **more)


def whole_field(
    which: int,
    count: int,
    half: bool,
    sort: bool,
    needs_grad: tuple[bool, bool],
    rays: bool,
    device: torch.device,
) -> dict[str, Tensor]:
    """Output, and gradients by table and weights where they are requested; some positions are broken.

    Args:
        which: of FIELDS.
        rays: neighbouring positions are neighbours in space.
    """
    grid, network = FIELDS[which]
    width, hidden, outputs, *_ = network
    generator = torch.Generator().manual_seed(count)
    x = torch.rand(count, grid.dimensions, generator=generator)
    if rays:
        x = torch.linspace(0, 1, count)[:, None] * torch.linspace(0.3, 1, grid.dimensions)
    for k, value in enumerate((0.0, 1.0, -0.5, 1.5, math.nan, math.inf, -math.inf)):
        x[k::50] = value
    shapes = Network(grid.width, width, hidden, outputs).shapes()
    drawn = [torch.randn(*shape, generator=generator) * math.sqrt(2 / sum(shape)) for shape in shapes]
    table = torch.randn(grid.entries, grid.features, generator=generator).half().float().to(device)
    weights = torch.cat([matrix.flatten() for matrix in drawn]).half().float().to(device)
    g_out = torch.randn(count, outputs, generator=generator).half().float().to(device)
    for tensor, want in zip((table, weights), needs_grad, strict=True):
        tensor.requires_grad_(want)
    out = asked(which, x.to(device), table, weights, half, sort=sort)
    leaves = [t for t, want in zip((table, weights), needs_grad, strict=True) if want]
    gradients = torch.autograd.grad(out, leaves, g_out) if leaves else ()
    named = {"out": out} | {f"gradient {i}": gradient for i, gradient in enumerate(gradients)}
    return {name: t.detach().cpu() for name, t in named.items()}


def live_field(which: int, count: int, live: int, half: bool, device: torch.device) -> dict[str, Tensor]:
    """Output of the first rows, of a number that is on the device."""
    grid, network = FIELDS[which]
    generator = torch.Generator().manual_seed(count)
    x = torch.rand(count, grid.dimensions, generator=generator)
    x[live:] = math.nan
    sizes = Network(grid.width, *network[:3])
    table = torch.randn(grid.entries, grid.features, generator=generator).half().float().to(device)
    weights = 0.2 * torch.randn(sizes.parameter_count(), generator=generator).half().float().to(device)
    rows = torch.tensor([live], dtype=torch.int32, device=device)
    out = asked(which, x.to(device), table, weights, half, live=rows)
    return {"out": out[: max(live, 0)].cpu(), "shape": torch.tensor(out.shape).float()}


def ordered(count: int, dimensions: int, device: torch.device) -> dict[str, Tensor]:
    """Random positions in their order, half of them close together; some are broken."""
    x = torch.rand(count, dimensions, generator=torch.Generator().manual_seed(count))
    x[count // 2 :] *= 0.01
    x[::50, 0] = math.nan
    order, sorted_x = order_positions(x.to(device))
    return {"order": order.cpu(), "x": sorted_x.nan_to_num(-1).cpu()}


def whole_cases() -> dict[str, Callable[..., Any]]:
    """Those of the encoding together with a perceptron."""
    out: dict[str, Callable[..., Any]] = {}
    for which, (count, live) in itertools.product(
        range(len(FIELDS)), ((1, 0), (129, 64), (30_000, 777), (5, 9))
    ):
        for half in (False, True):
            name = f"half field {which} of {live} live rows of {count}, {'half' if half else 'float'} table"
            out[name] = partial(live_field, which, count, live, half)
    both = (True, True)
    for which, count in itertools.product(range(len(FIELDS)), (0, 1, 129, 1000)):
        for sort in (False, True):
            case = partial(whole_field, which, count, True, sort, both, count == 1000)
            out[f"half field {which}, {count} rows{', sorted' * sort}"] = case
        if count == 129:
            out[f"half field {which}, of float tables"] = partial(
                whole_field, which, 533, False, True, both, False
            )
    for needs_grad in ((False, False), (True, False), (False, True)):
        name = f"half field, gradient by table {needs_grad[0]}, by weights {needs_grad[1]}"
        out[name] = partial(whole_field, 0, 300, False, False, needs_grad, False)
    for sort in (False, True):
        out[f"half field, many rows{', sorted' * sort}"] = partial(
            whole_field, 0, 120_000, True, sort, both, True
        )
    for count, dimensions in itertools.product((0, 1, 2049, 300_001), (2, 3)):
        out[f"order of {count} positions in {dimensions}D"] = partial(ordered, count, dimensions)
    return out


def field_cases() -> dict[str, Callable[..., Any]]:
    """Every case by name, as a function of the device."""
    out: dict[str, Callable[..., Any]] = {}
    for dimensions, features, hashed, half in itertools.product(
        (1, 2, 3, 4), (1, 2, 4, 8), HASHED, (False, True)
    ):
        grid = Grid(dimensions, 5, features, 4, 1.7, 9, hashed)
        name = f"grid {dimensions}d, {features} features, hashed={hashed}, half={half}"
        out[name] = partial(encode, grid, 533, half)
    for count in (0, 1, 256, 20_001):
        for half in (False, True):
            name = f"grid of {count} positions, half={half}"
            out[name] = partial(encode, Grid.multi_resolution_hash(3), count, half)
    blocks = Grid.multi_resolution_hash(3, hashed="blocks")
    out["grid of 20001 positions in blocks"] = partial(encode, blocks, 20_001, True)
    out["grid, dense"] = partial(encode, Grid.multi_resolution_dense(3), 3001, False)
    out["grid, low dense"] = partial(encode, Grid.low_resolution_dense(3), 3001, False)
    out["grid, 32 levels"] = partial(encode, Grid(2, 32, 2, 2, 1.2, 8, hashed=True), 3001, False)
    return out | whole_cases()
