"""Convexes under the trainer (Held et al. 2025)."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from luxel.render.camera import Points, View
from luxel.render.primitives.convexes import Convexes
from luxel.render.train.kinds.kind import Kind, Term
from luxel.render.train.rates import ConvexRates

if TYPE_CHECKING:
    from luxel.render.train.config import TrainConfig
    from luxel.render.train.timeline import ScheduleValues


PUBLISHED_WIDTH = 1000  # pixels of the photographs, about, for which the starting smoothness is published


def first_convexes(
    points: Points, config: TrainConfig, views: Sequence[View], device: torch.device
) -> Convexes:
    """A round one at each point, as smooth to the eye as published whatever the size of the photographs.

    Edges count in pixels, and L_j in their square: so does the smoothness, in reverse.
    """
    init = config.init
    width = sum(view.camera.width for view in views) / len(views)
    convexes = Convexes.from_points(
        points,
        points_each=init.points_each,
        sigma=init.sigma,
        sh_degree=init.sh_degree,
        opacity=config.strategy.first_opacity if init.opacity is None else init.opacity,
        device=device,
    ).scaled(init.scale_factor)
    convexes.log_delta += 2 * log(PUBLISHED_WIDTH / width)
    return convexes


def mask_weight(config: TrainConfig, moment: ScheduleValues) -> float:
    """Of the mean of the masks before their threshold: those that are not needed close, while others split.

    Later there is no such term: an opacity that has found its value leaves a mask no slope, so that sooner or later all
    would close. With it to the end 30,000 convexes on the chair (one NVIDIA H200) became 3,357, and 32.4 dB 29.7.
    """
    return config.loss.mask_weight if moment.counts else 0.0


def mask_term(
    scene: Convexes, visible: Tensor, inverse_count: Tensor, config: TrainConfig, moment: ScheduleValues
) -> list[Term]:
    """The mean of the masks before their threshold."""
    weight = mask_weight(config, moment)
    if not weight > 0:
        return []
    live = scene.opacity_logits.isfinite()
    return [(weight, (scene.mask_logits.sigmoid() * live).sum() * inverse_count[0])]


def penalties(config: TrainConfig, moment: ScheduleValues) -> dict[str, float]:
    """The same by the projection's backward."""
    return {"mask_penalty": max(0.0, mask_weight(config, moment))}


CONVEXES = Kind(Convexes, ConvexRates, ("shaping", "fixed"), first_convexes, mask_term, penalties=penalties)
