"""Presets of convexes: the three sets of numbers that Held et al. 2025 publish, and a faster one."""

from __future__ import annotations

from collections.abc import Callable

from luxel.render.primitives.convexes import STARTING_SIGMA
from luxel.render.train.config import Init, TrainConfig
from luxel.render.train.densify.shaping import ShapingStrategy
from luxel.render.train.rates import ConvexRates


def default() -> TrainConfig:
    """`light` with faster points and opacities.

    Measured on the chair (100 views of 200x200, 2,000 steps, SH degree 1, at most 6,000 convexes, CPU), held out: 32.58
    dB, with the points four times as fast alone 32.05, opacities five times as fast alone 31.61, light 30.20. Our own
    Gaussians with the same start and cap: 31.12 (adaptive), 29.90 (mcmc). After 6,000 steps: 34.20, light 33.33,
    adaptive 33.65. At 800x800 there is nothing between the two (30,000 steps from random points, at most 30,000, no
    masks, one NVIDIA H200): 31.50, light 31.59.
    """
    config = light()
    config.rates = ConvexRates(points=2e-3, points_final=2e-5, opacity_logits=5e-2)
    return config


def light() -> TrainConfig:
    """Few convexes: they split only where much is to be gained.

    Measured on the chair (100 views of 800x800, triangulated points, 30,000 steps, at most 30,000, one NVIDIA H200):
    32.99 and 32.87 dB held out with some 23,200 convexes (two runs). Our own Gaussians, 23,000: 33.13 (mcmc), 33.65
    (adaptive); 27,000, which take as much memory: 33.44, 33.95.
    """
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
    "default": default,
    "light": light,
    "outdoor": outdoor,
    "indoor": indoor,
}
