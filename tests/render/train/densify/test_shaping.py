"""Adaptive convex shaping: what splits, into what, and what goes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from luxel.render.errors import LuxelError
from luxel.render.primitives.convexes import Convexes, fibonacci_sphere
from luxel.render.raster.rasterize import DensifyStatistics
from luxel.render.train.densify.shaping import ShapingStrategy
from luxel.render.train.densify.situation import Situation
from luxel.render.train.presets import preset
from luxel.render.train.store.resident import ResidentStore


def convexes(opacities: list[float], size: float = 0.1, k: int = 5) -> Convexes:
    n = len(opacities)
    centres = torch.arange(n).float()[:, None] * torch.tensor([1.0, 0, 0])
    return Convexes(
        points=centres[:, None] + size * fibonacci_sphere(k).float(),
        log_delta=torch.full((n,), 0.3),
        log_sigma=torch.full((n,), -7.0),
        opacity_logits=torch.tensor(opacities).logit(),
        sh_dc=torch.rand(n, 3, generator=torch.Generator().manual_seed(1)),
        sh_rest=torch.zeros(n, 3, 3),
        mask_logits=torch.ones(n),
    )


def situation(step: int, scores: list[float], seen: list[float], **changes: Any) -> Situation:
    data = torch.zeros(len(scores), 4)
    data[:, 0], data[:, 2] = torch.tensor(scores), torch.tensor(seen)
    values: dict[str, Any] = {
        "step": step,
        "clock": float(step),
        "steps": 30_000,
        "extent": 5.0,
        "cap": None,
        "generator": torch.Generator(),
        "statistics": DensifyStatistics(data),
    }
    return Situation(**{**values, **changes})


def test_those_pulled_to_be_softer_become_one_at_each_point() -> None:
    store, strategy = ResidentStore(convexes([0.4] * 4)), ShapingStrategy()
    before = store.scene.map(torch.clone)
    # Means: 3e-5, 2e-5, -3e-5, and one that no view saw.
    now = situation(600, [6e-5, 2e-5, -6e-5, 0.0], [2, 1, 2, 0])
    done = strategy.after_step(store, now)
    assert done is not None and (done.split, done.pruned) == (1, 0)
    after = store.scene
    assert after.count == 3 + 5
    assert torch.equal(after.points[:3], before.points[1:])
    parts = after.select(torch.arange(3, 8))
    torch.testing.assert_close(parts.centroids, before.points[0])
    shape = before.points[0] - before.centroids[0]
    torch.testing.assert_close(parts.points - parts.centroids[:, None], 0.63 * shape[None].expand(5, -1, -1))
    torch.testing.assert_close(parts.opacities, torch.full((5,), 0.2))
    torch.testing.assert_close(parts.log_sigma, torch.full((5,), -7 * 0.88))
    assert torch.equal(parts.log_delta, before.log_delta[:1].expand(5))
    assert torch.equal(parts.sh_dc, before.sh_dc[:1].expand(5, 3))
    assert not store.exp_avg["points"].any()


def test_the_cap_lets_the_highest_scores_split() -> None:
    store = ResidentStore(convexes([0.4] * 4))
    done = ShapingStrategy().after_step(store, situation(600, [1, 3, 2, 4], [1] * 4, cap=13))
    assert done is not None and done.split == 2 and store.count == 12
    kept = store.scene.centroids[:2, 0]
    torch.testing.assert_close(kept, convexes([0.4] * 4).centroids[[0, 2], 0])


def test_scenes_that_are_far_need_more() -> None:
    for extent, split in ((299.0, 1), (301.0, 0)):
        store = ResidentStore(convexes([0.4]))
        done = ShapingStrategy(far_factor=8.5).after_step(store, situation(600, [1e-4], [1], extent=extent))
        assert done is not None and done.split == split


@pytest.mark.parametrize(
    ("step", "left"),
    [(600, [0, 4]), (3200, [0]), (10_000, [0, 4]), (10_001, [0, 1, 2, 3, 4])],
    ids=["splitting", "later", "afterwards", "between"],
)
def test_faint_masked_broken_and_huge_ones_go(step: int, left: list[int]) -> None:
    scene = convexes([0.4, 0.02, 0.4, 0.4, 0.4])
    scene.mask_logits[2] = -5.0
    scene.points[3, 0, 0] = torch.nan
    scene.points[4] = scene.centroids[4] + 40 * (scene.points[4] - scene.centroids[4])
    store, expected = ResidentStore(scene), scene.select(torch.tensor(left)).points
    ShapingStrategy(clip_every=0).after_step(store, situation(step, [0.0] * 5, [1] * 5))
    torch.testing.assert_close(store.scene.points, expected, equal_nan=True)


@pytest.mark.parametrize(
    ("name", "steps", "clips"),
    [
        ("light", 30_000, [3000, 6000]),
        ("outdoor", 45_000, [3000, 6000]),
        ("light", 15_000, [3000]),
        ("indoor", 30_000, [3000, 6000, 9000]),
        ("indoor", 45_000, [3000, 6000, 9000]),
        ("indoor", 21_000, [3000, 6000]),
    ],
)
def test_opacities_are_clipped_as_published(name: str, steps: int, clips: list[int]) -> None:
    strategy, clipped = preset(name, "convexes").strategy, []
    assert isinstance(strategy, ShapingStrategy)
    strategy.prune_opacity, strategy.prune_scale = 0.0, 100.0
    for step in range(1000, steps + 1, 1000):
        store = ResidentStore(convexes([0.1, 0.9]))
        store.exp_avg["opacity_logits"].fill_(1)
        if strategy.due(step, step, steps):
            strategy.after_step(store, situation(step, [0.0] * 2, [1] * 2, steps=steps))
        if float(store.scene.opacities.max()) < 0.5:
            torch.testing.assert_close(store.scene.opacities, torch.tensor([0.1, 0.2]))
            assert not store.exp_avg["opacity_logits"].any()
            clipped.append(step)
    assert clipped == clips


def test_opacities_are_never_clipped_after_the_splitting() -> None:
    strategy = ShapingStrategy(refine_stop=4000, clip_stop=9000, prune_every=10**6)
    assert [step for step in range(3000, 30_001, 3000) if strategy.due(step, step, 30_000)] == [3000]


def test_options_without_sense_are_refused() -> None:
    for name, value in {"refine_every": 0, "clip_opacity": 1.0, "child_scale": 0}.items():
        with pytest.raises(LuxelError, match=name):
            ShapingStrategy(**{name: value})
