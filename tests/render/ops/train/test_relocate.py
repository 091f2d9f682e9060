"""Relocation against its formula, and what it must leave alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from luxel.render.ops.train.relocate import relocate_
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.reference.train.relocate import shared_appearance


class Rows(NamedTuple):
    """Parameters and moments, three tuples of six tensors."""

    parameters: tuple[Tensor, ...]
    exp_avgs: tuple[Tensor, ...]
    exp_avg_sqs: tuple[Tensor, ...]

    def copy(self) -> Rows:
        return Rows(*(tuple(t.clone() for t in kind) for kind in self))

    def relocate(self, count: int, **options: Any) -> tuple[Tensor, Tensor, Tensor]:
        return relocate_(*self, count, **{"min_opacity": 0.005, "seed": 3, "step": 600, **options})


@pytest.fixture
def rows(random_gaussians: Callable[..., Gaussians], device: torch.device) -> Rows:
    """500 Gaussians and 40 spare rows; every fifth is transparent, and moments are not 0."""
    gaussians = random_gaussians(540, seed=4, device=device)
    gaussians.opacity_logits[:500:5] = -7.0
    gaussians.opacity_logits[500:] = -math.inf
    parameters = tuple(gaussians.tensors().values())
    moments = (tuple(torch.rand_like(t) + 0.5 for t in parameters) for _ in range(2))
    return Rows(parameters, *moments)


def check_moved(before: Rows, after: Rows, actual: tuple[Tensor, Tensor, Tensor], moving: Tensor) -> None:
    """Copies look like their sources now do, sources share, and the rest is as it was."""
    source, copies, moved = actual
    index = torch.arange(source.shape[0], device=source.device)
    assert moved.item() == moving.sum() and torch.equal(source != index, moving)
    chosen = source.long()[moving]
    assert torch.equal(torch.bincount(chosen, minlength=copies.shape[0]), copies.long())
    assert not moving[: copies.shape[0]][chosen].any(), "a row that moved was drawn"
    shares = copies > 0
    held = (index[: copies.shape[0]])[~shares & ~moving[: copies.shape[0]]]
    for old, new in zip(before, after, strict=True):
        for a, b in zip(old, new, strict=True):
            assert torch.equal(a[held], b[held]), "a row that has no part in it changed"
    for kind in after[1:]:
        for tensor in kind:
            assert not tensor[: source.shape[0]][moving].any() and not tensor[: copies.shape[0]][shares].any()
    for tensor in after.parameters:
        assert torch.equal(tensor[: source.shape[0]][moving], tensor[chosen])
    old, new = (Gaussians(*(t.cpu() for t in kind.parameters)) for kind in (before, after))
    sharing = shares.nonzero()[:, 0].cpu()
    opacity, factor = shared_appearance(old.opacities[sharing], copies.cpu().long()[sharing] + 1)
    torch.testing.assert_close(new.opacities[sharing], opacity.clamp(0.005, 1 - 1e-6), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(new.scales[sharing], old.scales[sharing] * factor[:, None], rtol=1e-5, atol=0)
    for name in ("means", "quats", "sh_dc", "sh_rest"):
        assert torch.equal(getattr(new, name)[sharing], getattr(old, name)[sharing])


def test_the_transparent_move(rows: Rows) -> None:
    before = rows.copy()
    actual = rows.relocate(500)
    moving = torch.arange(500, device=rows.parameters[0].device) % 5 == 0
    check_moved(before, rows, actual, moving)
    assert not rows.parameters[3][500:].isfinite().any(), "a spare row was touched"
    assert rows.relocate(500, step=700)[2].item() == 0, "no one is transparent any more"


def test_what_is_not_finite_moves(rows: Rows) -> None:
    for tensor, row, value in zip(rows.parameters, (1, 2, 3, 4, 6, 7), (math.nan, math.inf) * 3, strict=True):
        tensor[row].fill_(value)
    rows.parameters[5][499, -1, -1] = -math.inf
    actual = rows.relocate(500)
    moving = torch.arange(500) % 5 == 0
    moving[[1, 2, 3, 4, 6, 7, 499]] = True
    assert torch.equal((actual[0] != torch.arange(500, device=actual[0].device)).cpu(), moving)
    assert all(t[:500].isfinite().all() for t in rows.parameters)


def test_new_rows_are_filled(rows: Rows) -> None:
    rows.relocate(500)
    before = rows.copy()
    actual = rows.relocate(500, added=40)
    moving = torch.arange(540, device=rows.parameters[0].device) >= 500
    check_moved(before, rows, actual, moving)


def test_nothing_moves_where_there_is_no_source(rows: Rows) -> None:
    rows.parameters[3].fill_(-9.0)
    before = rows.copy()
    source, copies, moved = rows.relocate(500)
    assert moved.item() == 0 and not copies.any() and source.tolist() == list(range(500))
    assert all(torch.equal(a, b) for a, b in zip(before.parameters, rows.parameters, strict=True))
    assert rows.relocate(0)[2].item() == 0


def test_sources_are_drawn_in_proportion(rows: Rows) -> None:
    many = 20_000
    wide = Rows(
        *(tuple(torch.cat([t[:500], t[:1].expand(many, *t.shape[1:])]) for t in kind) for kind in rows)
    )
    wide.parameters[3][500:] = -9.0
    truth = torch.sigmoid(wide.parameters[3][:500]).where(wide.parameters[3][:500] > -6, 0.0)
    _, copies, moved = wide.relocate(500 + many)
    assert moved.item() == many + 100
    expected = (truth / truth.sum() * moved.item()).cpu().double()
    some = expected > 0
    chi = ((copies[:500].cpu() - expected) ** 2)[some].div(expected[some]).sum()
    degrees = int(some.sum()) - 1
    assert abs(float(chi) - degrees) < 4 * math.sqrt(2 * degrees)


def test_the_draw_is_a_function_of_seed_and_step(rows: Rows) -> None:
    sources = {}
    for seed, step in ((3, 600), (3, 600), (4, 600), (3, 700), (3 + 2**40, 600)):
        actual = rows.copy().relocate(500, seed=seed, step=step)[0].tolist()
        assert sources.setdefault((seed, step), actual) == actual
    assert len({tuple(actual) for actual in sources.values()}) == 4
    assert rows.copy().relocate(500, added=40)[0][:500].tolist() == list(range(500))


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_backends_draw_alike(rows: Rows, device: torch.device) -> None:
    """Sums are of whole numbers, so that they come out the same in whatever order.

    Opacities are 0.5 and 1, which every backend computes exactly.
    """
    live = rows.parameters[3] > -6
    rows.parameters[3][live] = 40.0 * (live.nonzero()[:, 0] % 3 == 0)
    cpu = Rows(*(tuple(t.cpu() for t in kind) for kind in rows))
    actual, truth = rows.relocate(500), cpu.relocate(500)
    assert all(torch.equal(a.cpu(), b) for a, b in zip(actual, truth, strict=True))
    for a, b in zip(rows.parameters, cpu.parameters, strict=True):
        torch.testing.assert_close(a.cpu(), b, rtol=1e-5, atol=1e-6)


def test_copies_look_like_the_original() -> None:
    """In the middle n coinciding copies are exactly as opaque, and over a line through it nearly so."""
    for n in (2, 5, 20, 51):
        for o in (0.1, 0.5, 0.95):
            opacity, factor = shared_appearance(torch.tensor([o]), torch.tensor([n]))
            x = torch.linspace(-4, 4, 4001)
            before = o * torch.exp(-0.5 * x**2)
            after = 1 - (1 - opacity * torch.exp(-0.5 * (x / factor) ** 2)) ** n
            assert abs(float(after.max()) - o) < 1e-4
            assert abs(float(after.sum() / before.sum()) - 1) < 1e-3, (n, o)


def test_shared_appearance_by_hand() -> None:
    opacity, factor = shared_appearance(torch.tensor([0.5, 0.75, 0.9]), torch.tensor([1, 2, 1]))
    torch.testing.assert_close(opacity, torch.tensor([0.5, 0.5, 0.9]))
    # n = 2, o' = 1/2: i = 1 gives o', i = 2 gives o' - o'^2 / sqrt(2)
    torch.testing.assert_close(factor, torch.tensor([1.0, 0.75 / (0.5 + 0.5 - 0.25 / math.sqrt(2)), 1.0]))


def test_many_copies_of_one(rows: Rows) -> None:
    """As many as the sum is accurate for share; more look like that many."""
    for copies in (1, 50, 51, 400):
        few = Rows(*(tuple(t[: copies + 1].clone() for t in kind) for kind in rows))
        few.parameters[3][:] = -9.0
        few.parameters[3][0] = 1.5
        before = few.copy()
        actual = few.relocate(copies + 1)
        moving = torch.arange(copies + 1, device=actual[0].device) > 0
        check_moved(before, few, actual, moving)


def test_opcheck(rows: Rows) -> None:
    arguments = (*rows.parameters, *rows.exp_avgs, *rows.exp_avg_sqs, 500, 0, 0.005, 3, 600)
    checks = ("test_schema", "test_faketensor")
    torch.library.opcheck(torch.ops.luxel.relocate_.default, arguments, test_utils=checks)


def test_what_does_not_fit_is_named(rows: Rows) -> None:
    with pytest.raises(ValueError, match=r"count and added must be .* at most 540, got 500 and 41"):
        rows.relocate(500, added=41)
    with pytest.raises(ValueError, match="m_quats must be"):
        broken = (rows.exp_avgs[0], rows.exp_avgs[1][:, :3], *rows.exp_avgs[2:])
        rows._replace(exp_avgs=broken).relocate(500)
    with pytest.raises(ValueError, match="m_means is changed in place and must be contiguous"):
        apart = (rows.exp_avgs[0].t().contiguous().t(), *rows.exp_avgs[1:])
        rows._replace(exp_avgs=apart).relocate(500)
