"""Training of surfels (Huang et al. 2024): initialisation."""

from __future__ import annotations

from luxel.render.geometry.camera import Points
from luxel.render.primitives.spec import Start
from luxel.render.primitives.surfels.parameters import Surfels


def initialise(points: Points, start: Start) -> Surfels:
    """One surfel at each point."""
    return Surfels.from_points(
        points,
        sh_degree=start.init.sh_degree,
        opacity=start.opacity,
        scale_factor=start.init.scale_factor,
        device=start.device,
    )
