"""The operation of the grid encoding: by hand, by the reference, by finite differences."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from grid_cases import BLOCKS, GRIDS, HASHED, D, all_gradients, assert_same, inputs, levels_of
from torch import Tensor

from luxel.render.fields.encodings.grid import Grid
from luxel.render.ops.field.encode_grid import encode_grid
from luxel.render.ops.field.grid_layout import Hashed, grid_index, level_points
from luxel.render.reference.field.encode_grid import encode_grid_reference


@pytest.mark.parametrize("kind", GRIDS)
def test_it_is_the_reference(precision, kind):
    grid = GRIDS[kind]
    x, table = inputs(grid, 301, **precision)
    actual = all_gradients(encode_grid, x, table, grid)
    expected = all_gradients(encode_grid_reference, x.cpu().to(D), table.cpu().to(D), grid)
    assert all(expected[name].any() for name in ("out", "g_x", "g_table", "g_out of g_x", "table of g_x"))
    assert (expected["x of g_x"].abs().max() > 1e-3) == (grid.dimensions > 1)  # mixed derivatives alone
    assert_same(actual, expected, *((1e-12, 1e-10) if x.dtype == D else (1e-5, 1e-4)))


@pytest.mark.parametrize(
    "grid",
    [
        Grid.multi_resolution_hash(3, log2_entries=14),
        Grid.multi_resolution_hash(3, log2_entries=14, hashed="blocks"),
        Grid.multi_resolution_dense(3, log2_entries=14),
        Grid.low_resolution_dense(3, log2_entries=14),
    ],
    ids=["hash", "blocks", "dense", "low dense"],
)
def test_the_three_kinds_are_the_reference(precision, grid):
    x, table = inputs(grid, 203, **precision)
    actual = all_gradients(encode_grid, x, table, grid)
    expected = all_gradients(encode_grid_reference, x.cpu().to(D), table.cpu().to(D), grid)
    assert_same(actual, expected, *((1e-12, 1e-10) if x.dtype == D else (1e-5, 1e-4)))


def test_by_hand(device):
    """Two cells in one dimension; four points in two; a hash of known numbers."""
    table = torch.tensor([[1.0], [10.0], [100.0], [0], [0], [0], [0], [0]], device=device)
    x = torch.tensor([[0.25], [0.0], [0.5], [0.6]], device=device)
    # Scale 2: 3 points; 0.25 -> 1.0, 0 -> 0.5, 0.5 -> 1.5, 0.6 -> 1.7.
    actual = encode_grid(x, table, (0, 8), (2.0,))
    torch.testing.assert_close(actual.cpu()[:, 0], torch.tensor([10, 5.5, 55, 73.0]), rtol=1e-6, atol=0)
    table = torch.arange(8.0, device=device)[:, None]
    x = torch.tensor([[0.5, 0.25]], device=device)  # scale 1: position (1, 0.75), points 1 and 3 in order
    torch.testing.assert_close(encode_grid(x, table, (0, 8), (1.0,)).item(), 0.25 * 1 + 0.75 * 3)
    at = torch.tensor([[3, 5, 7, 11]])
    expected = 3 ^ (5 * 2654435761) ^ (7 * 805459861) ^ (11 * 3674653429)
    assert grid_index(at, 100, 2**14, True).item() == expected % 2**14
    assert grid_index(at[:, :2], 100, 2**8, False).item() == 503 % 2**8


@pytest.mark.parametrize("dimensions", [1, 2, 3, 4])
def test_blocks_are_neighbours_in_memory(dimensions):
    """8 entries from a multiple of 8 on, in order of the axes."""
    sides = {1: (8,), 2: (4, 2), 3: (2, 2, 2), 4: (2, 2, 2, 1)}[dimensions]
    within = torch.cartesian_prod(*map(torch.arange, reversed(sides))).reshape(8, -1).flip(-1)
    corner = torch.tensor((5, 9, 3, 14))[:dimensions]
    actual = grid_index(corner * torch.tensor(sides) + within, 100, 2**9, "blocks")
    place = 0
    for d, prime in enumerate((1, 2654435761, 805459861, 3674653429)[:dimensions]):
        place ^= int(corner[d]) * prime
    assert actual.tolist() == [place % 2**6 * 8 + k for k in range(8)]
    if dimensions == 1:
        at = torch.arange(1000)[:, None]
        assert torch.equal(grid_index(at, 1000, 2**9, "blocks"), grid_index(at, 1000, 2**9, True))


@pytest.mark.parametrize(("dimensions", "resolution"), [(1, 20), (2, 7), (2, 8), (3, 4), (3, 5), (4, 3)])
def test_blocks_in_order_have_an_entry_for_each_point(dimensions, resolution):
    """And for those one beyond the last, which positions at the upper end reach."""
    size = level_points(resolution, dimensions, "blocks")
    at = torch.cartesian_prod(*[torch.arange(resolution + 1)] * dimensions).reshape(-1, dimensions)
    actual = grid_index(at, resolution, size, "blocks")
    assert len(actual.unique()) == len(at) and actual.max() < size and size % 8 == 0


def test_gradients_by_finite_differences():
    kinds: list[Hashed] = [True, "blocks"]
    for grid in (Grid(d, 2, 2, 3, 1.5, 4, hashed) for d in (1, 2, 3) for hashed in kinds):
        x, table = inputs(grid, 4, dtype=D)
        scales = torch.tensor(grid.scales)[:, None, None]
        cells = ((x * scales + 0.5) % 1 - 0.5).abs()
        assert (cells < 0.499).all()  # no step over the edge of a cell
        leaves = (x.requires_grad_(), table.requires_grad_())

        def encode(x: Tensor, table: Tensor, grid: Grid = grid) -> Tensor:
            return encode_grid(x, table, *levels_of(grid))

        assert torch.autograd.gradcheck(encode, leaves)
        assert torch.autograd.gradgradcheck(encode, leaves)


@pytest.mark.parametrize("dimensions", [1, 2, 3, 4])
def test_positions_at_the_edge_and_beyond(device, dimensions):
    grid = Grid(dimensions, 3, 2, 4, 1.5, 12, hashed=True)
    corners = torch.tensor(list(itertools.product((0.0, 1.0), repeat=dimensions)))
    _, table = inputs(grid, 0, device)
    expected = all_gradients(encode_grid_reference, corners.to(D), table.cpu().to(D), grid)
    assert_same(all_gradients(encode_grid, corners.to(device), table, grid), expected, 1e-5, 1e-4)
    assert expected["g_x"].all(-1).all()
    for far in (1e-3, 2.0, 1e30, math.inf):
        beyond = ((corners * 2 - 1) * far + corners).to(device)
        actual = all_gradients(encode_grid, beyond, table, grid)
        torch.testing.assert_close(actual["out"].cpu().to(D), expected["out"], rtol=0, atol=1e-5)
        assert not actual["g_x"].any() and not actual["x of g_x"].any() and actual["g_table"].any()


def test_nan_is_nothing(device):
    x, table = inputs(HASHED, 50, device)
    expected = all_gradients(encode_grid, x, table, HASHED)
    bad = torch.arange(50) % 3 == 1
    x[bad.to(device), 1] = math.nan
    actual = all_gradients(encode_grid, x, table, HASHED)
    for name in ("out", "g_x", "g_out of g_x", "x of g_x"):
        assert not actual[name].cpu()[bad].any(), name
        assert torch.equal(actual[name].cpu()[~bad], expected[name].cpu()[~bad]), name
    x.nan_to_num_(0.5)
    g_table = encode_grid_table_gradient(x[~bad.to(device)], table, 50, bad)
    torch.testing.assert_close(actual["g_table"], g_table, rtol=1e-5, atol=1e-5)
    assert actual["table of g_x"].isfinite().all()


def encode_grid_table_gradient(x: Tensor, table: Tensor, n: int, bad: Tensor) -> Tensor:
    """The table's gradient of the rows that are not bad, with the weights of `all_gradients`."""
    g_out = torch.randn(n, HASHED.width, generator=torch.Generator().manual_seed(3))[~bad].to(x)
    table = table.detach().clone().requires_grad_()
    return torch.autograd.grad(encode_grid(x, table, *levels_of(HASHED)), table, g_out)[0]


@pytest.mark.parametrize("grid", [HASHED, BLOCKS], ids=["hash", "blocks"])
@pytest.mark.parametrize("n", [0, 1, 255, 257, 1023])
def test_any_number_of_positions(device, n, grid):
    x, table = inputs(grid, n, device)
    actual = all_gradients(encode_grid, x, table, grid)
    assert actual["out"].shape == (n, 10) and actual["g_x"].shape == (n, 3)
    assert actual["g_table"].any() == (n > 0)
    expected = all_gradients(encode_grid_reference, x.cpu().to(D), table.cpu().to(D), grid)
    assert_same(actual, expected, 1e-5, 1e-4)


def test_strides_do_not_matter(device):
    x, table = inputs(HASHED, 40, device)
    wide = torch.cat([x, x.flip(-1)], -1)[:, :3]
    assert not wide.is_contiguous()
    actual = encode_grid(wide, table.t().contiguous().t(), *levels_of(HASHED))
    assert torch.equal(actual, encode_grid(x, table, *levels_of(HASHED)))


@pytest.mark.gpu
def test_half_tables_are_read_in_their_place(gpu):
    for grid in GRIDS.values():
        x, table = inputs(grid, 301, gpu)
        half = table.half()
        actual = all_gradients(encode_grid, x, torch.zeros_like(table), grid, half)
        assert actual["g_table"].dtype == torch.float32
        expected = all_gradients(encode_grid_reference, x.cpu().to(D), half.cpu().to(D), grid)
        assert_same(actual, expected, 1e-5, 1e-4)


def test_the_number_of_threads_changes_nothing_on_the_cpu():
    """More threads than levels, more levels than threads, and entries that hundreds of positions meet in."""
    results, threads = [], torch.get_num_threads()
    try:
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            for grid in (HASHED, Grid(2, 1, 4, 40, 1.0, 7, hashed=False)):
                results.append(all_gradients(encode_grid, *inputs(grid, 3001), grid))
    finally:
        torch.set_num_threads(threads)
    for k, actual in enumerate(results):
        for name, tensor in results[k % 2].items():
            assert torch.equal(actual[name], tensor), name


def test_opcheck(device):
    grid = Grid(2, 3, 2, 4, 1.5, 4, hashed=True)
    x, table = inputs(grid, 7, device)
    g_out, gg_x = torch.ones(7, grid.width, device=device), torch.ones_like(x)
    rest = (None, list(grid.offsets), list(grid.scales), 1)
    operations = torch.ops.luxel
    for needs in (False, True):
        given = [t.clone().requires_grad_(needs) for t in (x, table)]
        torch.library.opcheck(operations.encode_grid.default, (*given, *rest))
        backward = (g_out.clone().requires_grad_(needs), *given, *rest)
        for by_x, by_table in ((True, True), (True, False), (False, True)):
            torch.library.opcheck(operations.encode_grid_bwd.default, (*backward, by_x, by_table))
    second = (gg_x, g_out, x, table, *rest)
    for by in ((True, True, True), (False, True, False), (True, False, False), (False, False, True)):
        torch.library.opcheck(operations.encode_grid_bwd_bwd.default, (*second, *by))


def test_what_is_refused(device):
    x, table = inputs(HASHED, 5, device)
    levels = levels_of(HASHED)
    with pytest.raises(ValueError, match=r"x must be \[N, 1 to 4\].*\[5, 5\]"):
        encode_grid(torch.zeros(5, 5, device=device), table, *levels)
    with pytest.raises(ValueError, match=r"table must be \[E, 1, 2, 4 or 8\], got \[4, 3\]"):
        encode_grid(x, torch.zeros(4, 3, device=device), *levels)
    with pytest.raises(ValueError, match=r"table must be .* torch.float32 on .* torch.float64"):
        encode_grid(x, table.double(), *levels)
    with pytest.raises(ValueError, match="offsets must end at"):
        encode_grid(x, table[1:], *levels)
    with pytest.raises(ValueError, match=r"offsets must be 5 \(1 to 32\) and one, from 0"):
        encode_grid(x, table, levels[0][1:], levels[1])
    with pytest.raises(ValueError, match="level 0 has 6 entries for 27 points; fewer must be a power of two"):
        encode_grid(x, table[:6], (0, 6), (2.0,))
    with pytest.raises(ValueError, match=r"hashed must be one of .* got 'block'"):
        encode_grid(x, table, levels[0], levels[1], "block")  # pyright: ignore[reportArgumentType]
    for scale in (0.0, -1.0, math.nan, 1e9):
        with pytest.raises(ValueError, match="level 0 has scale"):
            encode_grid(x, table[:8], (0, 8), (scale,))
    with pytest.raises(ValueError, match="g_out must be"):
        rest = (None, list(levels[0]), list(levels[1]), 1, True, True)
        torch.ops.luxel.encode_grid_bwd(torch.zeros(5, 9, device=device), x, table, *rest)
    if device.type == "cpu":
        with pytest.raises(ValueError, match="half_table must be None unless"):
            encode_grid(x, table, *levels, table.half())
