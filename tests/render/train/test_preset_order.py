"""What the names of presets promise, as far as it can be read from their values: fast <= default <= best."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from luxel.render.primitives import PRIMITIVES
from luxel.render.train.densify.situation import Situation
from luxel.render.train.presets import preset

ORDERED = [name for name, spec in PRIMITIVES.items() if {"fast", "default", "best"} <= set(spec.presets)]
PIXELS = [10**power for power in range(4, 12)]  # of all training images together
SHARES = (
    (0.01, 1.0),
    (0.1, 1.0),
    (0.5, 1.0),
    (0.1, 0.2),
    (0.001, 0.01),
)  # pixels with detail, pixels of the scene


def situation(pixels: int, detail: float, coverage: float) -> Situation:
    content: dict[str, Any] = {"pixels": pixels, "detail": round(detail * pixels), "coverage": coverage}
    return Situation(0, 0.0, 30_000, 1.0, None, torch.Generator(), **content)


def test_the_ordered_presets_are_those_of_gaussians_and_surfels() -> None:
    assert ORDERED == ["gaussians", "surfels"]


@pytest.mark.parametrize("primitive", ORDERED)
def test_a_better_preset_takes_no_fewer_views(primitive: str) -> None:
    for pixels in PIXELS:
        fast, default, best = (preset(name, primitive).sized(pixels) for name in ("fast", "default", "best"))
        assert fast.steps <= default.steps <= best.steps
        assert fast.steps * fast.batch <= default.steps * default.batch < best.steps * best.batch


@pytest.mark.parametrize("primitive", ORDERED)
def test_a_better_preset_allows_no_fewer_primitives_and_splits_no_less(primitive: str) -> None:
    strategies: list[Any] = [preset(name, primitive).strategy for name in ("fast", "default", "best")]
    for pixels in PIXELS:
        for detail, coverage in SHARES:
            limits = [strategy.limit(situation(pixels, detail, coverage)) for strategy in strategies]
            assert limits == sorted(limits)
    _, default, best = strategies
    assert type(default) is type(best) and default.window(30_000) == best.window(30_000)
    assert best.grow_grad2d <= default.grow_grad2d and best.finer_power >= default.finer_power


@pytest.mark.parametrize("primitive", ORDERED)
def test_caps_follow_the_content_not_a_constant(primitive: str) -> None:
    for name in ("fast", "default", "best"):
        strategy: Any = preset(name, primitive).strategy
        assert preset(name, primitive).max_gaussians is None and strategy.cap_max is None
        one, ten = (strategy.limit(situation(pixels, 0.3, 1.0)) for pixels in (10**8, 10**9))
        assert ten == pytest.approx(10 * one, rel=1e-4), "with the number of pixels"
        plain, rich = (strategy.limit(situation(10**9, detail, 1.0)) for detail in (0.25, 0.5))
        assert rich == pytest.approx(2 * plain, rel=1e-4), "with the share of them that shows detail"
        soft = strategy.limit(situation(10**9, 0.1, 1.0))
        cut_out = strategy.limit(situation(10**9, 0.1, 0.3))
        assert soft < cut_out, "background without detail does not make an object soft"


@pytest.mark.parametrize("primitive", ORDERED)
def test_best_has_the_recipe_of_default(primitive: str) -> None:
    """It differs in what more work gives; no weight of the loss, no rate and no size of images is another."""
    default, best = (preset(name, primitive).to_dict() for name in ("default", "best"))
    assert {name for name in default if default[name] != best[name]} == {"batch"}
