"""Training of Gaussians of two and three axes: initialisation and penalties."""

from __future__ import annotations

from typing import TypeVar

from luxel.render.geometry.camera import Points
from luxel.render.primitives.gaussian_parameters import GaussianParameters
from luxel.render.primitives.spec import LossContext, Start

P = TypeVar("P", bound=GaussianParameters)


def initialise(kind: type[P], points: Points, start: Start) -> P:
    """One of ``kind`` at each point."""
    return kind.from_points(
        points,
        sh_degree=start.init.sh_degree,
        opacity=start.opacity,
        scale_factor=start.init.scale_factor,
        device=start.device,
    )


def penalties(kind: type[GaussianParameters], context: LossContext) -> dict[str, float]:
    """The strategy's weights of mean opacity and mean scale, the latter per axis: the backward sums over the axes."""
    opacity, scale = context.penalties
    return {"opacity_penalty": opacity, "scale_penalty": scale / kind.axes}
