"""3D Gaussians under the trainer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from luxel.render.camera import Points, View
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.train.kinds.kind import Kind
from luxel.render.train.rates import LearningRates

if TYPE_CHECKING:
    from luxel.render.train.config import TrainConfig
    from luxel.render.train.timeline import ScheduleValues


def first_gaussians(
    points: Points, config: TrainConfig, views: Sequence[View], device: torch.device
) -> Gaussians:
    """One at each point."""
    init = config.init
    return Gaussians.from_points(
        points,
        sh_degree=init.sh_degree,
        opacity=config.strategy.first_opacity if init.opacity is None else init.opacity,
        scale_factor=init.scale_factor,
        device=device,
    )


def penalties(config: TrainConfig, moment: ScheduleValues) -> dict[str, float]:
    """The strategy's, of mean opacity and mean scale."""
    opacity, scale = config.strategy.penalties
    return {"opacity_penalty": opacity, "scale_penalty": scale / 3}


GAUSSIANS = Kind(
    Gaussians, LearningRates, ("mcmc", "adaptive", "fixed"), first_gaussians, penalties=penalties
)
