"""The difference between rendered and given alpha, of cut-out captures."""

from __future__ import annotations

from torch import Tensor

from luxel.render.ops.train.alpha_slope import alpha_slope
from luxel.render.primitives.terms import StepImages, StepTerm, Weight
from luxel.render.train.config import TrainConfig


def alpha_difference(alpha: Tensor, known: Tensor, weight: Tensor | None) -> Tensor:
    """The mean of weight |alpha - known| over all pixels, a scalar; all of one shape, and a weight of None is 1."""
    off = (alpha - known).abs()
    return (off if weight is None else off * weight).mean()


def alpha(images: StepImages, weight: Weight) -> Tensor | None:
    """`alpha_difference` times its weight; None where the training images have no alpha."""
    if images.known_alpha is None:
        return None
    return weight.on_device * alpha_difference(images.alpha, images.known_alpha, images.weight)


def gradients(images: StepImages, weight: Weight) -> tuple[Tensor | None, dict[str, Tensor]]:
    """The gradient of `alpha` by the transmittance, by one kernel; without the value."""
    if images.known_alpha is None:
        return None, {}
    slope = alpha_slope(images.transmittance, images.known_alpha, images.weight, weight.number)
    return None, {"transmittance": slope}


def step_terms(config: TrainConfig) -> tuple[StepTerm, ...]:
    """The term, which counts where training images have an alpha."""
    reads = frozenset({"transmittance"})
    return (
        StepTerm(
            "alpha",
            alpha,
            lambda context: context.loss.alpha_weight,
            reads=reads,
            gradients=gradients,
            fixed=True,
        ),
    )
