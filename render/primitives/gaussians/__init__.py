"""3D Gaussians (Kerbl et al. 2023, "3D Gaussian Splatting for Real-Time Radiance Field Rendering")."""

from luxel.render.primitives.gaussians.parameters import (
    SH_C0,
    Gaussians,
    neighbour_distance,
    quat_to_matrix,
)
from luxel.render.primitives.gaussians.spec import SPEC
from luxel.render.primitives.gaussians.training import GaussianLoss, GaussianRates

__all__ = [
    "SH_C0",
    "SPEC",
    "GaussianLoss",
    "GaussianRates",
    "Gaussians",
    "neighbour_distance",
    "quat_to_matrix",
]
