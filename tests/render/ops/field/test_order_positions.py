"""Positions along a Hilbert curve: the curve itself, the reference, and what is refused."""

from __future__ import annotations

import math

import pytest
import torch

from luxel.render.ops.field.order_positions import order_positions
from luxel.render.reference.field.order_positions import (
    KEY_BITS,
    hilbert_keys_reference,
    order_positions_reference,
)


@pytest.mark.parametrize(("dimensions", "cells", "leap"), [(2, 1024, 1), (3, 128, 3)])
def test_neighbours_on_the_curve_are_neighbours(dimensions, cells, leap):
    """Of the cells of one key in 3D, which are two, either may come first."""
    along = (torch.arange(cells) + 0.5) / cells
    x = torch.cartesian_prod(*[along] * dimensions)
    keys = hilbert_keys_reference(x)
    assert torch.equal(keys.bincount(), torch.full((2**KEY_BITS,), cells**dimensions >> KEY_BITS))
    ordered = x[keys.argsort(stable=True)]
    steps = (ordered[1:] - ordered[:-1]).abs().sum(1) * cells
    assert steps.max() <= leap + 1e-3
    assert leap > 1 or steps.min() >= 1 - 1e-3


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float", "double"])
def test_it_is_the_reference(device, dimensions, dtype):
    if device.type == "cuda" and dtype == torch.float64:
        pytest.skip("the GPU takes float32")
    generator = torch.Generator().manual_seed(dimensions)
    for n in (0, 1, 31, 2049, 300_001):
        x = torch.rand(n, dimensions, generator=generator, dtype=dtype)
        x[n // 2 :] = x[n // 2 :] * 0.01 + 0.3  # many in a cell
        for k, value in enumerate((0.0, 1.0, -0.5, 1.5, math.nan, math.inf, -math.inf)):
            x[k::50, k % dimensions] = value
        order, ordered = order_positions(x.to(device))
        expected, _ = order_positions_reference(x)
        assert order.dtype == torch.int32 and torch.equal(order.cpu(), expected)
        torch.testing.assert_close(ordered.cpu(), x[expected.long()], rtol=0, atol=0, equal_nan=True)


def test_nan_comes_last(device):
    x = torch.rand(500, 3, generator=torch.Generator().manual_seed(0)) * 0.4
    x[::7, 1] = math.nan
    order, _ = order_positions(x.to(device))
    assert order.cpu().tolist()[-72:] == list(range(0, 500, 7))


def test_strides_do_not_matter(device):
    x = torch.rand(3, 400, generator=torch.Generator().manual_seed(0)).to(device).t()
    assert not x.is_contiguous()
    assert torch.equal(order_positions(x)[0], order_positions(x.contiguous())[0])


def test_opcheck(device):
    torch.library.opcheck(torch.ops.luxel.order_positions.default, (torch.rand(50, 2, device=device),))


def test_what_is_refused(device):
    with pytest.raises(ValueError, match=r"x must be \[N, 2 or 3\], got \[5, 4\]"):
        order_positions(torch.rand(5, 4, device=device))
    with pytest.raises(ValueError, match=r"x must be \[5, 3\] torch.float32"):
        order_positions(torch.rand(5, 3, device=device).half())
    with pytest.raises(ValueError, match=r"x must have below 2\^30 rows, got 1073741824"):
        order_positions(torch.rand(1, 3, device=device).expand(2**30, 3))
