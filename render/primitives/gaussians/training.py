"""Training of 3D Gaussians: learning rates, initialisation, and penalties."""

from __future__ import annotations

from dataclasses import dataclass

from luxel.render.bounds import FinalRate, Rate
from luxel.render.camera import Points
from luxel.render.primitives.gaussians.parameters import Gaussians
from luxel.render.primitives.spec import LossContext, Start
from luxel.render.primitives.training import Rates


@dataclass
class GaussianRates(Rates):
    """Learning rates of Gaussians (Kerbl et al. 2023)."""

    means: Rate = 1.6e-4
    """Centres at the start, times the scene extent."""
    means_final: FinalRate = 1.6e-6
    """Centres at the end, times the scene extent; exponential in between."""
    quats: Rate = 1e-3
    """Rotations."""
    log_scales: Rate = 5e-3
    """Logarithms of the scales."""
    opacity_logits: Rate = 5e-2
    """Opacities before the sigmoid."""
    sh_dc: Rate = 2.5e-3
    """Colour (spherical harmonics of degree 0)."""
    sh_rest: Rate = 2.5e-3 / 20
    """View-dependent colour (spherical harmonics of degrees 1 to 3)."""


def initialise(points: Points, start: Start) -> Gaussians:
    """One Gaussian at each point."""
    return Gaussians.from_points(
        points,
        sh_degree=start.init.sh_degree,
        opacity=start.opacity,
        scale_factor=start.init.scale_factor,
        device=start.device,
    )


def penalties(context: LossContext) -> dict[str, float]:
    """The strategy's weights of mean opacity and mean scale, the latter per axis: the backward sums over three axes."""
    opacity, scale = context.penalties
    return {"opacity_penalty": opacity, "scale_penalty": scale / 3}
