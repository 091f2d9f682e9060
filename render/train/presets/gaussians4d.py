"""Presets of 4D Gaussians (Duan et al. 2024): objects seen at one moment each, and video from several cameras."""

from __future__ import annotations

from collections.abc import Callable

from luxel.render.train.config import Init, Loss, TrainConfig
from luxel.render.train.densify.spacetime import SpacetimeStrategy
from luxel.render.train.rates import Rates4d


def dnerf() -> TrainConfig:
    """One moving camera, times in [0, 1]: three views a step, opacities driven to 0 or 1."""
    return TrainConfig(
        primitive="gaussians4d",
        steps=20_000,
        batch=3,
        rates=Rates4d(),
        strategy=SpacetimeStrategy(),
    )


def video() -> TrainConfig:
    """Several cameras that run on, times in seconds: two views a step; opacities are left alone."""
    return TrainConfig(
        primitive="gaussians4d",
        steps=20_000,
        batch=2,
        rates=Rates4d(times=9.6e-4, times_final=9.6e-6),
        strategy=SpacetimeStrategy(grow_grad2d=2e-4, grow_grad_t=2e-4, grow_scale_t=0.2),
        loss=Loss(entropy_weight=0.0, neighbour_time=1.0),
        init=Init(time_scale=2**0.5, time_margin=0.1),
    )


GAUSSIANS4D: dict[str, Callable[[], TrainConfig]] = {"default": dnerf, "dnerf": dnerf, "video": video}
