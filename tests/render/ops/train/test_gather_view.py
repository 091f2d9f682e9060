"""The view of a step by a cursor on the device, and the count of steps, against plain torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from luxel.render.ops.train.gather_view import BACKGROUND, ROW, count_step_, gather_view


def images(device: torch.device, alpha: bool, weight: bool) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(0)

    def of_bytes(*shape: int) -> Tensor:
        return torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8).to(device)

    return {
        "images": of_bytes(3, 5, 7, 3),
        "alphas": of_bytes(3, 5, 7) if alpha else None,
        "weights": of_bytes(3, 5, 7) if weight else None,
        "poses": torch.randn(4, 4, 4, generator=generator).to(device),
        "intrinsics": torch.randn(4, 4, generator=generator).to(device),
    }


def table_of(device: torch.device) -> Tensor:
    """Rows for (photograph, view) = (2, 1), (0, 3), the second with a background."""
    table = torch.zeros(3, ROW, dtype=torch.int32)
    table[1, :2], table[2, :2] = torch.tensor([2, 1]), torch.tensor([0, 3])
    table[2, 2:] = torch.linspace(0.1, 0.9, ROW - 2).view(torch.int32)
    return table.to(device)


@pytest.mark.parametrize("alpha", [False, True])
@pytest.mark.parametrize("weight", [False, True])
def test_gathers_the_row_under_the_cursor(device: torch.device, alpha: bool, weight: bool) -> None:
    held, table = images(device, alpha, weight), table_of(device)
    for cursor, (image, view) in ((0, (2, 1)), (1, (0, 3)), (7, (0, 3)), (-2, (2, 1))):  # held to the table
        table[0, 0] = cursor
        rgb, a, w, world_to_cam, intrinsics, row = gather_view(**held, table=table)
        expected = held["images"][image].cpu().float() / 255
        if alpha:
            cover, behind = held["alphas"][image].cpu().float() / 255, row[BACKGROUND].cpu()
            expected = behind + cover[..., None] * (expected - behind)
            assert torch.equal(a.cpu(), cover)
        assert (a is None, w is None) == (not alpha, not weight)
        if weight:
            assert torch.equal(w.cpu(), held["weights"][image].cpu().float() / 255)
        torch.testing.assert_close(rgb.cpu(), expected, rtol=1e-6, atol=1e-7)
        assert torch.equal(world_to_cam, held["poses"][view])
        assert torch.equal(intrinsics, held["intrinsics"][view])
        assert torch.equal(row.view(torch.int32), table[1 + min(max(cursor, 0), 1)])


def test_gathers_several_rows(device: torch.device) -> None:
    held, table = images(device, True, True), table_of(device)
    for cursor in (0, 1):  # the second time the last row twice
        table[0, 0] = cursor
        together, each = gather_view(**held, table=table, views=2), []
        for k in range(2):
            table[0, 0] = cursor + k
            each.append(gather_view(**held, table=table))
        for actual, parts in zip(together, zip(*each, strict=True), strict=True):
            assert actual is not None and torch.equal(actual, torch.stack(parts))


def test_counts_until_a_step_overflows(device: torch.device) -> None:
    table, status = table_of(device), torch.zeros(4, dtype=torch.int32, device=device)
    for overflow, needed in ((0, 10), (0, 30), (1, 99), (0, 20)):
        count_step_(
            torch.tensor([overflow], dtype=torch.int32, device=device),
            torch.tensor([5, needed], device=device),
            table,
            status,
        )
    assert status[:3].tolist() == [2, 1, 99], "a step after the overflow was counted"
    assert int(table[0, 0]) == 4
    none = torch.zeros(1, dtype=torch.int32, device=device)
    count_step_(none, torch.tensor([5, 700], device=device), table, status.zero_(), views=3)
    assert status[:3].tolist() == [1, 0, 234] and int(table[0, 0]) == 7


def test_what_does_not_fit_is_named(device: torch.device) -> None:
    held, table = images(device, True, True), table_of(device)
    with pytest.raises(ValueError, match=r"alphas must be \[3, 5, 7\] torch.uint8 .*\[3, 5, 6\]"):
        gather_view(**{**held, "alphas": held["alphas"][:, :, :6]}, table=table)
    with pytest.raises(ValueError, match="table must be a header and"):
        gather_view(**held, table=table[:1])
    with pytest.raises(ValueError, match="views must be at least 1, got -1"):
        gather_view(**held, table=table, views=-1)


def test_library_checks(device: torch.device) -> None:
    held, table = images(device, True, False), table_of(device)
    torch.library.opcheck(torch.ops.luxel.gather_view, (*held.values(), table, 2))
    status = torch.zeros(4, dtype=torch.int32, device=device)
    counts = (
        torch.zeros(1, dtype=torch.int32, device=device),
        torch.zeros(2, dtype=torch.int64, device=device),
    )
    torch.library.opcheck(torch.ops.luxel.count_step_, (*counts, table, status, 1))
