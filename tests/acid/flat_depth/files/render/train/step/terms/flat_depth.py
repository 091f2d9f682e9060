"""A penalty of steps in depth between the rows of an image."""

from __future__ import annotations

from torch import Tensor

from luxel.render.primitives.terms import StepImages, StepTerm
from luxel.render.train.config import TrainConfig


def flat_depth(images: StepImages) -> Tensor:
    """The mean difference of depth, times its weight in the image, between a pixel and the one below, a scalar."""
    return (images.depth[:, 1:] - images.depth[:, :-1]).abs().mean()


def step_terms(config: TrainConfig) -> tuple[StepTerm, ...]:
    """The term."""
    return (StepTerm("flat_depth", flat_depth, lambda context: 0.01, frozenset({"depth"})),)
