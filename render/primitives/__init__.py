"""Primitives: parameters, activations, and what a rasterizer needs of them. One file per primitive."""

from luxel.render.primitives.convexes import Convexes
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.primitives.gaussians4d import Gaussians4d

__all__ = ["Convexes", "Gaussians", "Gaussians4d"]
