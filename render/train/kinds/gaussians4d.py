"""4D Gaussians under the trainer (Duan et al. 2024)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from luxel.render.camera import Points, View
from luxel.render.ops.train.opacity_entropy import opacity_entropy
from luxel.render.primitives.gaussians4d import Gaussians4d
from luxel.render.train.kinds.kind import Kind, Term
from luxel.render.train.neighbourhood import Neighbourhood
from luxel.render.train.rates import Rates4d

if TYPE_CHECKING:
    from luxel.render.train.config import TrainConfig
    from luxel.render.train.timeline import ScheduleValues


def first_gaussians4d(
    points: Points, config: TrainConfig, views: Sequence[View], device: torch.device
) -> Gaussians4d:
    """One at each point, at a random time of the capture."""
    init = config.init
    times = [view.time for view in views]
    start, end = min(times), max(times)
    duration = (end - start) or 1.0
    margin = init.time_margin * duration
    return Gaussians4d.from_points(
        points,
        times=(start - margin, end + margin),
        time_scale=None if init.time_scale is None else init.time_scale * duration,
        sh_degree=init.sh_degree,
        opacity=config.strategy.first_opacity if init.opacity is None else init.opacity,
        seed=config.seed,
        device=device,
    ).scaled(init.scale_factor)


def opacity_term(
    scene: Gaussians4d, visible: Tensor, inverse_count: Tensor, config: TrainConfig, moment: ScheduleValues
) -> list[Term]:
    """The entropy of the opacities."""
    weight = config.loss.entropy_weight
    return [(weight, opacity_entropy(scene.opacity_logits, visible))] if weight > 0 else []


def neighbourhood(config: TrainConfig) -> Neighbourhood | None:
    """Who is compared with whom, where velocities are."""
    return Neighbourhood(config.loss) if config.loss.consistency_weight > 0 else None


GAUSSIANS4D = Kind(
    Gaussians4d, Rates4d, ("spacetime", "fixed"), first_gaussians4d, opacity_term, neighbourhood
)
