"""Smooth 3D convexes (Held et al. 2025, "3D Convex Splatting: Radiance Field Rendering with 3D Smooth Convexes")."""

from luxel.render.primitives.convexes.parameters import STARTING_SIGMA, Convexes, fibonacci_sphere
from luxel.render.primitives.convexes.spec import SPEC
from luxel.render.primitives.convexes.training import ConvexInit, ConvexLoss, ConvexRates

__all__ = [
    "SPEC",
    "STARTING_SIGMA",
    "ConvexInit",
    "ConvexLoss",
    "ConvexRates",
    "Convexes",
    "fibonacci_sphere",
]
