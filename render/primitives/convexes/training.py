"""Training of convexes (Held et al. 2025): initialisation, masks, and images of changing size."""

from __future__ import annotations

from math import log

import torch
from torch import Tensor

from luxel.render.geometry.camera import Points
from luxel.render.primitives.convexes.parameters import Convexes
from luxel.render.primitives.spec import LossContext, Start, Term

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


def regularise(scene: Convexes, visible: Tensor, inverse_count: Tensor, context: LossContext) -> list[Term]:
    """The mean of the masks before their threshold."""
    weight = mask_weight(context)
    if not weight > 0:
        return []
    live = scene.opacity_logits.isfinite()
    return [(weight, (scene.mask_logits.sigmoid() * live).sum() * inverse_count[0])]


def penalties(context: LossContext) -> dict[str, float]:
    """The weight of the same term for the backward of the projection."""
    return {"mask_penalty": mask_weight(context)}
