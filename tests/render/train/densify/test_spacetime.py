"""Density control of 4D Gaussians: pulled in space or in time, large in either."""

from __future__ import annotations

from math import log
from typing import Any

import pytest
import torch

from luxel.render.errors import LuxelError
from luxel.render.ops.raster.slice_gaussians4d import rotor_to_matrix
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.primitives.gaussians4d import Gaussians4d
from luxel.render.raster.rasterize import DensifyStatistics
from luxel.render.train.densify.situation import Situation
from luxel.render.train.densify.spacetime import SpacetimeStrategy
from luxel.render.train.store.resident import ResidentStore


def row(scales: list[float], lasts: list[float]) -> Gaussians4d:
    n = len(scales)
    still = Gaussians(
        torch.arange(n).float()[:, None] * torch.tensor([1.0, 0, 0]),
        torch.tensor([1.0, 0, 0, 0]).repeat(n, 1),
        torch.tensor(scales).log()[:, None].repeat(1, 3),
        torch.zeros(n),
        torch.rand(n, 3),
        torch.zeros(n, 3, 3),
    )
    out = Gaussians4d.from_gaussians(still, time=0.5)
    out.log_scale_t = torch.tensor(lasts).log()
    return out


def situation(data: list[list[float]], **changes: Any) -> Situation:
    values: dict[str, Any] = {
        "step": 600,
        "clock": 600.0,
        "steps": 30_000,
        "extent": 10.0,
        "cap": None,
        "generator": torch.Generator().manual_seed(0),
        "statistics": DensifyStatistics(torch.tensor(data)),
        "duration": 2.0,
    }
    return Situation(**{**values, **changes})


def test_growth_looks_at_space_and_time() -> None:
    # Small and brief; small and lasting; large and brief; nothing pulls the last.
    store = ResidentStore(row([0.01, 0.01, 0.5, 0.01], [0.1, 3.0, 0.1, 0.1]))
    before = store.scene.map(torch.clone)
    pulled = [[2e-4, 0, 2, 0], [0, 2e-4, 2, 0], [2e-4, 2e-4, 2, 0], [6e-5, 6e-5, 2, 0]]
    done = SpacetimeStrategy().after_step(store, situation(pulled))
    assert done is not None and (done.cloned, done.split, done.pruned) == (1, 2, 0)
    after = store.scene
    assert after.count == 2 + 1 + 4
    assert torch.equal(after.means[[0, 1, 2]], before.means[[0, 3, 0]])
    parts = after.select(torch.arange(3, 7))
    sources = torch.tensor([1, 2, 1, 2])
    torch.testing.assert_close(parts.log_scales, before.log_scales[sources] - log(1.6))
    torch.testing.assert_close(parts.log_scale_t, before.log_scale_t[sources] - log(1.6))
    moved = torch.cat(
        [parts.means - before.means[sources], (parts.times - before.times[sources])[:, None]], -1
    )
    assert (moved != 0).all() and (moved.abs() < 5 * before.scales[sources]).all()


def test_parts_scatter_as_their_source() -> None:
    source = row([0.2], [0.7])
    source.rotors = torch.tensor([[0.8, 0.3, -0.2, 0.1, 0.4, -0.3, 0.2, 0.1]])
    parts = SpacetimeStrategy()._parts(
        source.select(torch.zeros(40_000, dtype=torch.long)), torch.Generator().manual_seed(1)
    )
    places = torch.cat([parts.means, parts.times[:, None]], -1)
    root = rotor_to_matrix(source.rotors)[0] * source.scales[0]
    torch.testing.assert_close(torch.cov(places.T), root @ root.T, rtol=0.05, atol=0.01)


def test_the_cap_and_what_is_removed() -> None:
    store = ResidentStore(row([0.01] * 3, [0.1] * 3))
    store.scene.opacity_logits[2] = -10
    done = SpacetimeStrategy().after_step(
        store, situation([[1.0, 0, 1, 0], [0, 2.0, 1, 0], [0, 0, 1, 0]], cap=4)
    )
    assert done is not None and (done.cloned, done.pruned) == (1, 1)
    assert store.scene.means[:, 0].tolist() == [0, 1, 1], "the hardest pulled was cloned"


def test_options_without_sense_are_refused() -> None:
    with pytest.raises(LuxelError, match="absolute gradients"):
        SpacetimeStrategy(absolute=True).check()
    with pytest.raises(LuxelError, match="grow_grad_t 0"):
        SpacetimeStrategy(grow_grad_t=0)
