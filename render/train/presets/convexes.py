"""Presets of convexes (Held et al. 2025): the three sets of numbers that are published."""

from __future__ import annotations

from collections.abc import Callable

from luxel.render.primitives.convexes import STARTING_SIGMA
from luxel.render.train.config import Init, TrainConfig
from luxel.render.train.densify.shaping import ShapingStrategy
from luxel.render.train.rates import ConvexRates


def light() -> TrainConfig:
    """Few convexes: they split only where much is to be gained."""
    return TrainConfig(
        primitive="convexes",
        rates=ConvexRates(),
        strategy=ShapingStrategy(),
        init=Init(sigma=STARTING_SIGMA["light"]),
    )


def outdoor() -> TrainConfig:
    """Many convexes, for scenes under the sky."""
    config = light()
    config.init.sigma = STARTING_SIGMA["outdoor"]
    config.rates = ConvexRates(log_sigma=4e-3)
    config.strategy = ShapingStrategy(grow_sigma=1e-6, far_factor=8.5, child_scale=0.6)
    return config


def indoor() -> TrainConfig:
    """Many convexes, for rooms."""
    config = light()
    config.init.sigma = STARTING_SIGMA["indoor"]
    config.rates = ConvexRates(points=4e-4, points_final=4e-6)
    config.strategy = ShapingStrategy(
        grow_sigma=6e-6,
        far_factor=8.5,
        child_scale=0.7,
        child_log_sigma=0.85,
        prune_mask=0.02,
        refine_stop=9500,
        clip_stop=9000,
    )
    return config


CONVEXES: dict[str, Callable[[], TrainConfig]] = {
    "default": light,
    "light": light,
    "outdoor": outdoor,
    "indoor": indoor,
}
