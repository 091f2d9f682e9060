"""Stages whose number of rows is on the device: live rows equal those of a call with all rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from luxel.render.fields.encodings.grid import Grid
from luxel.render.ops.field.colour_inputs import colour_inputs
from luxel.render.ops.field.colour_network import colour_network
from luxel.render.ops.field.field import field
from luxel.render.ops.field.mlp import Network, mlp

GRIDS = {
    "hash": Grid(3, 16, 2, 16, 1.38191, 12, hashed=True),
    "flat": Grid(2, 16, 2, 16, 1.25992, 10, hashed=True),
    "low resolution": Grid.low_resolution_dense(3, log2_entries=12),
    "not covered": Grid(3, 4, 1, 4, 1.5, 8, hashed=True),
}
LIVE = (0, 1, 31, 33, 700, 999, 1000, 1003, -4)
ROWS = 1000

Stage = Callable[[Tensor | None], Any]


def of_grid(name: str, device: torch.device, trained: bool = False) -> Stage:
    grid, generator = GRIDS[name], torch.Generator().manual_seed(0)
    sizes = Network(grid.width, 64, 2, 5)
    x = torch.rand(ROWS, grid.dimensions, generator=generator).to(device)
    table = torch.randn(grid.entries, grid.features, generator=generator).to(device)
    weights = (0.2 * torch.randn(sizes.parameter_count(), generator=generator)).to(device)
    weights.requires_grad_(trained)
    half = table.half() if device.type == "cuda" else None
    levels = grid.offsets, grid.scales, grid.hashed

    def run(live: Tensor | None) -> Tensor:
        return field(x, table, weights, *levels, *sizes[1:4], half_table=half, sort=False, live=live)

    return run


def of_network(width: int, precise: bool, device: torch.device) -> Stage:
    generator = torch.Generator().manual_seed(1)
    sizes = Network(32, width, 2, 3)
    x = torch.randn(ROWS, 32, generator=generator).to(device)
    weights = (0.2 * torch.randn(sizes.parameter_count(), generator=generator)).to(device)
    return lambda live: mlp(x, weights, *sizes[:4], precise=precise, live=live)


def of_colours(device: torch.device) -> Stage:
    generator = torch.Generator().manual_seed(2)
    features = torch.randn(ROWS, 16, generator=generator).to(device)
    directions = torch.nn.functional.normalize(torch.randn(ROWS, 3, generator=generator), dim=-1).to(device)
    return lambda live: colour_inputs(features, directions, live)


def of_colour_network(width: int, precise: bool, device: torch.device) -> Stage:
    features, directions, weights, sizes = colour_given(width, device)
    return lambda live: colour_network(
        features, directions, weights, *sizes[1:4], "relu", "sigmoid", precise=precise, live=live
    )


def colour_given(
    width: int, device: torch.device, features: int = 16
) -> tuple[Tensor, Tensor, Tensor, Network]:
    generator = torch.Generator().manual_seed(3)
    sizes = Network(features + 16, width, 2, 3)
    given = torch.randn(ROWS, features, generator=generator).to(device)
    directions = torch.nn.functional.normalize(torch.randn(ROWS, 3, generator=generator), dim=-1).to(device)
    weights = (0.2 * torch.randn(sizes.parameter_count(), generator=generator)).to(device)
    return given, directions, weights, sizes


@pytest.mark.parametrize("width,features", [(64, 16), (32, 16), (64, 8), (64, 4), (128, 16), (16, 112)])
def test_the_colour_network_is_its_two_stages(device, width, features):
    given, directions, weights, sizes = colour_given(width, device, features)
    actual, first = colour_network(given, directions, weights, *sizes[1:4], "relu", "sigmoid")
    inputs, density = colour_inputs(given, directions)
    expected = mlp(inputs, weights, *sizes[:4], "relu", "sigmoid")
    assert torch.equal(first, density)
    off = 1e-6 if device.type == "cpu" else 2e-3  # rounding to half may go the other way
    torch.testing.assert_close(actual, expected, rtol=0, atol=off)
    with pytest.raises(ValueError, match=r"directions must be \[1000, 3\]|must be \[1000, 3\]"):
        colour_network(given, directions[:, :2].contiguous(), weights, *sizes[1:4])


STAGES: dict[str, Callable[[torch.device], Stage]] = {
    **{f"field, {name}": lambda device, n=name: of_grid(n, device) for name in GRIDS},
    **{f"mlp, {w}": lambda device, w=w: of_network(w, False, device) for w in (16, 32, 64, 128)},
    "mlp, precise": lambda device: of_network(64, True, device),
    "colour inputs": of_colours,
    **{f"colours, {w}": lambda device, w=w: of_colour_network(w, False, device) for w in (32, 64, 128)},
    "colours, precise": lambda device: of_colour_network(64, True, device),
}


@pytest.mark.parametrize("name", STAGES)
def test_live_rows_are_those_of_all(device, name):
    stage = STAGES[name](device)
    with torch.no_grad():
        whole = stage(None)
        for number in LIVE:
            live = torch.tensor([number], dtype=torch.int32, device=device)
            actual, count = stage(live), min(max(number, 0), ROWS)
            parts = zip(actual, whole, strict=True) if isinstance(whole, tuple) else [(actual, whole)]
            for a, b in parts:
                assert a.shape == b.shape and torch.equal(a[:count], b[:count]), number


def test_what_is_refused(device):
    stage = of_grid("hash", device)
    with torch.no_grad():
        for wrong in (torch.zeros(2, dtype=torch.int32, device=device), torch.zeros(1, device=device)):
            with pytest.raises(ValueError, match=r"live must be \[1\] torch.int32"):
                stage(wrong)
            with pytest.raises(ValueError, match=r"live must be \[1\] torch.int32"):
                of_colours(device)(wrong)
            with pytest.raises(ValueError, match=r"live must be \[1\] torch.int32"):
                of_network(64, False, device)(wrong)
    live = torch.ones(1, dtype=torch.int32, device=device)
    rows, weights = torch.rand(5, 32, device=device), torch.rand(3 * 32, device=device, requires_grad=True)
    with pytest.raises(ValueError, match="live must be None where a gradient"):
        mlp(rows, weights, 32, 64, 0, 3, live=live)
    with pytest.raises(ValueError, match="live must be None where a gradient"):
        colour_inputs(rows.requires_grad_(), torch.rand(5, 3, device=device), live)
    with pytest.raises(ValueError, match="live must be None where a gradient"):
        of_grid("hash", device, trained=True)(live)
    given, directions, weights, sizes = colour_given(64, device)
    with pytest.raises(ValueError, match=r"features must be float32 or float64, got torch.float16"):
        colour_network(given.half(), directions, weights, *sizes[1:4])


def test_opcheck(device):
    live = torch.tensor([3], dtype=torch.int32, device=device)
    features, directions = torch.rand(7, 8, device=device), torch.rand(7, 3, device=device)
    fake = "test_faketensor"  # what is behind the live rows is anything
    given: tuple[Any, ...] = live, features, directions
    torch.library.opcheck(torch.ops.luxel.colour_inputs_live.default, given, test_utils=fake)
    sizes = Network(8, 16, 1, 3)
    given = live, features, torch.rand(sizes.parameter_count(), device=device), *sizes
    torch.library.opcheck(torch.ops.luxel.mlp_live.default, given, test_utils=fake)
    grid = GRIDS["hash"]
    table = torch.rand(grid.entries, grid.features, device=device)
    network = Network(grid.width, 64, 1, 3)
    weights = torch.rand(network.parameter_count(), device=device)
    levels = list(grid.offsets), list(grid.scales), grid.hashed
    given = live, directions, None, table, None, weights, *levels, 64, 1, 3, 1, 0
    torch.library.opcheck(torch.ops.luxel.field_live.default, given, test_utils=fake)
