"""Training of convexes (Held et al. 2025): initialisation, masks, and images of changing size."""

from __future__ import annotations

from math import log

import torch
from torch import Tensor

from luxel.render.geometry.camera import Points
from luxel.render.primitives.convexes.parameters import Convexes
from luxel.render.primitives.spec import Start
from luxel.render.primitives.terms import LossContext, StepScene, StepTerm

PUBLISHED_WIDTH = 1000  # pixels of the images, about, for which the starting smoothness is published


def initialise(points: Points, start: Start) -> Convexes:
    """A round convex at each point, whose published smoothness is scaled to the width of the images.

    The signed values L_j of edges are in px^2, so the smoothness, which multiplies them, is in 1 / px^2.
    """
    init = start.init
    width = sum(view.camera.width for view in start.views) / len(start.views)
    convexes = Convexes.from_points(
        points,
        points_each=init.points_each,
        sigma=init.sigma,
        sh_degree=init.sh_degree,
        opacity=start.opacity,
        device=start.device,
    ).scaled(init.scale_factor)
    convexes.log_delta += 2 * log(PUBLISHED_WIDTH / width)
    return convexes


@torch.no_grad()
def on_resolution_change(scene: Convexes, factor: float) -> None:
    """Scales the smoothness with 1 / px^2, so that convexes look the same in images ``factor`` times as wide."""
    scene.log_delta.sub_(2 * log(factor))


def mask_weight(context: LossContext) -> float:
    """Weight of the mean of the masks before their threshold: only while convexes are split.

    Later, opacities have converged and give masks no gradient, so that the term alone would close every mask.
    """
    return max(0.0, context.loss.mask_weight) if context.densifies else 0.0


def mean_mask(scene: StepScene) -> Tensor:
    """The mean of the masks before their threshold; a scalar."""
    convexes = scene.primitives
    live = convexes.opacity_logits.isfinite()
    return (convexes.mask_logits.sigmoid() * live).sum() * scene.inverse_count[0]


TERMS = (StepTerm("masks", mean_mask, mask_weight, on="rows", kernel="mask_penalty", fixed=True),)
