"""The difference between rendered and known depth, of captures with depth maps or points."""

from __future__ import annotations

from torch import Tensor

from luxel.render.ops.train.depth_loss import DepthLoss, depth_loss
from luxel.render.ops.train.gather_view import DEPTH
from luxel.render.primitives.terms import StepImages, StepTerm, Weight
from luxel.render.primitives.training import exponential
from luxel.render.train.config import TrainConfig

FIRST_WEIGHTS = {"metric": 0.2, "align": 0.05}  # at the start, unless the configuration has one


def depth_weight(config: TrainConfig, progress: float) -> float:
    """Weight of the depth in the loss; 0 without depth.

    Args:
        config: of the run.
        progress: share of the run that is done, in [0, 1].
    """
    if config.depth == "none":
        return 0.0
    first = FIRST_WEIGHTS[config.depth_scale] if config.depth_weight is None else config.depth_weight
    return exponential(first, first * config.depth_final, progress)


def step_terms(config: TrainConfig) -> tuple[StepTerm, ...]:
    """The term, see `luxel.render.ops.train.depth_loss.depth_loss`; its weight is in the table of the steps."""
    fits = config.depth_scale == "align"

    def compared(images: StepImages, transmittance: Tensor, weight: Weight) -> DepthLoss:
        assert images.known_depth is not None, "images of a run with depth have one"
        known, strength = (images.known_depth, images.weight), weight.on_device[None]
        return depth_loss(images.depth, transmittance, *known, strength, fits=fits)

    def apply(images: StepImages, weight: Weight) -> Tensor:
        return compared(images, 1 - images.alpha, weight).loss

    def gradients(images: StepImages, weight: Weight) -> tuple[Tensor, dict[str, Tensor]]:
        result = compared(images, images.transmittance, weight)
        return result.loss, {"depth": result.g_accumulated, "transmittance": result.g_transmittance}

    return (
        StepTerm(
            "depth",
            apply,
            lambda context: depth_weight(config, context.progress),
            frozenset({"depth", "transmittance"}),
            gradients=gradients,
            column=DEPTH.start,
        ),
    )
