"""What the weights of the loss depend on, and the error that is reported."""

from __future__ import annotations

from torch import Tensor

from luxel.render.primitives.terms import LossContext
from luxel.render.train.config import TrainConfig
from luxel.render.train.views.dataset import Target


def loss_context(
    config: TrainConfig, densifies: bool, extent: float, coverage: float, progress: float = 0.0
) -> LossContext:
    """What the weights of the terms of a step depend on.

    Args:
        config: of the run.
        densifies: whether the step gathers statistics for densification.
        extent: of the scene, capture units.
        coverage: share of the pixels of the training images that show the scene.
        progress: share of the run that is done, in [0, 1].
    """
    opacity, scale = config.strategy.penalties(coverage)
    return LossContext(config.loss, (opacity, scale / extent), densifies, progress)


def squared_error(rgb: Tensor, target: Target) -> Tensor:
    """Mean squared error of a render clamped to [0, 1], weighted per pixel; a scalar, NaN if no pixel counts."""
    squares = (rgb.clamp(0, 1) - target.rgb).square().mean(-1)
    if target.weight is None:
        return squares.mean()
    return (squares * target.weight).sum() / target.weight.sum()
