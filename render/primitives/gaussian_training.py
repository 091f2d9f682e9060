"""Training of Gaussians of two and three axes: initialisation."""

from __future__ import annotations

from typing import TypeVar

from luxel.render.geometry.camera import Points
from luxel.render.primitives.gaussian_parameters import GaussianParameters
from luxel.render.primitives.spec import Start

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
