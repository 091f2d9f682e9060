"""Training of 3D Gaussians: initialisation."""

from __future__ import annotations

from luxel.render.geometry.camera import Points
from luxel.render.primitives.gaussians.parameters import Gaussians
from luxel.render.primitives.spec import Start


def initialise(points: Points, start: Start) -> Gaussians:
    """One Gaussian at each point."""
    return Gaussians.from_points(
        points,
        sh_degree=start.init.sh_degree,
        opacity=start.opacity,
        scale_factor=start.init.scale_factor,
        device=start.device,
    )
