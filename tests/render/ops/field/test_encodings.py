"""Encodings as modules: sizes of grids, what starts and learns, frequencies and spherical harmonics."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from grid_cases import HASHED, D, inputs, levels_of

from luxel.render.fields.applications import application_type
from luxel.render.fields.encodings.frequency import FrequencyEncoding
from luxel.render.fields.encodings.grid import DENSE_GROWTH, Grid, growth_to
from luxel.render.fields.encodings.grid_encoding import GridEncoding
from luxel.render.fields.encodings.spherical_harmonics import SphericalHarmonicsEncoding
from luxel.render.ops.field.encode_grid import encode_grid


def test_the_kinds_have_the_numbers_of_their_papers():
    nerf = Grid.multi_resolution_hash(3)
    assert (nerf.levels, nerf.features, nerf.width, nerf.resolutions[0]) == (16, 2, 32, 16)
    assert nerf.hashed and nerf.offsets[1] == 16**3 and nerf.offsets[16] - nerf.offsets[15] == 2**19
    for app, finest in {"radiance": 8192, "sdf": 2048, "volume": 612, "image": 512}.items():
        growth = application_type(app).hash_growth
        grid = Grid.multi_resolution_hash(3, growth)
        assert abs(grid.resolutions[-1] / finest - 1) < 2e-3, app
        assert abs(growth_to(16, finest, 16) - growth) < 2e-4
    exact = Grid.multi_resolution_hash(3, growth_to(16, 2048, 16))
    assert exact.resolutions[-1] == 2048  # rounding of the growth makes no point more
    dense = Grid.multi_resolution_dense(3)
    assert (dense.levels, dense.width, dense.hashed, dense.growth) == (8, 16, False, DENSE_GROWTH)
    assert dense.resolutions[-1] == 173 and dense.offsets[-1] - dense.offsets[-2] == 2**19
    whole = Grid.multi_resolution_dense(3, log2_entries=None)
    assert whole.offsets[-1] - whole.offsets[-2] >= 173**3
    low = Grid.low_resolution_dense(3)
    assert (low.levels, low.features, low.resolutions) == (2, 8, (128, 128)) and not low.hashed
    assert low.entries == 2 * 2**19 and Grid.low_resolution_dense(2).entries == 2 * 128**2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dimensions": 5}, "dimensions must be 1 to 4, got 5"),
        ({"levels": 33}, "levels must be 1 to 32"),
        ({"features": 3}, "features must be one of"),
        ({"base": 1}, "base must be 2"),
        ({"growth": 0.9}, "growth must be 1"),
        ({"growth": math.nan}, "growth must be 1"),
        ({"log2_entries": 29}, "log2_entries must be 3 to 28"),
        ({"hashed": "block"}, "hashed must be one of"),
        ({"growth": 100.0}, "finest level"),
        ({"growth": 4.0, "log2_entries": None}, r"log2_entries must be set .* got 1280\^3"),
    ],
)
def test_grids_that_are_refused(change, words):
    usual: dict[str, Any] = {"dimensions": 3, "levels": 5, "features": 2, "base": 5, "growth": 1.5}
    usual |= {"log2_entries": 9, "hashed": True}
    Grid(**usual)
    with pytest.raises(ValueError, match=words):
        Grid(**usual | change)


def test_the_module_learns_and_starts_as_said(device):
    encoding = GridEncoding(HASHED, seed=4, device=device)
    table = encoding.table.detach()
    assert table.abs().max() <= 1e-4 and abs(table.std().item() - 2e-4 / math.sqrt(12)) < 3e-6
    assert torch.equal(table.cpu(), GridEncoding(HASHED, seed=4).table)
    assert not torch.equal(table.cpu(), GridEncoding(HASHED, seed=5).table)
    x = inputs(HASHED, 24, device)[0].reshape(2, 3, 4, 3)
    assert encoding(x).shape == (2, 3, 4, encoding.width)
    assert torch.equal(encoding(x).reshape(24, -1), encode_grid(x.reshape(24, 3), table, *levels_of(HASHED)))
    optimiser = torch.optim.Adam(encoding.parameters(), lr=0.02)
    for _ in range(300):  # to |x|, whose slope is 1: an eikonal loss needs the second gradient
        x = x.detach().requires_grad_()
        distance = encoding(x).sum(-1)
        (slope,) = torch.autograd.grad(distance.sum(), x, create_graph=True)
        loss = ((slope.norm(dim=-1) - 1) ** 2).mean() + ((distance - x.norm(dim=-1)) ** 2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert loss.item() < 0.01  # from 1.9
    with pytest.raises(ValueError, match=r"x must be \[..., 3\]"):
        encoding(x[..., :2])


def test_frequencies():
    x = torch.tensor([[0.25, -1.5]], dtype=D)
    angles = torch.tensor([[0.25, 0.5, 1.0], [-1.5, -3.0, -6.0]], dtype=D) * math.pi
    encoding = FrequencyEncoding(2, 3)
    actual = encoding(x)
    assert actual.shape == (1, encoding.width) == (1, 12)
    torch.testing.assert_close(actual.reshape(2, 3, 2)[..., 0], angles.sin(), rtol=0, atol=1e-12)
    torch.testing.assert_close(actual.reshape(2, 3, 2)[..., 1], angles.cos(), rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match=r"x must be \[..., 2\]"):
        encoding(x[:, :1])
    with pytest.raises(ValueError, match=r"frequencies must be at least 1, got . and 0"):
        FrequencyEncoding(2, 0)


def test_spherical_harmonics_are_orthonormal():
    """Over the sphere, by Gauss and Legendre in z and evenly around it: exact for these polynomials."""
    import numpy as np

    z, weights = (torch.from_numpy(a) for a in np.polynomial.legendre.leggauss(8))
    angle = torch.arange(16, dtype=D) * (2 * math.pi / 16)
    radius = (1 - z * z).sqrt()[:, None]
    parts = (radius * angle.cos(), radius * angle.sin(), z[:, None].expand(8, 16))
    encoding = SphericalHarmonicsEncoding()
    actual = encoding(torch.stack(parts, -1)).reshape(-1, 16)
    area = (weights[:, None] * (2 * math.pi / 16)).expand(8, 16).reshape(-1, 1)
    torch.testing.assert_close(actual.T @ (area * actual), torch.eye(16, dtype=D), rtol=0, atol=1e-12)
    assert [SphericalHarmonicsEncoding(d).width for d in (1, 2, 3, 4)] == [1, 4, 9, 16]
    assert torch.equal(SphericalHarmonicsEncoding(2)(torch.eye(3)), encoding(torch.eye(3))[:, :4])
    with pytest.raises(ValueError, match="degree must be 1 to 4, got 5"):
        SphericalHarmonicsEncoding(5)
    with pytest.raises(ValueError, match=r"directions must be \[..., 3\]"):
        encoding(torch.zeros(2, 4))
