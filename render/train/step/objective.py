"""Terms of the loss beside the photometric one, and the error that is reported."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from luxel.render.primitives.spec import LossContext
from luxel.render.primitives.training import Loss
from luxel.render.train.config import TrainConfig
from luxel.render.train.views.dataset import Target


def loss_context(config: TrainConfig, densifies: bool, extent: float, coverage: float) -> LossContext:
    """The inputs of a primitive's loss terms in a step.

    Args:
        config: of the run.
        densifies: whether the step gathers statistics for densification.
        extent: of the scene, capture units.
        coverage: share of the pixels of the training images that show the scene.
    """
    opacity, scale = config.strategy.penalties(coverage)
    return LossContext(config.loss, (opacity, scale / extent), densifies)


def alpha_term(alpha: Tensor, target: Target, settings: Loss) -> Tensor | float:
    """``alpha_weight`` times the mean of weight |alpha - mask| over all pixels, a scalar; 0.0 without a mask."""
    if target.alpha is None or not settings.alpha_weight > 0:
        return 0.0
    off = (alpha - target.alpha).abs()
    return settings.alpha_weight * (off if target.weight is None else off * target.weight).mean()


def penalties(scene: Any, weights: tuple[float, float], inverse_count: Tensor) -> Tensor | float:
    """Weights times the mean opacity and the mean scale in capture units, a scalar.

    Args:
        scene: primitives, spare rows of opacity 0 included; their scales are left out.
        weights: of opacity and of scale, as `loss_context` gives them.
        inverse_count: 1 / N without the spare ones, [1].
    """
    opacity, scale = weights
    total: Tensor | float = 0.0
    if opacity > 0:
        total = total + opacity * scene.opacities.sum() * inverse_count[0]
    if scale > 0:
        live = scene.opacity_logits.isfinite()[:, None]
        scales = (scene.log_scales.exp() * live).mean(-1)
        total = total + scale * scales.sum() * inverse_count[0]
    return total


def squared_error(rgb: Tensor, target: Target) -> Tensor:
    """Mean squared error of a render clamped to [0, 1], weighted per pixel; a scalar."""
    squares = (rgb.clamp(0, 1) - target.rgb).square().mean(-1)
    if target.weight is None:
        return squares.mean()
    return (squares * target.weight).sum() / target.weight.sum().clamp_min(1)
