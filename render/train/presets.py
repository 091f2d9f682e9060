"""Whole configurations by name: what to take when only the time matters, or only the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from luxel.render.train.config import Loss, Resolution, TrainConfig
from luxel.render.train.densify.mcmc import McmcStrategy

PresetName = Literal["fast", "default", "best"]


def fast() -> TrainConfig:
    """Most of the quality in a tenth of the time.

    Coarse to fine (as in DashGaussian, Chen et al. 2025, whose count follows the resolution): a quarter of the side
    at the start. The count grows by a tenth at each refinement and is there at half of the run. All rates fall at the
    end, more weight on SSIM.
    """
    config = TrainConfig(
        steps=4000,
        strategy=McmcStrategy(growth=0.1, refine_stop=15_000),
        resolution=Resolution(halvings=2, until=0.4),
        loss=Loss(ssim_weight=0.4),
    )
    config.rates.final_factor, config.rates.final_from = 0.1, 0.6
    return config


def default() -> TrainConfig:
    """3DGS-MCMC with a count that follows the number of pixels, which does not overfit in long runs."""
    return TrainConfig()


def best() -> TrainConfig:
    """Twice the Gaussians and half again as many steps."""
    return TrainConfig(steps=45_000, strategy=McmcStrategy(pixels_each=128))


PRESETS: dict[str, Callable[[], TrainConfig]] = {"fast": fast, "default": default, "best": best}


def preset(name: str) -> TrainConfig:
    """A fresh configuration.

    Raises:
        KeyError: there is none of that name.
    """
    return PRESETS[name]()
