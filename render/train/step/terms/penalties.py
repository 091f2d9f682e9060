"""The densification strategy's penalties of opacity and scale (3DGS-MCMC, Kheradmand et al. 2024)."""

from __future__ import annotations

from torch import Tensor

from luxel.render.primitives.terms import StepScene, StepTerm
from luxel.render.train.config import TrainConfig


def mean_opacity(scene: StepScene) -> Tensor:
    """The mean opacity, a scalar; spare rows have opacity 0."""
    return scene.primitives.opacities.sum() * scene.inverse_count[0]


def mean_scale(scene: StepScene) -> Tensor:
    """The mean of the scales along all axes, a scalar in capture units, without spare rows."""
    live = scene.primitives.opacity_logits.isfinite()[:, None]
    scales = (scene.primitives.log_scales.exp() * live).mean(-1)
    return scales.sum() * scene.inverse_count[0]


def step_terms(config: TrainConfig) -> tuple[StepTerm, ...]:
    """Both, with the weights that the strategy gives."""
    return (
        StepTerm(
            "opacity",
            mean_opacity,
            lambda context: context.penalties[0],
            on="rows",
            kernel="opacity_penalty",
            fixed=True,
        ),
        StepTerm(
            "scale",
            mean_scale,
            lambda context: context.penalties[1],
            on="rows",
            kernel="scale_penalty",
            columns="log_scales",
            fixed=True,
        ),
    )
