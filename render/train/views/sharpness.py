"""Weights of images in the loss by their sharpness."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import View

SHARP = 0.5  # sharpness relative to the views next to it, from which an image counts fully
LEAST = 0.05  # weight


def sharpness_weights(views: Sequence[View]) -> Tensor:
    """Weights of the views' losses: the square of ``sharpness`` / 0.5, within [0.05, 1].

    A blurred image still has some weight, so that what no other shows is learnt from it.

    Args:
        views: for training; those of unknown sharpness have weight 1.

    Returns:
        float32 [V].

    Raises:
        LuxelError: no view has a sharpness.
    """
    if all(view.sharpness is None for view in views):
        raise LuxelError(
            "downweight_blur needs the sharpness of the images, but it was not measured.",
            "Measure it with luxel.scenes.captures.checks.blur.with_sharpness, as `luxel train` does.",
        )
    sharpness = torch.tensor([SHARP if view.sharpness is None else view.sharpness for view in views])
    return (sharpness / SHARP).square().clamp(LEAST, 1)
