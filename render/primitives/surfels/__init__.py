"""Surfels: flat Gaussians in space (Huang et al. 2024, "2D Gaussian Splatting")."""

from luxel.render.primitives.surfels.parameters import Surfels, neighbour_quats
from luxel.render.primitives.surfels.spec import SPEC
from luxel.render.primitives.surfels.training import SurfelLoss, SurfelRates

__all__ = ["SPEC", "SurfelLoss", "SurfelRates", "Surfels", "neighbour_quats"]
