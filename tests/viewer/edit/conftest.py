"""Small scenes of every primitive that the tests of editing start from."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from luxel.render.primitives import PRIMITIVES, Gaussians, Parameters


def grid_of(side: int = 6) -> Gaussians:
    """Gaussians at the integer points of a cube, with random other parameters."""
    generator = torch.Generator().manual_seed(1)
    axis = torch.arange(side, dtype=torch.float32)
    means = torch.stack(torch.meshgrid(axis, axis, axis, indexing="ij"), -1).reshape(-1, 3)
    n = len(means)
    return Gaussians(
        means=means,
        quats=torch.randn(n, 4, generator=generator),
        log_scales=-2 + 0.3 * torch.randn(n, 3, generator=generator),
        opacity_logits=torch.randn(n, generator=generator),
        sh_dc=torch.randn(n, 3, generator=generator),
        sh_rest=0.1 * torch.randn(n, 15, 3, generator=generator),
    )


@pytest.fixture
def grid() -> Callable[..., Gaussians]:
    """`grid_of`."""
    return grid_of


@pytest.fixture(params=list(PRIMITIVES))
def any_scene(request: pytest.FixtureRequest) -> Parameters:
    """The grid of each registered primitive."""
    return PRIMITIVES[request.param].from_gaussians(grid_of())
