"""Options of training 3D Gaussians: learning rates."""

from __future__ import annotations

from dataclasses import dataclass

from luxel.render.bounds import FinalRate, Rate
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
