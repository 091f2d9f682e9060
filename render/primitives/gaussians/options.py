"""Options of training 3D Gaussians: learning rates, and weights of the loss."""

from __future__ import annotations

from dataclasses import dataclass

from luxel.render.bounds import FinalRate, Rate, Share, Weight
from luxel.render.primitives.training import Loss, Rates, counting

NORMALS = "normals"  # name of the term of the geometry


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


@dataclass
class GaussianLoss(Loss):
    """Weights of the loss of Gaussians; those of the geometry after Chen et al. 2024, "PGSR"."""

    flatness_weight: Weight = 0.0
    """Weight of the thickness of Gaussians, a share of their breadth, which makes them flat; 0: off. 1 for meshes."""
    normal_weight: Weight = 0.0
    """Weight of the difference between normals of Gaussians and of their planes' depth; 0: off. 0.2 for meshes."""
    normal_from: Share = 0.25
    """Share of the run after which the normals count."""

    def geometry_at(self, progress: float) -> tuple[str, ...]:
        """The normals, if their weight is above 0 and their share of the run is over; see `Loss.geometry_at`."""
        return counting(progress, (NORMALS, self.normal_weight, self.normal_from))
