"""Presets of Gaussians: what to take when only the time matters, or only the result."""

from __future__ import annotations

from collections.abc import Callable

from luxel.render.train.config import Loss, Resolution, TrainConfig
from luxel.render.train.densify.mcmc import McmcStrategy


def fast() -> TrainConfig:
    """Most of the quality in a tenth of the time.

    Coarse to fine (as in DashGaussian, Chen et al. 2025): a quarter of the side at the start. The count grows by a
    tenth at each refinement. All rates fall at the end; more weight on SSIM. Measured on the plush capture (84 views
    of 990x742, 4,000 steps, at most 200,000 Gaussians, one NVIDIA H200): 28.94 dB held out, where 3DGS-MCMC as
    published ends with 28.15; growth alone 28.71, SSIM alone 28.60, falling rates alone 28.52, coarse to fine alone
    28.48 (beside 28.35) and a seventh less time. In the 3,600 steps of this preset: 28.83 and 28.94 (two seeds), in
    2.9 s; 3,000 steps at full size from 0.4 of the run on take 2.7 s for 28.75 and 28.68.
    """
    config = TrainConfig(
        steps=3600,
        strategy=McmcStrategy(growth=0.1),
        resolution=Resolution(halvings=2, until=0.55),
        loss=Loss(ssim_weight=0.4),
    )
    config.rates.final_factor, config.rates.final_from = 0.1, 0.6
    return config


def default() -> TrainConfig:
    """3DGS-MCMC with a count that follows the number of pixels, which does not overfit in long runs.

    Measured on one NVIDIA H200, held-out dB after 10,000 and 30,000 steps, with at most 200,000 Gaussians (chair
    300,000), beside adaptive density control: plush 28.50, 29.25 (28.42, 28.27), fox 32.03, 32.44 (31.85, 31.45),
    chair 33.26, 36.46 (34.32, 36.20).
    """
    return TrainConfig()


def best() -> TrainConfig:
    """Twice the Gaussians and half again as many steps."""
    return TrainConfig(steps=45_000, strategy=McmcStrategy(pixels_each=128))


GAUSSIANS: dict[str, Callable[[], TrainConfig]] = {"default": default, "fast": fast, "best": best}
