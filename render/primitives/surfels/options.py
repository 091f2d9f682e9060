"""Options of training surfels (Huang et al. 2024): rates, and weights of the loss."""

from __future__ import annotations

from dataclasses import dataclass

from luxel.render.bounds import PositiveShare, Rate, Share, Weight
from luxel.render.primitives.gaussians.options import GaussianRates
from luxel.render.primitives.training import Loss, counting, exponential

DISTORTION, NORMALS = "distortion", "normals"  # names of the terms of the geometry


@dataclass
class SurfelRates(GaussianRates):
    """Learning rates of surfels, those of Gaussians but for the rotations, which turn the surface with them."""

    quats: Rate = 4e-3
    """Rotations."""


@dataclass
class SurfelLoss(Loss):
    """Weights of the loss of surfels (Huang et al. 2024, section 5)."""

    distortion_weight: Weight = 0.0
    """Weight of the depth distortion, which draws the surfels of a pixel to one depth; 0: off. 5 for meshes."""
    distortion_from: Share = 0.1
    """Share of the run after which the depth distortion counts."""
    normal_weight: Weight = 0.0
    """Weight of the difference between normals of surfels and of the depth map; 0: off. 0.5 for meshes."""
    normal_from: Share = 0.25
    """Share of the run after which the normals count."""
    geometry_final: PositiveShare = 1.0
    """Factor on both weights at the end of the run, reached exponentially; 1: constant. 0.1 for meshes."""
    geometry_final_from: Share = 0.7
    """Share of the run after which both weights begin to fall."""

    def factor_at(self, progress: float) -> float:
        """Factor on both weights.

        Args:
            progress: share of the run that is done, in [0, 1].
        """
        late = max(0.0, progress - self.geometry_final_from) / max(1e-9, 1 - self.geometry_final_from)
        return exponential(1.0, self.geometry_final, late)

    def geometry_at(self, progress: float) -> tuple[str, ...]:
        """The terms whose weight is above 0 and whose share of the run is over; see `Loss.geometry_at`."""
        distortion = DISTORTION, self.distortion_weight, self.distortion_from
        return counting(progress, distortion, (NORMALS, self.normal_weight, self.normal_from))
