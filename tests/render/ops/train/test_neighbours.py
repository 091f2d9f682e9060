"""The nearest neighbours of points, against all distances at once."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode

from luxel.render.ops.train.neighbours import MOST, neighbours


def all_neighbours(points: Tensor, k: int, mask: Tensor | None = None) -> Tensor:
    """What `neighbours` promises, from every distance in double."""
    n, wide = len(points), points.detach().cpu().double()
    counts = wide.isfinite().all(-1)
    if mask is not None:
        counts &= mask.cpu()
    distance = (wide[:, None] - wide[None]).square().sum(-1)
    off = ~counts[:, None] | ~counts[None] | torch.eye(n, dtype=torch.bool)
    order = distance.masked_fill(off, math.inf).sort(dim=1, stable=True).indices[:, :k]
    own = torch.arange(n)[:, None].expand(n, k).clone()
    here = min(k, n)
    own[:, :here] = torch.where(off.gather(1, order), own[:, :here], order)
    return own


def assert_nearest(points: Tensor, k: int, mask: Tensor | None = None, *, exact: bool = False) -> Tensor:
    """Fails unless distances are the smallest there are, to rounding; with ``exact`` the very indices must agree."""
    actual = neighbours(points, k, mask)
    assert actual.shape == (len(points), k) and actual.dtype == torch.int32 and actual.device == points.device
    actual, expected = actual.cpu().long(), all_neighbours(points, k, mask)
    if exact:
        assert torch.equal(actual, expected)
        return actual
    own = torch.arange(len(points))[:, None]
    assert torch.equal((actual == own).sum(1), (expected == own).sum(1))
    assert all(len(set(row)) == k for row in actual[(actual != own).all(1)].tolist())
    wide = points.detach().cpu().double()

    def length(index: Tensor) -> Tensor:
        away = (wide[:, None] - wide[index]).norm(dim=-1)
        return torch.where(index == own, 0.0, away)

    rounding = 1e-6 if points.dtype == torch.float32 else 1e-14
    torch.testing.assert_close(length(actual), length(expected), rtol=rounding, atol=rounding * _size(wide))
    return actual


def _size(points: Tensor) -> float:
    """How large coordinates are: distances are as precise as these."""
    return points[points.isfinite().all(-1)].abs().max().item() if points.isfinite().any() else 1.0


def scene(name: str, n: int, dimensions: int, generator: torch.Generator) -> Tensor:
    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    points = normal(n, dimensions)
    if name == "uniform":
        points = torch.rand(n, dimensions, generator=generator)
    elif name == "clustered":
        points = normal(12, dimensions)[torch.randint(12, (n,), generator=generator)] + 1e-3 * points
    elif name == "planar":
        points[:, 1] = 0.25
        points[:, 2] *= 1e-3
    elif name == "outliers":
        points[:: n // 20] *= 1e4
    return points


@pytest.mark.parametrize("dimensions", [3, 4])
@pytest.mark.parametrize("name", ["uniform", "normal", "clustered", "planar", "outliers"])
@pytest.mark.parametrize(
    "masked", [pytest.param(None, marks=pytest.mark.slow), 0.5, pytest.param(0.01, marks=pytest.mark.slow)]
)
def test_nearest_of_many(precision, dimensions, name, masked):
    generator = torch.Generator().manual_seed(dimensions)
    points = scene(name, 700, dimensions, generator).to(**precision)
    mask = None
    if masked:
        mask = (torch.rand(700, generator=generator) < masked).to(points.device)
    for k in (1, 8, MOST):
        assert_nearest(points, k, mask)


@pytest.mark.parametrize("n", [0, 1, 2, 8, 9, 17, 32, 33, 100, 1025])
def test_few_points(precision, n):
    points = torch.randn(n, 4, generator=torch.Generator().manual_seed(n)).to(**precision)
    if n == 0:
        assert neighbours(points, 8).shape == (0, 8)
        return
    actual = assert_nearest(points, 8)
    rows = torch.arange(n)[:, None]
    assert torch.equal((actual == rows).sum(1), torch.full((n,), max(0, 8 - (n - 1))))


@pytest.mark.parametrize("dimensions", [3, 4])
@pytest.mark.parametrize("masked", [False, True])
def test_ties_go_by_index(precision, dimensions, masked):
    """A lattice, and points on few places: distances are whole numbers, most of them equal."""
    generator = torch.Generator().manual_seed(0)
    sides = torch.arange(5.0)
    lattice = torch.stack(torch.meshgrid(*[sides] * dimensions, indexing="ij"), -1).flatten(0, -2)
    few = torch.randint(0, 4, (600, dimensions), generator=generator).float()
    for points in (lattice[torch.randperm(len(lattice), generator=generator)], few):
        mask = (torch.rand(len(points), generator=generator) < 0.6) if masked else None
        for k in (1, 5, 8, MOST):
            moved = None if mask is None else mask.to(precision["device"])
            assert_nearest(points.to(**precision), k, moved, exact=True)


def test_all_in_one_place(precision):
    actual = neighbours(torch.full((300, 3), 2.5, **precision), 3).cpu()
    assert (
        actual[0].tolist() == [1, 2, 3]
        and actual[2].tolist() == [0, 1, 3]
        and actual[299].tolist() == [0, 1, 2]
    )


def test_what_is_not_finite_does_not_count(precision):
    points = torch.randn(400, 4, generator=torch.Generator().manual_seed(5)).to(**precision)
    points[::7, 3] = math.nan
    points[::11, 0] = math.inf
    points[::13, 2] = -math.inf
    actual = assert_nearest(points, 8)
    assert torch.equal(actual[0], torch.zeros(8, dtype=torch.int64))
    mask = torch.zeros(400, dtype=torch.bool, device=points.device)
    assert torch.equal(neighbours(points, 2, mask).cpu(), torch.arange(400)[:, None].expand(400, 2).int())


def test_memory_that_was_there_before_does_not_matter(precision):
    """The same twice, whatever the workspace held; and rows of a larger tensor."""
    wide = torch.randn(2000, 7, generator=torch.Generator().manual_seed(6)).to(**precision)
    first = neighbours(wide[:, 2:6], 8)
    torch.full((1 << 22,), -1, dtype=torch.int32, device=wide.device)
    assert torch.equal(neighbours(wide[:, 2:6], 8), first)
    assert torch.equal(neighbours(wide[:, 2:6].contiguous().requires_grad_(), 8), first)


def test_a_large_scene(device):
    """Against the distances of some rows to all."""
    points = torch.randn(100_000, 4, generator=torch.Generator().manual_seed(7)).to(device)
    actual = neighbours(points, 8)
    rows = torch.arange(0, 100_000, 487, device=device)
    away = torch.cdist(points[rows].double(), points.double())
    away[torch.arange(len(rows), device=device), rows] = math.inf
    expected = away.topk(8, largest=False).values
    length = (points[rows, None].double() - points[actual[rows].long()].double()).norm(dim=-1)
    torch.testing.assert_close(length, expected, rtol=1e-5, atol=1e-6)


def test_opcheck_and_fake_tensors(device):
    points, mask = torch.randn(50, 4, device=device), torch.ones(50, dtype=torch.bool, device=device)
    for given in (None, mask):
        torch.library.opcheck(torch.ops.luxel.neighbours.default, (points, given, 8))
    with FakeTensorMode() as mode:
        fake = neighbours(mode.from_tensor(points), 8, mode.from_tensor(mask))
    assert (fake.shape, fake.dtype, fake.device) == ((50, 8), torch.int32, points.device)
    compiled = torch.compile(lambda p: neighbours(p, 4) + 1, fullgraph=True, backend="aot_eager")
    torch._dynamo.reset()
    assert torch.equal(compiled(points), neighbours(points, 4) + 1)


@pytest.mark.gpu
def test_a_captured_search_is_replayed(device):
    """Nothing is read back and nothing allocated outside of torch: other points in the same place are searched too."""
    if device.type != "cuda":
        pytest.skip("CUDA graphs need a GPU")
    points = torch.randn(5000, 4, device=device)
    mask = torch.ones(5000, dtype=torch.bool, device=device)
    neighbours(points, 8, mask)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        actual = neighbours(points, 8, mask)
    for seed in (1, 2):
        points.copy_(torch.randn(5000, 4, generator=torch.Generator().manual_seed(seed)))
        mask.copy_(torch.rand(5000, generator=torch.Generator().manual_seed(seed)) > 0.3 * seed)
        graph.replay()
        assert torch.equal(actual, neighbours(points, 8, mask))


def test_what_does_not_fit_is_named(device):
    points = torch.randn(20, 3, device=device)
    with pytest.raises(ValueError, match=r"\[N, 3\] or \[N, 4\], got \[20, 2\]"):
        neighbours(points[:, :2], 3)
    with pytest.raises(ValueError, match="float16"):
        neighbours(points.half(), 3)
    for k in (0, MOST + 1):
        with pytest.raises(ValueError, match="k must be 1 to 16"):
            neighbours(points, k)
    with pytest.raises(ValueError, match="mask"):
        neighbours(points, 3, torch.ones(19, dtype=torch.bool, device=device))
